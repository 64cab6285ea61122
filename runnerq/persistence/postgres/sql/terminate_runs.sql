-- End open runs at once as cancelled, whoever holds them, and tell their parents.
-- $1 run uuid[] (distinct)
-- Returns run_id, sent (sent | finished | unknown | again: its parent ended or was opened again meanwhile, nothing was done),
--    worker_id (who held the run), parent_queue (the end woke the parent), parent_worker (who holds the running parent).
-- Locks the live rows of the runs and of their parents, by id, then the outcomes of parents that have ended, against their
--    being opened again meanwhile; waits for all, in the order of cancel_runs.sql. The token of such an end is nobody's, so
--    that what a holder still writes is lost.
-- [as in cancel_runs: box]
), above as materialized (
    select p.run_id, (select l.run_id from runnerq.live as l where l.run_id = p.run_id) is null
                     and ((select o.run_id from runnerq.outcome as o where o.run_id = p.run_id) is null
                          or (select o.run_id from runnerq.outcome as o where o.run_id = p.run_id for key share) is not null)
                     as ended
    from (
        select distinct b.parent_id as run_id
        from named as c
        join box as b on b.run_id = c.run_id
        where b.parent_id is not null and not exists (select from box as p where p.run_id = b.parent_id)
        order by 1
    ) as p
), ended as materialized (
    select b.run_id, b.parent_id, b.state, b.worker_id, b.started_at, b.generation, b.cancel, clock_timestamp() as at
    from named as c
    join box as b on b.run_id = c.run_id
    where not exists (select from above as p where p.run_id = b.parent_id and not p.ended)
), come as materialized (                               -- what ends bring to the parents that go on
    select e.parent_id as run_id, count(*)::integer as inbox,
           (count(*) filter (where p.wants_children is null or e.run_id = any(p.wants_children)))::integer as wanted
    from ended as e
    join box as p on p.run_id = e.parent_id
    where not exists (select from ended as x where x.run_id = e.parent_id)
    group by e.parent_id
), moved as (
    update runnerq.live as live
    set inbox = p.inbox + c.inbox,
        arrived = case when p.state = 'waiting' then p.arrived + c.wanted else p.arrived end,
        state = case when w.woken then 'pending' else live.state end,
        due_at = case when w.woken then null else live.due_at end,
        stack = case when w.woken then null else live.stack end,
        rank = case when w.woken
                    then now() - case p.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                                 when 2 then interval '0' else interval '-10 minutes' end
                    else p.rank end
    from come as c
    join box as p on p.run_id = c.run_id
    cross join lateral (select p.state = 'waiting' and c.wanted > 0 as woken) as w
    where live.run_id = any(array(select run_id from come))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = p.run_id
    returning live.run_id, live.state, live.queue, live.worker_id, w.woken
), gone as (
    delete from runnerq.live where run_id = any(array(select run_id from ended))
), kept as (
    insert into runnerq.outcome (run_id, token, ended_at, started_at, generation, cancel_requested, status, reason)
    select run_id, 0, at, started_at, generation, cancel is not null, 'cancelled', 'terminated'
    from ended
), settled as (
    delete from runnerq.attempt where run_id = any(array(select run_id from ended))
), freed as (
    delete from runnerq.block where run_id = any(array(select run_id from ended))
), told as (
    insert into runnerq.event (kind, run_id) select 'terminated', run_id from ended
)
select c.run_id::text,
       case when e.run_id is not null then 'sent'
            when b.run_id is not null then 'again'
            when (select r.id from runnerq.run as r where r.id = c.run_id) is not null
                 or (select o.run_id from runnerq.outcome as o where o.run_id = c.run_id) is not null then 'finished'
            else 'unknown' end as sent,
       case when e.state = 'running' then e.worker_id end as worker_id,
       case when up.woken then up.queue end as parent_queue,
       case when up.state = 'running' then up.worker_id end as parent_worker
from named as c
left join box as b on b.run_id = c.run_id
left join ended as e on e.run_id = c.run_id
left join moved as up on up.run_id = e.parent_id
order by c.n
