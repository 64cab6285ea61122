-- Why a run is blocked.
-- $1 run uuid
-- Returns the columns of a BlockRecord, or no row where the run is not blocked (now).
-- Locks nothing.
select b.run_id::text, b.at, b.message, b.builds, b.position, b.recorded, b.asked, b.line, b.traceback, b.retry_at
from runnerq.block as b
cross join lateral (select state from runnerq.live where run_id = b.run_id offset 0) as l
where b.run_id = $1 and l.state = 'blocked'
