-- The schedules, by name.
-- $1 name text (null: all)
-- Returns the columns of a ScheduleRecord.
-- Locks nothing. There are as many rows as people have made.
select name, serial, next_at, paused_at, since, created_at, last_at, started, skipped, behind, runs::text[] as runs,
       rule::text as rule, input::text as input
from runnerq.schedule
where $1::text is null or name = $1::text
order by name
