-- Bring the buckets, gates and lanes of a scope in line with its rule: who waits now is looked at anew.
-- $1 scope text
-- Returns one row: queues (text[]: in which something waits), and shut_scopes and shut_keys (text[]: the buckets that are
--    full, so that their gates are shut). Where the rule no longer counts by keys, or does so now, it begins to count its
--    rate anew.
-- A gate is as a claim would leave it (see line_up.sql): whoever runs this has open_gates.sql look once more at those that it
--    has shut, after the commit.
-- To be run, in a statement of its own, in the transaction that has changed the rule and holds all of it (hold_buckets.sql).
with rule as materialized (
    select r.concurrency, r.rate, r.per, not coalesce(r.per_key, true) as whole
    from (select) as one
    left join lateral (
        select concurrency, rate, per, per_key from runnerq.limit_rule where scope = $1::text offset 0
    ) as r on true
), line as materialized (                               -- what waits, as the old rule had it
    select queue, served, key from runnerq.lane where scope = $1::text
    union
    select g.queue, g.served, g.key
    from runnerq.gate as g
    join runnerq.bucket as b on b.scope = g.scope and b.key = g.key
    where g.scope = $1::text and not b.whole
), wanted as materialized (
    select distinct case when r.whole then '' else l.key end as key, l.queue, l.served
    from line as l
    cross join rule as r
), bucket as materialized (                             -- those that stay, for they know their rates, and those that are missing
    select b.key from runnerq.bucket as b cross join rule as r where b.scope = $1::text and b.whole = r.whole
    union
    select key from wanted
), dropped as (
    delete from runnerq.bucket as old
    where old.scope = $1::text and not exists (select from bucket as b where b.key = old.key)
), counted as (
    insert into runnerq.bucket as kept (scope, key, whole, concurrency, rate, per)
    select $1::text, b.key, r.whole, r.concurrency, r.rate, r.per
    from bucket as b
    cross join rule as r
    on conflict (scope, key) do update
    set whole = excluded.whole, concurrency = excluded.concurrency, rate = excluded.rate, per = excluded.per,
        recent_at = case when kept.whole = excluded.whole then kept.recent_at else '{}' end,
        recent_n = case when kept.whole = excluded.whole then kept.recent_n else '{}' end
), closed as (
    delete from runnerq.gate as g
    where g.scope = $1::text
      and not exists (select from wanted as w where w.key = g.key and w.queue = g.queue and w.served = g.served)
), gate as materialized (
    select w.key, w.queue, w.served, h.running >= r.concurrency as is_full,
           case when u.used >= r.rate then u.first_at + r.per * interval '1 second' else now() end as open_at
    from wanted as w
    cross join rule as r
    left join lateral (
        select recent_at, recent_n from runnerq.bucket where scope = $1::text and key = w.key and whole = r.whole offset 0
    ) as b on true
    cross join lateral (
        select count(*) as running
        from (
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = $1::text and limit_key = w.key and not r.whole
             limit coalesce(r.concurrency, 0))
            union all
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = $1::text and r.whole
             limit coalesce(r.concurrency, 0))
        ) as l
    ) as h
    cross join lateral (
        select sum(n) as used, min(at) as first_at
        from unnest(b.recent_at, b.recent_n) as e(at, n)
        where at > now() - r.per * interval '1 second'
    ) as u
), opened as (
    insert into runnerq.gate (scope, key, queue, served, open_at)
    select $1::text, key, queue, served, case when is_full then null else open_at end from gate
    on conflict (scope, key, queue, served) do update set open_at = excluded.open_at
), undone as (
    delete from runnerq.lane where scope = $1::text and not (select whole from rule)
), laned as (
    insert into runnerq.lane (scope, queue, served, key, turn_at)
    select $1::text, l.queue, l.served, l.key, now()
    from line as l
    cross join rule as r
    where r.whole
    on conflict do nothing
)
select array(select distinct queue from gate) as queues,
       array(select $1::text from gate where is_full order by key) as shut_scopes,
       array(select key from gate where is_full order by key) as shut_keys
