-- Forget the next $3 buckets that nothing waits for, that have admitted nothing for an hour, or for as long as their rates
-- remember; and before, the gates of such ones that nobody waits at any more.
-- $1 scope text  $2 key text: the bucket after which to go on (null: from the first)  $3 limit integer
-- Returns one row: looked (how many), scope and key of the last of them, and forgotten (how many).
-- To be run in the transaction that holds the row of lining, so that no gate is made meanwhile.
-- Locks the gates and buckets it removes, by key, skipping locked ones.
with ahead as materialized (
    select scope, key, whole, greatest(coalesce(admitted_at, made_at), made_at) as used_at, per
    from runnerq.bucket
    where (scope, key) > (coalesce($1, ''), coalesce($2, ''))
    order by scope, key
    limit $3::integer
), idle as materialized (
    select scope, key, whole
    from ahead
    where used_at < now() - interval '1 hour' and (per is null or used_at < now() - per * interval '1 second')
), empty as materialized (
    select g.scope, g.key, g.queue, g.served, g.place
    from (select scope, key, whole from idle order by scope, key) as b
    cross join lateral (
        select scope, key, queue, served, ctid as place
        from runnerq.gate
        where scope = b.scope and key = b.key
        order by scope, key, queue, served
        for update skip locked
    ) as g
    where case when b.whole then (
                   select 1 from runnerq.lane
                   where scope = g.scope and queue = g.queue and served = g.served limit 1) is null
               else (
                   select 1 from runnerq.live
                   where state = 'pending' and due_at is null and queue = g.queue and served = g.served
                     and limit_scope = g.scope and limit_key = g.key limit 1) is null end
), removed as (
    delete from runnerq.gate where ctid = any(array(select place from empty))
), unused as materialized (
    select l.place
    from (select scope, key from idle order by scope, key) as b
    cross join lateral (
        select ctid as place from runnerq.bucket where scope = b.scope and key = b.key for update skip locked offset 0
    ) as l
    where (select 1 from runnerq.gate where scope = b.scope and key = b.key limit 1) is null
), forgotten as (
    delete from runnerq.bucket where ctid = any(array(select place from unused))
)
select (select count(*)::integer from ahead) as looked, z.scope, z.key,
       (select count(*)::integer from unused) + (select count(*)::integer from empty) as forgotten
from (select) as one
left join lateral (select scope, key from ahead order by scope desc, key desc limit 1) as z on true
