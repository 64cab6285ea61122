-- Take a schedule to fire it, if it is the one that was seen, and nobody else is at it.
-- $1 name text  $2 serial bigint
-- Returns a row if so: open text[], those of its last runs that have not ended.
-- Locks the schedule's row, skipping it if somebody has it: first of all that a firing locks. Keys follow (start_runs.sql),
--    then live rows (cancel_runs.sql).
with held as materialized (                             -- lock by name alone, then judge what the lock shows
    select serial, runs from runnerq.schedule where name = $1 for update skip locked
)
select array(
    select r.id::text
    from unnest(h.runs) with ordinality as r(id, n)
    cross join lateral (select run_id from runnerq.live where run_id = r.id offset 0) as l
    order by r.n
) as open
from held as h
where h.serial = $2
