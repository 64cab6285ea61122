-- Give runs that were started by name, while nobody knew the name, what it has turned out to be.
-- $1 kind text[]  $2 name text[]  $3 version integer[], by place: what is known; the highest version of a name counts
-- $4 limit integer
-- Returns queue, how_many and, in a row of its own, skipped: how many somebody held.
-- Locks the live rows it moves, skipping those that somebody holds, then their cold rows.
with known as materialized (
    select distinct on (d.name) d.name, d.kind, d.version,
           case d.kind when 'workflow' then concat(d.name, '@', d.version) else d.name end as served
    from unnest($1::text[], $2::text[], $3::integer[]) as d(kind, name, version)
    order by d.name, d.version desc
), candidate as materialized (
    select c.run_id, k.kind, k.version, k.served
    from known as k
    cross join lateral (
        select run_id
        from runnerq.live
        where right(served, 2) = '@?' and served = concat(k.name, '@?')
        order by run_id
        limit $4::integer
    ) as c
    order by c.run_id
    limit $4::integer
), held as materialized (                               -- what somebody else adopted meanwhile has another name by now
    select c.run_id, c.kind, c.version, c.served, l.served = concat(r.name, '@?') as fits
    from candidate as c
    cross join lateral (select served from runnerq.live where run_id = c.run_id for update skip locked offset 0) as l
    cross join lateral (
        select name from runnerq.run where id = c.run_id and kind = 'workflow' and version = 0 offset 0
    ) as r
), moved as (
    update runnerq.live as live
    set served = h.served, lined = null                 -- it waits in another line now
    from held as h
    where live.run_id = any(array(select run_id from held where fits))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = h.run_id
    returning live.queue
), named as (
    update runnerq.run as run
    set kind = h.kind, version = h.version
    from held as h
    where run.id = any(array(select run_id from held where fits))
      and run.id = h.run_id
)
select queue, count(*)::integer as how_many, 0 as skipped from moved group by queue
union all
select null, 0, ((select count(*) from candidate) - (select count(*) from held))::integer
