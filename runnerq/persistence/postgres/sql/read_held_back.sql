-- What has been open for long in this database, so that rows which died since may not be cleared away.
-- $1 age double precision (seconds)
-- Returns kind, pid, age (seconds; null: counted in transactions, a million or more), role, name (of the application, the prepared
-- transaction, the slot, the replica), state, the beginning of its last query, and keeps (dead rows are kept for it now), the
-- oldest first. Those of other roles are seen by members of pg_read_all_stats alone. Locks nothing.
select 'transaction' as kind, a.pid, extract(epoch from clock_timestamp() - a.xact_start)::double precision as age,
       a.usename::text as role, a.application_name as name, a.state,
       left(regexp_replace(a.query, '\s+', ' ', 'g'), 80) as query,
       a.backend_xid is not null or a.backend_xmin is not null as keeps
from pg_stat_activity as a
where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
      and a.xact_start <= clock_timestamp() - $1 * interval '1 second'
union all
select 'prepared transaction', null, extract(epoch from clock_timestamp() - p.prepared)::double precision, p.owner::text, p.gid,
       null, null, true
from pg_prepared_xacts as p
where p.database = current_database() and p.prepared <= clock_timestamp() - $1 * interval '1 second'
union all
select 'replication slot', s.active_pid, null, null, s.slot_name::text, null, null, true
from pg_replication_slots as s
where age(s.xmin) > 1000000
union all
select 'replica', r.pid, null, r.usename::text, r.application_name, r.state, null, true
from pg_stat_replication as r
where age(r.backend_xmin) > 1000000
order by age desc nulls last
