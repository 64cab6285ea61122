-- End a schedule's pause, if it is still the one that was seen.
-- $1 name text  $2 serial bigint  $3 next_at timestamptz (null: none comes)
-- Returns a row if it was, and was paused.
-- Locks the schedule's row, waiting.
update runnerq.schedule
set serial = serial + 1, paused_at = null, next_at = $3, behind = false
where name = $1 and serial = $2 and paused_at is not null
returning name
