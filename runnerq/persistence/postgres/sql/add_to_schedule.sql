-- Count a run that was triggered among the last ones of its schedule.
-- $1 name text  $2 run uuid  $3 kept integer: how many of its runs it names
-- Returns a row if there is such a schedule.
-- Locks the schedule's row, waiting.
update runnerq.schedule
set serial = serial + 1, runs = (array_remove(runs, $2::uuid) || $2::uuid)[greatest(1, cardinality(runs) + 2 - $3::integer):]
where name = $1
returning name
