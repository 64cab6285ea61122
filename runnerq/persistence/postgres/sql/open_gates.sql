-- Open the shut gates of buckets that may have places: runs have left them, or a claim has just shut their gates.
-- $1 scope text[]  $2 key text[]: the limits of those runs, or the buckets, by place (distinct)
-- Returns queue and served of the gates it opened.
-- A claim that shuts gates has this look at them once more after its commit: a place that became free after the claim has
--    counted, while the gate was still open, is found then; one that becomes free later, by who tells of it here.
-- Locks the gates by key; whoever else opens gates or makes them is all that it may wait for.
with freed as materialized (
    select distinct w.scope, u.key
    from unnest($1::text[], $2::text[]) as w(scope, key)
    cross join lateral (values (w.key), ('')) as u(key)     -- its own bucket, or the whole scope's
), shut as materialized (
    select g.scope, g.key, g.queue, g.served
    from freed as f
    cross join lateral (
        select scope, key, queue, served
        from runnerq.gate
        where scope = f.scope and key = f.key and open_at is null
        offset 0
    ) as g
-- [part bucket
), bucket as materialized (                             -- those of shut gates that have a place
    select g.scope, g.key, b.admitted_at
    from (select distinct scope, key from shut) as g
    cross join lateral (
        select scope, key, whole, concurrency, admitted_at
        from runnerq.bucket
        where scope = g.scope and key = g.key
        offset 0
    ) as b
    cross join lateral (
        select count(*) as running
        from (
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = b.scope and limit_key = b.key and not b.whole
             limit coalesce(b.concurrency, 0))
            union all
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = b.scope and b.whole
             limit coalesce(b.concurrency, 0))
        ) as l
    ) as h
    where b.concurrency is null or h.running < b.concurrency
-- part]
), held as materialized (
    select s.scope, s.key, s.queue, s.served, s.admitted_at
    from (
        select g.scope, g.key, g.queue, g.served, b.admitted_at
        from shut as g
        join bucket as b on b.scope = g.scope and b.key = g.key
        order by g.scope, g.key, g.queue, g.served
    ) as s
    cross join lateral (
        select open_at
        from runnerq.gate
        where scope = s.scope and key = s.key and queue = s.queue and served = s.served
        for update offset 0
    ) as l
    where l.open_at is null
), opened as (                                          -- all of them are there: this is an update of what the lock shows
    insert into runnerq.gate as kept (scope, key, queue, served, open_at)
    select scope, key, queue, served, coalesce(least(admitted_at, now()), now())
    from held
    on conflict (scope, key, queue, served) do update set open_at = excluded.open_at
)
select queue, served from held
