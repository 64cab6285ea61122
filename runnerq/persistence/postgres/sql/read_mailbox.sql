-- The signals of a run that nothing has taken.
-- $1 run uuid
-- Returns number, at, channel, value, oldest first; no row for an empty mailbox and for a run that is not there.
-- Locks nothing.
select number, at, channel, value::text
from runnerq.signal
where run_id = $1 and not taken
order by number
