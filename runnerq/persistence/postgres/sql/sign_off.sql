-- A worker leaves: it claims nothing any more.
-- $1 worker bigint
-- Returns nothing. Locks the worker's row for update, waiting: claims of it that are under way end first.
with worker as materialized (
    select id from runnerq.worker where id = $1 for update
)
update runnerq.worker
set left_at = coalesce(left_at, now()), reaped_at = coalesce(reaped_at, now())
where id = (select id from worker)
