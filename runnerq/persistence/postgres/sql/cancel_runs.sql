-- Ask open runs to cancel. One that never started ends as cancelled at once, and tells its parent. One that nobody holds no
-- longer counts against its limit: what holds the places may be waiting for it, or there may be none.
-- $1 run uuid[] (distinct)  $2 reason text (null: none)
-- Returns run_id, sent (sent | duplicate | finished | unknown | again: it was to end, and its parent ended or was opened
--    again meanwhile; nothing was done), ended, ready_queue (the run's, if it is ready now), worker_id (who holds the running
--    run), parent_id, parent_queue (the end woke the parent), parent_worker.
-- Locks the live rows of the runs and of their parents, by id, then the outcomes of parents that have ended of runs that end,
--    against their being opened again meanwhile; waits for all. What locks the live rows is a part of terminate_runs.sql, too,
--    and the outcomes follow in the same order: else the two could deadlock.
-- [part box
with named as materialized (
    select c.n, c.run_id from unnest($1::uuid[]) with ordinality as c(run_id, n)
), box as materialized (                                -- lock by id alone, then judge what the lock shows
    select l.run_id, l.state, l.inbox, l.arrived, l.priority, l.rank, l.due_at, l.started_at, l.cancel, l.parent_id,
           l.generation, l.worker_id, l.wants_children
    from (
        select run_id from named
        union
        select l.parent_id
        from named as c
        cross join lateral (select parent_id from runnerq.live where run_id = c.run_id offset 0) as l
        where l.parent_id is not null
        order by run_id
    ) as c
    cross join lateral (
        select run_id, state, inbox, arrived, priority, rank, due_at, started_at, cancel, parent_id, generation, worker_id,
               wants_children
        from runnerq.live
        where run_id = c.run_id
        for update
    ) as l
-- part]
), above as materialized (
    select p.run_id, (select l.run_id from runnerq.live as l where l.run_id = p.run_id) is null
                     and ((select o.run_id from runnerq.outcome as o where o.run_id = p.run_id) is null
                          or (select o.run_id from runnerq.outcome as o where o.run_id = p.run_id for key share) is not null)
                     as ended
    from (
        select distinct b.parent_id as run_id
        from named as c
        join box as b on b.run_id = c.run_id
        where b.cancel is null and b.state = 'pending' and b.started_at is null
          and b.parent_id is not null and not exists (select from box as p where p.run_id = b.parent_id)
        order by 1
    ) as p
), asked as materialized (
    select b.run_id, b.parent_id, b.generation, b.state = 'pending' and b.started_at is null as ends, clock_timestamp() as at
    from named as c
    join box as b on b.run_id = c.run_id
    where b.cancel is null
      and not (b.state = 'pending' and b.started_at is null
               and exists (select from above as p where p.run_id = b.parent_id and not p.ended))
), come as materialized (                               -- what ended children bring to their parents
    select a.parent_id as run_id, count(*)::integer as inbox,
           (count(*) filter (where p.wants_children is null or a.run_id = any(p.wants_children)))::integer as wanted
    from asked as a
    join box as p on p.run_id = a.parent_id
    where a.ends
    group by a.parent_id
), next as materialized (                               -- the one new version of every row that changes
    select b.run_id, w.woken, a.at as cancel_at,
           b.inbox + coalesce(c.inbox, 0) + (a.run_id is not null)::integer as inbox,
           case when b.state = 'waiting' then b.arrived + coalesce(c.wanted, 0) else b.arrived end as arrived,
           case when w.woken
                then now() - case b.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                             when 2 then interval '0' else interval '-10 minutes' end
                else b.rank end as rank
    from box as b
    left join asked as a on a.run_id = b.run_id
    left join come as c on c.run_id = b.run_id
    cross join lateral (
        select a.run_id is not null and (b.state = 'waiting' or b.state = 'pending' and b.due_at is not null)
               or b.state = 'waiting' and coalesce(c.wanted, 0) > 0 as woken
    ) as w
    where (a.run_id is not null and not a.ends) or (c.run_id is not null and not coalesce(a.ends, false))
), moved as (
    update runnerq.live as live
    set inbox = n.inbox, arrived = n.arrived, rank = n.rank,
        state = case when n.woken then 'pending' else live.state end,
        due_at = case when n.woken then null else live.due_at end,
        stack = case when n.woken then null else live.stack end,
        cancel = case when n.cancel_at is not null then coalesce($2::text, '') else live.cancel end,
        cancel_at = coalesce(n.cancel_at, live.cancel_at),
        limit_scope = case when n.cancel_at is null or live.state = 'running' then live.limit_scope end,
        limit_key = case when n.cancel_at is null or live.state = 'running' then live.limit_key end
    from next as n
    where live.run_id = any(array(select run_id from next))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = n.run_id
    returning live.run_id, live.state, live.queue, live.worker_id, n.woken
), gone as (
    delete from runnerq.live where run_id = any(array(select run_id from asked where ends))
), ended as (
    insert into runnerq.outcome (run_id, token, ended_at, generation, cancel_requested, status, reason)
    select run_id, 0, at, generation, true, 'cancelled', $2::text
    from asked
    where ends
)
select c.run_id::text,
       case when a.run_id is not null then 'sent'
            when b.cancel is not null then 'duplicate'
            when b.run_id is not null then 'again'
            when (select r.id from runnerq.run as r where r.id = c.run_id) is not null
                 or (select o.run_id from runnerq.outcome as o where o.run_id = c.run_id) is not null then 'finished'
            else 'unknown' end as sent,
       coalesce(a.ends, false) as ended,
       case when own.state = 'pending' then own.queue end as ready_queue,
       case when own.state = 'running' and a.run_id is not null then own.worker_id end as worker_id,
       case when a.ends then a.parent_id::text end as parent_id,
       case when a.ends and up.woken then up.queue end as parent_queue,
       case when a.ends and up.state = 'running' then up.worker_id end as parent_worker
from named as c
left join box as b on b.run_id = c.run_id
left join asked as a on a.run_id = c.run_id
left join moved as own on own.run_id = c.run_id
left join moved as up on up.run_id = a.parent_id
order by c.n
