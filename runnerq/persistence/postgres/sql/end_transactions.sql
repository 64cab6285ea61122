-- End the sessions that have a transaction of one of these runs open (enter_answer.sql): whoever did it has lost the run.
-- $1 run_ids text[]
-- Returns how many there were. One that the next holder has just begun may be among them: it is run again.
-- Locks nothing.
select count(pg_terminate_backend(pid)) as ended
from pg_stat_activity
where application_name like 'runnerq %' and substring(application_name from 9 for 36) = any($1::text[])
  and datname = current_database() and usename = current_user and pid <> pg_backend_pid() and xact_start < now()
