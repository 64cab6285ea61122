-- Keep signals in the mailboxes of open runs, and wake those that wait for one of them.
-- $1 run uuid[]  $2 channel text[]  $3 value text[]  $4 dedup text[] (null: none)  $5 trace text[] (null: none), by place
-- Returns for each, in order: run_id, sent (sent | duplicate | finished | unknown), ready_queue (it woke the run),
--    worker_id (who holds the running run).
-- Locks the live rows by id, waiting; what the run wants and the time are read after the lock.
with sent as materialized (
    select s.n, s.run_id, s.channel, s.value, s.dedup, s.trace
    from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])
        with ordinality as s(run_id, channel, value, dedup, trace, n)
), box as materialized (                                -- lock by id alone, then judge what the lock shows
    select l.run_id, l.state, l.inbox, l.priority, l.wants_signals
    from (select distinct run_id from sent order by run_id) as s
    cross join lateral (
        select run_id, state, inbox, priority, wants_signals
        from runnerq.live
        where run_id = s.run_id
        for update
    ) as l
), numbered as materialized (
    select s.n, s.run_id, s.channel, s.value, s.dedup, s.trace, clock_timestamp() as at,
           (b.inbox + row_number() over (partition by s.run_id order by s.n))::integer as number
    from box as b
    join sent as s on s.run_id = b.run_id
), kept as (                                            -- the index, not a look, knows a dedup id that came meanwhile
    insert into runnerq.signal (run_id, number, at, channel, dedup, value, trace)
    select run_id, number, at, channel, dedup, value::json, trace
    from numbered
    order by n
    on conflict (run_id, channel, dedup) where dedup is not null do nothing
    returning run_id, number, channel
), next as materialized (
    select b.run_id, max(k.number) as inbox, b.state = 'waiting' and bool_or(k.channel = any(b.wants_signals)) as woken,
           now() - case b.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                   when 2 then interval '0' else interval '-10 minutes' end as rank
    from kept as k
    join box as b on b.run_id = k.run_id
    group by b.run_id, b.state, b.priority
), moved as (
    update runnerq.live as live
    set inbox = n.inbox,
        state = case when n.woken then 'pending' else live.state end,
        due_at = case when n.woken then null else live.due_at end,
        stack = case when n.woken then null else live.stack end,
        rank = case when n.woken then n.rank else live.rank end
    from next as n
    where live.run_id = any(array(select run_id from next))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = n.run_id
    returning live.run_id, live.state, live.queue, live.worker_id, n.woken
)
select s.run_id::text,
       case when k.number is not null then 'sent'
            when b.run_id is not null then 'duplicate'
            when (select x.run_id from runnerq.signal as x
                  where x.run_id = s.run_id and x.channel = s.channel and x.dedup = s.dedup) is not null then 'duplicate'
            when (select r.id from runnerq.run as r where r.id = s.run_id) is not null
                 or (select o.run_id from runnerq.outcome as o where o.run_id = s.run_id) is not null then 'finished'
            else 'unknown' end as sent,
       case when m.woken then m.queue end as ready_queue,
       case when m.state = 'running' then m.worker_id end as worker_id
from sent as s
left join numbered as b on b.n = s.n
left join kept as k on k.run_id = b.run_id and k.number = b.number
left join moved as m on m.run_id = s.run_id
order by s.n
