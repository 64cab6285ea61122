-- Which transactions are over.
-- Returns the snapshot as text: xmin:xmax:those between that are not. Locks nothing.
select pg_current_snapshot()::text as snapshot
