-- Make a delayed run, or one between two attempts, ready now.
-- $1 run uuid
-- Returns one row: changed (changed | unchanged: it is ready or running | refused | unknown | again: it was worked on
--    meanwhile, so that its attempts as read here are stale; nothing was done) and queue.
-- Its token stays, so that whoever has its generator goes on with that; its step's next attempt is due now.
-- Locks its live row, waiting.
with seen as materialized (
    select xmin as version from runnerq.live where run_id = $1::uuid
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select run_id, live.xmin as version, state, due_at from runnerq.live where run_id = $1::uuid for update
), judged as materialized (
    select h.run_id,
           case when h.state = 'running' or h.state = 'pending' and h.due_at is null then 'unchanged'
                when s.version is null or s.version <> h.version then 'again'
                when h.state = 'pending'
                     or h.state = 'waiting' and exists (
                         select from runnerq.attempt where run_id = h.run_id and next_at is not null) then 'changed'
                else 'refused' end as changed
    from held as h
    left join seen as s on true
), moved as (
    update runnerq.live as live
    set state = 'pending', due_at = null, stack = null,
        rank = now() - case live.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                          when 2 then interval '0' else interval '-10 minutes' end
    where live.run_id = $1::uuid and (select changed from judged) = 'changed'
    returning live.queue
), hurried as (
    update runnerq.attempt
    set next_at = now()
    where run_id = $1::uuid and next_at > now() and (select changed from judged) = 'changed'
), told as (
    insert into runnerq.event (kind, run_id) select 'run_now', run_id from judged where changed = 'changed'
)
select coalesce((select changed from judged),
                case when (select id from runnerq.run where id = $1::uuid) is not null then 'refused' else 'unknown' end)
           as changed,
       (select queue from moved) as queue
