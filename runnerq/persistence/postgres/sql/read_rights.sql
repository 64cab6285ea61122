-- The rights that whoever asks does not have.
-- $1 schema text  $2 tables text[]  $3 rights text[]: what is needed, by place
-- Returns name and needs (the right) of each that is missing; a table that is not there is left out. Locks nothing.
select n.nspname::text as name, 'usage' as needs
from pg_namespace as n
where n.nspname = $1 and not has_schema_privilege(n.oid, 'usage')
union all
select c.relname::text, needed.needs
from unnest($2::text[], $3::text[]) as needed(name, needs)
join pg_namespace as n on n.nspname = $1
join pg_class as c on c.relnamespace = n.oid and c.relname = needed.name
where not has_table_privilege(c.oid, needed.needs)
union all
select p.proname || '()', 'execute'
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname = $1 and not has_function_privilege(p.oid, 'execute')
order by 1, 2
