-- Open the next $5 shut gates whose buckets have places, for whoever was to say so may have been killed.
-- $1 scope text  $2 key text  $3 queue text  $4 served text: the gate after which to go on (null: from the first)
-- $5 limit integer
-- Returns scope, key, queue and served of the gates looked at, in order, and opened.
-- Locks the gates it opens, by key, skipping locked ones.
with shut as materialized (
    select scope, key, queue, served, ctid as place
    from runnerq.gate
    where open_at is null
      and (scope, key, queue, served) > (coalesce($1, ''), coalesce($2, ''), coalesce($3, ''), coalesce($4, ''))
    order by scope, key, queue, served
    limit $5::integer
-- [as in open_gates: bucket]
), held as materialized (
    select s.scope, s.key, s.queue, s.served, s.admitted_at, s.place
    from (
        select g.scope, g.key, g.queue, g.served, g.place, b.admitted_at
        from shut as g
        join bucket as b on b.scope = g.scope and b.key = g.key
        order by g.scope, g.key, g.queue, g.served
    ) as s
    cross join lateral (
        select ctid as place
        from runnerq.gate
        where scope = s.scope and key = s.key and queue = s.queue and served = s.served
        for update skip locked offset 0
    ) as l
    where l.place = s.place                             -- it has not changed since the snapshot
), opened as (
    update runnerq.gate as gate
    set open_at = coalesce(least(h.admitted_at, now()), now())
    from held as h
    where gate.ctid = any(array(select place from held)) and gate.ctid = h.place
)
select s.scope, s.key, s.queue, s.served, h.place is not null as opened
from shut as s
left join held as h on h.scope = s.scope and h.key = s.key and h.queue = s.queue and h.served = s.served
order by s.scope, s.key, s.queue, s.served
