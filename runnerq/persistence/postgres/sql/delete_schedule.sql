-- Delete a schedule; its runs go on.
-- $1 name text
-- Returns a row if there was one.
-- Locks the schedule's row, waiting.
delete from runnerq.schedule where name = $1 returning name
