-- How many runs a worker holds.
-- $1 worker bigint
-- Returns how_many. Locks nothing.
select count(*)::integer as how_many from runnerq.live where worker_id = $1 and state = 'running'
