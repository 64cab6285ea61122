-- Write a worker's row, what it serves, and its build where nobody has yet.
-- $1 id bigint  $2 lease double precision (seconds)  $3 host text  $4 pid integer  $5 build text  $6 queues text[]
-- $7 served text[]  $8 slots integer; what is registered, by place: $9 kind text[]  $10 name text[]  $11 version integer[]
-- $12 queue text[]  $13 build text[]  $14 options text[]  $15 schema text[] (JSON texts); $16 library text
-- Returns now (database time) and build_seen (when its build first came). A worker that was reaped stays so.
-- Locks the worker's row, then definitions in the order of their key, then the build's row, waiting.
with worker as (
    insert into runnerq.worker as kept (id, beat_at, lease, host, pid, build, queues, served, slots, library)
    values ($1, now(), $2, $3, $4, $5, $6, $7, $8, $16)
    on conflict (id) do update
    set beat_at = now(), lease = excluded.lease, queues = excluded.queues, served = excluded.served, slots = excluded.slots,
        library = excluded.library
    where kept.reaped_at is null
), defined as (
    insert into runnerq.definition as kept (kind, name, version, queue, build, options, schema)
    select d.kind, d.name, d.version, d.queue, d.build, d.options::json, d.schema::json
    from unnest($9::text[], $10::text[], $11::integer[], $12::text[], $13::text[], $14::text[], $15::text[])
         as d(kind, name, version, queue, build, options, schema)
    order by d.name, d.version, d.kind
    on conflict (name, version, kind) do update
    set queue = excluded.queue, build = excluded.build, options = excluded.options, schema = excluded.schema
    where (kept.queue, kept.build, kept.options::text, kept.schema::text)
          is distinct from (excluded.queue, excluded.build, excluded.options::text, excluded.schema::text)
), seen as (                                            -- do update, not do nothing: a concurrent loser must see the time
    insert into runnerq.build as kept (build) values ($5)
    on conflict (build) do update set build = kept.build
    returning first_seen
)
select now() as now, first_seen as build_seen from seen
