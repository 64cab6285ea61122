-- What is known under a name, or at all.
-- $1 name text (null: all)
-- Returns the columns of a Definition, by name, highest version first; served says that a living worker
--    (see read_workers.sql) serves it.
-- Locks nothing. There are as many rows as there are names in the code, and as many workers as there are.
select d.kind, d.name, d.version, d.queue, d.build, d.options, d.schema,
       case d.kind when 'workflow' then concat(d.name, '@', d.version) else d.name end = any(array(
           select unnest(w.served)
           from runnerq.worker as w
           where w.reaped_at is null
             and w.beat_at + least(w.lease, greatest(3, w.lease / 6)) * interval '1 second' >= now()
             and (w.backend_start is null or w.beat_at >= now() - interval '3 seconds'
                  or exists (select from pg_stat_get_activity(w.backend_pid) as a
                             where a.backend_start is null or a.backend_start = w.backend_start)))) as served
from runnerq.definition as d
where $1::text is null or d.name = $1::text
order by d.name, d.version desc, d.kind
