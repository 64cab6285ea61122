-- Why a run is blocked.
-- $1 run uuid
-- Returns the columns of a BlockRecord, or no row where the run is not blocked (now).
-- Locks nothing.
select b.run_id::text, b.at, b.message, b.builds, b.position, b.recorded, b.asked, b.line, b.traceback, b.retry_at
from runnerq.block as b
join runnerq.live as l on l.run_id = b.run_id
where b.run_id = $1 and l.state = 'blocked'
