-- Take a run's lock, behind whoever holds it: what he has committed is seen by the statement after this one.
-- $1 run_id uuid
-- Returns token and state of a run that is open.
-- Locks the run's live row, and waits for it.
select token, state from runnerq.live where run_id = $1::uuid for update
