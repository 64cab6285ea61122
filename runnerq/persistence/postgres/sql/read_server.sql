-- What this server is, how it is set for whoever asks, and how much of it is taken.
-- $1 settings text[]: names
-- Returns one row: number, version, now, database, role, standby, sees_all (the statements of all roles), taken (connections),
-- size (bytes of this database), and names with values of the settings that it has. Locks nothing.
select current_setting('server_version_num')::integer as number, current_setting('server_version') as version,
       clock_timestamp() as now, current_database()::text as database, current_user::text as role,
       pg_is_in_recovery() as standby, pg_has_role('pg_read_all_stats', 'usage') as sees_all,
       (select sum(numbackends)::bigint from pg_stat_database) as taken,
       pg_database_size(current_database()) as size, s.names, s.values
from (
    select array_agg(name) as names, array_agg(setting) as values from pg_settings where name = any($1::text[])
) as s
