-- Runs as a shop has them after a month: one of fifty is open, and of a hundred that ended one or two did not complete.
-- $1 first integer  $2 last integer: which of the million
-- Returns nothing.
with batch as materialized (
    select n, now() - (1000000 - n) * interval '2.5 seconds' as at,
           (lpad(to_hex((extract(epoch from now() - (1000000 - n) * interval '2.5 seconds') * 1000)::bigint), 12, '0')
            || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || substr(md5(n::text), 1, 15))::uuid as id,
           (array['checkout', 'charge_card', 'ship_order', 'send_mail', 'refund', 'import_catalogue', 'resize_image',
                  'nightly_report', 'sync_crm', 'renew_subscription'])[1 + n % 10] as name,
           (array['default', 'mails', 'slow', 'default'])[1 + n % 4] as queue
    from generate_series($1::integer, $2::integer) as n
), family as materialized (                             -- one of ten was started by another
    select n, at, id, name, queue, case when n % 10 = 7 then lag(id, 7) over (order by n) end as parent_id
    from batch
), cold as (
    insert into runnerq.run
        (id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, input, metadata)
    select id, parent_id, parent_id, at, 1 + (n % 50 = 3)::integer, 2, 0, 'workflow', name, queue,
           case when n % 2 = 0 then 'order-' || n end, json_build_array(repeat('x', 200), n),
           json_build_object('tenant', 't' || n % 200, 'region', 'eu')
    from family
), over as (
    insert into runnerq.outcome (run_id, token, ended_at, started_at, status, reason, result, error)
    select id, 1, at + interval '3 seconds', at + interval '1 second',
           case when n % 100 = 5 then 'dead_letter' when n % 200 = 11 then 'failed' when n % 500 = 12 then 'cancelled'
                else 'completed' end,
           case when n % 500 = 12 then 'the customer left' end,
           case when n % 100 <> 5 and n % 200 <> 11 then to_json(repeat('y', 200)) end,
           case when n % 100 = 5 or n % 200 = 11 then
               json_build_object('type', (array['TimeoutError', 'CardDeclined', 'HTTPStatusError'])[1 + n % 3], 'module', 'shop',
                                 'message', 'card ' || md5(n::text) || ' of order-' || n || ' was declined by bank ' || n % 7,
                                 'stack', repeat(e'  File "/srv/shop/pay.py", line 17, in charge\n', 30), 'retryable', false)
           end
    from batch
    where n % 50 <> 4
), journal as (
    insert into runnerq.journal (run_id, token, at, generation, place, kind, position, value)
    select id, 1, at, 1, place, case place when 0 then 'started' else 'answered' end, place::text,
           case place when 0 then '{"build":"b1"}'::json else to_json(repeat('z', 100)) end
    from batch
    cross join generate_series(0, 2) as place
)
insert into runnerq.live
    (run_id, worker_id, rank, due_at, started_at, parked_at, priority, state, queue, served, wants_signals)
select id, case when n % 5000 = 4 then 1 end, at, case when n % 1000 = 54 then now() + interval '1 hour' end, at, at, 2,
       case when n % 5000 = 4 then 'running' when n % 5000 = 104 then 'blocked' when n % 500 < 100 then 'pending'
            else 'waiting' end,
       queue, name || '@1', '{approval}'
from batch
where n % 50 = 4
