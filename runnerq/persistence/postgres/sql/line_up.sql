-- Make gates, and lanes at those of whole scopes, for ready runs that have a limit and none yet.
-- $1 queue text[]  $2 served text[]: the pairs, by place  $3 scope text  $4 key text: the line after which to go on
-- $5 lines integer: how many to look at of each pair  $6 runs integer: how many to line up, at least one of each line that has
--    no gate  $7 others integer: the same for lines that have one (0: none; claims find their runs without)
-- Returns one row: had (false: somebody else lines up or changes a rule just now, and nothing was done), how_many, where
--    to go on: scope and key (null: from the first line); and shut_scopes and shut_keys (text[]: the buckets that were full,
--    so that their gates were made shut).
-- A gate is made as a claim would leave it: claims look at a few of those that are open, and must not have to go through all
--    that let nobody in. A place may become free after this statement has counted and before its gate is there for others to
--    see: so whoever makes gates shut has open_gates.sql look at them once more after its commit.
-- Lines take turns, whatever waits in them: many runs of one key are in no other's way.
-- A gate and a lane that are there get a new version, so that a claim that has not seen these runs does not remove them.
-- Locks the one row of lining (if somebody has it, nothing is done), then the live rows, skipping locked ones, then lanes and
--    gates, each by key; a claim, which waits for nothing, is all that it may wait for there.
with seen as materialized (
    select ctid as version from runnerq.lining
), alone as materialized (                              -- the rules as this snapshot has them are the present ones
    select s.version
    from seen as s
    cross join lateral (select ctid as version from runnerq.lining for update skip locked offset 0) as l
    where l.version = s.version
), behind as materialized (                             -- a probe a line, however many runs are in it
    select w.queue, w.served, l.scope, l.key, l.n
    from unnest($1::text[], $2::text[]) as w(queue, served)
    cross join lateral (
        with recursive line(n, scope, key) as (
            (select 1, limit_scope, limit_key
             from runnerq.live
             where state = 'pending' and due_at is null and limit_scope is not null and lined is null
               and queue = w.queue and served = w.served and (limit_scope, limit_key) > (coalesce($3, ''), coalesce($4, ''))
             order by limit_scope, limit_key
             limit 1)
            union all
            select l.n + 1, c.limit_scope, c.limit_key
            from line as l
            cross join lateral (
                select limit_scope, limit_key
                from runnerq.live
                where state = 'pending' and due_at is null and limit_scope is not null and lined is null
                  and queue = w.queue and served = w.served and (limit_scope, limit_key) > (l.scope, l.key)
                order by limit_scope, limit_key
                limit 1
            ) as c
            where l.n < $5::integer
        )
        select n, scope, key from line
    ) as l
), known as materialized (
    select b.queue, b.served, b.scope, b.key, g.has,
           case when g.has then $7::integer / count(*) over (partition by g.has)
                else greatest(1, $6::integer / count(*) over (partition by g.has)) end as share
    from behind as b
    cross join lateral (
        select exists (                                 -- its own: that of a whole scope has no key
                   select from runnerq.gate
                   where scope = b.scope and key = b.key and queue = b.queue and served = b.served
                     and (key <> '' or not (
                         select whole from runnerq.bucket where scope = b.scope and key = '')) offset 0)
               or coalesce((
                   select key from runnerq.lane         -- by order: else a plan may walk all lanes of the gate for it
                   where scope = b.scope and queue = b.queue and served = b.served and key >= b.key
                   order by key limit 1) = b.key, false) as has
    ) as g
), arrived as materialized (
    select a.run_id, k.has
    from known as k
    cross join lateral (
        select run_id
        from runnerq.live
        where state = 'pending' and due_at is null and limit_scope is not null and lined is null
          and queue = k.queue and served = k.served and limit_scope = k.scope and limit_key = k.key
        order by rank
        limit k.share
    ) as a
    where k.share > 0
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select a.run_id, l.queue, l.served, l.limit_scope as scope, l.limit_key as key, a.has
    from (select run_id, has from arrived order by run_id) as a
    cross join lateral (
        select state, due_at, lined, queue, served, limit_scope, limit_key
        from runnerq.live
        where run_id = a.run_id and exists (select from alone)
        for update skip locked offset 0
    ) as l
    where l.state = 'pending' and l.due_at is null and l.lined is null
), marked as (
    update runnerq.live set lined = true where run_id = any(array(select run_id from held))
), line as materialized (
    select l.scope, case when coalesce(r.per_key, true) then l.key else '' end as bucket, l.queue, l.served, l.key,
           not coalesce(r.per_key, true) as whole, r.concurrency, r.rate, r.per, l.has
    from (select distinct scope, key, queue, served, has from held) as l
    left join lateral (
        select per_key, concurrency, rate, per from runnerq.limit_rule where scope = l.scope offset 0
    ) as r on true
), counted as (
    insert into runnerq.bucket (scope, key, whole, concurrency, rate, per)
    select distinct scope, bucket, whole, concurrency, rate, per from line
    on conflict (scope, key) do nothing
), laned as (
    insert into runnerq.lane as kept (scope, queue, served, key, turn_at)
    select scope, queue, served, key, now()
    from line
    where whole
    order by scope, queue, served, key
    on conflict (scope, queue, served, key) do update set turn_at = kept.turn_at
), wanted as materialized (                             -- what is there stays as it is, and is not counted
    select l.scope, l.bucket, l.queue, l.served, not l.has and h.running >= l.concurrency as is_full,
           case when u.used >= l.rate then u.first_at + l.per * interval '1 second'
                else coalesce(least(b.admitted_at, now()), now()) end as open_at
    from (
        select scope, bucket, queue, served, whole, concurrency, rate, per, bool_and(has) as has
        from line
        group by scope, bucket, queue, served, whole, concurrency, rate, per
    ) as l
    left join lateral (
        select admitted_at, recent_at, recent_n from runnerq.bucket where scope = l.scope and key = l.bucket offset 0
    ) as b on true
    cross join lateral (
        select count(*) as running
        from (
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = l.scope and limit_key = l.bucket and not l.whole and not l.has
             limit coalesce(l.concurrency, 0))
            union all
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = l.scope and l.whole and not l.has
             limit coalesce(l.concurrency, 0))
        ) as r
    ) as h
    cross join lateral (
        select sum(n) as used, min(at) as first_at
        from unnest(b.recent_at, b.recent_n) as e(at, n)
        where at > now() - l.per * interval '1 second'
    ) as u
), gated as (
    insert into runnerq.gate as kept (scope, key, queue, served, open_at)
    select scope, bucket, queue, served, case when is_full then null else open_at end
    from wanted
    order by scope, bucket, queue, served
    on conflict (scope, key, queue, served) do update set open_at = kept.open_at
)
select exists (select from alone) as had, (select count(*)::integer from held) as how_many, z.scope, z.key,
       array(select scope from wanted where is_full order by scope, bucket) as shut_scopes,
       array(select bucket from wanted where is_full order by scope, bucket) as shut_keys
from (select) as one
left join lateral (
    select scope, key from behind
    where exists (select from behind where n = $5::integer)
    order by scope desc, key desc
    limit 1
) as z on true
