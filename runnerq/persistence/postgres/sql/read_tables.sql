-- How large the tables of a schema are, how much of them is dead, and whether they are cleared.
-- $1 schema text
-- Returns name, bytes (with indexes), alive, dead (rows, as counted by the server), cleared_at (the last vacuum; null: never),
-- cleared (autovacuum is on for it) and broken (indexes that are not in use), the largest first. Locks nothing.
select c.relname::text as name, pg_total_relation_size(c.oid) as bytes, coalesce(s.n_live_tup, 0) as alive,
       coalesce(s.n_dead_tup, 0) as dead, greatest(s.last_vacuum, s.last_autovacuum) as cleared_at,
       not exists (
           select from pg_options_to_table(c.reloptions) as o
           where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean
       ) as cleared,
       array(
           select x.relname::text
           from pg_index as i
           join pg_class as x on x.oid = i.indexrelid
           where i.indrelid = c.oid and not i.indisvalid
           order by 1
       ) as broken
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
left join pg_stat_user_tables as s on s.relid = c.oid
where n.nspname = $1 and c.relkind = 'r'
order by bytes desc, name
