-- Ask a worker to stop in order; its next beat is told.
-- $1 worker bigint
-- Returns a row if it is on record and has not gone: asked is whether it was not asked before.
-- Locks the worker's row, waiting.
with old as materialized (
    select id, drain_at from runnerq.worker where id = $1 and reaped_at is null for no key update
)
update runnerq.worker as w
set drain_at = coalesce(w.drain_at, now())
from old
where w.id = old.id
returning old.drain_at is null as asked
