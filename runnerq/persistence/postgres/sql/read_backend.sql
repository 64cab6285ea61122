-- Which backend serves this connection.
-- Returns pid and start. Locks nothing.
select pg_backend_pid() as pid, (select backend_start from pg_stat_get_activity(pg_backend_pid())) as start
