-- How far the count of minutes has come.
-- Returns seen text, due (the last look that came to the end is old enough) and snapshot text, the present one.
-- Locks nothing.
select seen, at < now() - interval '8 seconds' as due, pg_current_snapshot()::text as snapshot
from runnerq.tally
