-- What a run has published.
-- $1 run uuid
-- Returns value, or no row.
-- Locks nothing.
select value from runnerq.state where run_id = $1
