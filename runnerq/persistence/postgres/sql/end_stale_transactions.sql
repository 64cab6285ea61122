-- End the sessions that have a transaction of this name open, and wait until they are gone, for a second at most.
-- $1 application_name text
-- Returns how many there were.
-- Locks nothing.
select count(pg_terminate_backend(pid, 1000)) as ended
from pg_stat_activity
where application_name = $1::text and datname = current_database() and usename = current_user and pid <> pg_backend_pid()
