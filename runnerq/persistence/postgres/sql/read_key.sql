-- The run that holds an idempotency key.
-- $1 name text  $2 key text
-- Returns run_id, or no row.
-- Locks nothing.
select run_id::text from runnerq.key where name = $1 and key = $2
