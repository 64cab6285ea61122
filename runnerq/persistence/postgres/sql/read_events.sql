-- What happened between two snapshots, in the order of the transactions that wrote it.
-- $1 limit integer  $2 old_xmax bigint  $3 old_open bigint[]: what the reader has seen is what was over then; of what was
--    open, those that are not in $5
-- $4 new_xmax bigint  $5 new_open bigint[]: the snapshot up to which it is to see  $6 xid bigint  $7 source integer  $8 id uuid:
--    where among these it has come
-- Returns xid, source, id (the place of each), at, kind, run_id, name, queue, data.
-- Locks nothing. Each source is looked up by what wrote it, over coarse indexes that must be scanned as bitmaps: run it with
--    fetch_fresh.
with happened as (
    select r.xid, 0 as source, r.id, r.created_at as at, 'started' as kind, r.id as run_id, r.name, r.queue,
           null::text as data
    from runnerq.run as r
    where (r.xid >= $2::bigint or r.xid = any($3::bigint[])) and r.xid < $4::bigint and not r.xid = any($5::bigint[])
      and r.xid >= $6::bigint and (r.xid, 0, r.id) > ($6::bigint, $7::integer, $8::uuid)
    union all
    select e.xid, 1, lpad(to_hex(e.number), 32, '0')::uuid, e.at, e.kind, e.run_id, e.name, e.queue, e.data::text
    from runnerq.event as e
    where (e.xid >= $2::bigint or e.xid = any($3::bigint[])) and e.xid < $4::bigint and not e.xid = any($5::bigint[])
      and e.xid >= $6::bigint and (e.xid, 1, lpad(to_hex(e.number), 32, '0')::uuid) > ($6::bigint, $7::integer, $8::uuid)
    union all
    select o.xid, 2, o.run_id, o.ended_at, o.status, o.run_id, null, null,
           case when o.reason is not null then json_build_object('reason', o.reason)::text end
    from runnerq.outcome as o
    where (o.xid >= $2::bigint or o.xid = any($3::bigint[])) and o.xid < $4::bigint and not o.xid = any($5::bigint[])
      and o.xid >= $6::bigint and (o.xid, 2, o.run_id) > ($6::bigint, $7::integer, $8::uuid)
)
select h.xid, h.source, h.id::text, h.at, h.kind, h.run_id::text, coalesce(h.name, r.name) as name,
       coalesce(h.queue, r.queue) as queue, h.data
from (select xid, source, id, at, kind, run_id, name, queue, data from happened order by xid, source, id limit $1) as h
left join lateral (select name, queue from runnerq.run where id = h.run_id and h.source > 0 offset 0) as r on true
order by h.xid, h.source, h.id
