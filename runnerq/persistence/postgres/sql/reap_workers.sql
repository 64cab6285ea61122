-- Take the runs of workers that are gone.
-- $1 worker bigint  $2 token bigint (fresh, the caller's)  $3 limit integer  $4 crash_cap integer
-- A worker is gone when its lease has run out, or when its beat's backend is visibly not there any more (a start that this
--    role may not see counts as present) and no beat came for 3 s. What was reaped or has left stays so, and runs of it,
--    or of a worker that has no row, are taken too: a claim may have come late.
-- Returns run_id, served, crashes, held (it crashed too often: the caller holds it now, to end it), ready_queue, limit_scope and
--    limit_key (of a place that is free again; null: none). The first crash goes back at once, the next after 1, 2, 4 s, with jitter, so that suspects part from bystanders. A worker that left by itself
--    crashed nothing, and a run that is to cancel does not wait.
-- Locks worker rows for update (their claims that are under way end first), then live rows; skips what somebody holds.
with recursive holder(id) as (                          -- who holds anything: a probe each, not a scan of what they hold
    (select worker_id from runnerq.live where state = 'running' order by worker_id limit 1)
    union all
    select (select l.worker_id from runnerq.live as l
            where l.state = 'running' and l.worker_id > h.id order by l.worker_id limit 1)
    from holder as h
    where h.id is not null
), dying as materialized (
    select w.id
    from runnerq.worker as w
    where w.reaped_at is null and w.id <> $1
      and (w.beat_at + w.lease * interval '1 second' < now()
           or (w.backend_start is not null and w.beat_at < now() - interval '3 seconds'
               and not exists (
                   select from pg_stat_get_activity(w.backend_pid) as a
                   where a.backend_start is null or a.backend_start = w.backend_start)))
    order by w.id
    for update skip locked
), marked as (
    update runnerq.worker set reaped_at = now() where id = any(array(select id from dying))
), gone as materialized (
    select id, false as left_by_itself from dying
    union all
    select h.id, w.left_at is not null
    from holder as h
    left join lateral (select id, reaped_at, left_at from runnerq.worker where id = h.id offset 0) as w on true
    where h.id is not null and h.id <> $1 and (w.id is null or w.reaped_at is not null)
), lost as materialized (
    select l.run_id, l.crashes + case when g.left_by_itself then 0 else 1 end as crashes, l.priority, l.limit_scope,
           l.limit_key, g.left_by_itself, g.id as worker_id
    from gone as g
    cross join lateral (
        select run_id, crashes, priority, limit_scope, limit_key
        from runnerq.live
        where worker_id = g.id and state = 'running'
        order by run_id
        limit $3::integer
        for update skip locked
    ) as l
    limit $3::integer
), moved as (
    update runnerq.live as live
    set crashes = b.crashes, prior = 0,
        state = case when b.crashes < $4::integer then 'pending' else 'running' end,
        token = case when b.crashes < $4::integer then -live.token else $2::bigint end,
        worker_id = case when b.crashes < $4::integer then live.worker_id else $1::bigint end,
        rank = now() - case b.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                       when 2 then interval '0' else interval '-10 minutes' end,
        due_at = case when b.crashes between 2 and $4::integer - 1 and not b.left_by_itself and live.cancel is null
                      then now() + (0.8 + 0.4 * random()) * 2 ^ (b.crashes - 2) * interval '1 second' end,
        limit_scope = case when live.cancel is null or b.crashes >= $4::integer then live.limit_scope end,
        limit_key = case when live.cancel is null or b.crashes >= $4::integer then live.limit_key end
    from lost as b
    where live.run_id = any(array(select run_id from lost))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = b.run_id
    returning live.run_id, live.served, live.crashes, live.state, live.due_at, live.queue, b.limit_scope, b.limit_key,
              b.worker_id, b.left_by_itself
), told as (
    insert into runnerq.event (kind, run_id, data)
    select 'crashed', run_id, json_build_object('crashes', crashes, 'worker', worker_id)
    from moved
    where not left_by_itself
)
select run_id::text, served, crashes, state = 'running' as held,
       case when state = 'pending' and due_at is null then queue end as ready_queue,
       case when state = 'pending' then limit_scope end as limit_scope, limit_key
from moved
