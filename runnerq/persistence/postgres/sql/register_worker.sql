-- Write a worker's row, what it serves, and its build where nobody has yet.
-- $1 id bigint  $2 lease double precision (seconds)  $3 host text  $4 pid integer  $5 build text  $6 queues text[]
-- $7 served text[]; what is registered, by place: $8 kind text[]  $9 name text[]  $10 version integer[]  $11 queue text[]
-- $12 build text[]  $13 options text[]
-- Returns now (database time) and build_seen (when its build first came). A worker that was reaped stays so.
-- Locks the worker's row, then definitions in the order of their key, then the build's row, waiting.
with worker as (
    insert into runnerq.worker as kept (id, beat_at, lease, host, pid, build, queues, served)
    values ($1, now(), $2, $3, $4, $5, $6, $7)
    on conflict (id) do update
    set beat_at = now(), lease = excluded.lease, queues = excluded.queues, served = excluded.served
    where kept.reaped_at is null
), defined as (
    insert into runnerq.definition as kept (kind, name, version, queue, build, options)
    select d.kind, d.name, d.version, d.queue, d.build, d.options::json
    from unnest($8::text[], $9::text[], $10::integer[], $11::text[], $12::text[], $13::text[])
         as d(kind, name, version, queue, build, options)
    order by d.name, d.version, d.kind
    on conflict (name, version, kind) do update
    set queue = excluded.queue, build = excluded.build, options = excluded.options
    where (kept.queue, kept.build, kept.options::text) is distinct from (excluded.queue, excluded.build, excluded.options::text)
), seen as (                                            -- do update, not do nothing: a concurrent loser must see the time
    insert into runnerq.build as kept (build) values ($5)
    on conflict (build) do update set build = kept.build
    returning first_seen
)
select now() as now, first_seen as build_seen from seen
