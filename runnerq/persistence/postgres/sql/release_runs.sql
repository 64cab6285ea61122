-- Give back the runs that a worker holds under other tokens than these, without burning anything.
-- $1 worker bigint  $2 held bigint[]
-- Returns queue, limit_scope, limit_key (of places that are free again; null: none) and how_many. Their tokens turn negative, so that no old claim writes any more; their ranks stay.
-- Locks the live rows it moves, skipping those that somebody holds: it is asked again.
with held as materialized (
    select run_id, limit_scope, limit_key
    from runnerq.live
    where worker_id = $1 and state = 'running' and token <> all($2::bigint[])
    order by run_id
    for update skip locked
), moved as (
    update runnerq.live as live
    set state = 'pending', token = -live.token, prior = 0,
        limit_scope = case when live.cancel is null then live.limit_scope end,
        limit_key = case when live.cancel is null then live.limit_key end
    from held as h
    where live.run_id = any(array(select run_id from held))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = h.run_id
    returning live.queue, h.limit_scope, h.limit_key
)
select queue, limit_scope, limit_key, count(*)::integer as how_many from moved group by queue, limit_scope, limit_key
