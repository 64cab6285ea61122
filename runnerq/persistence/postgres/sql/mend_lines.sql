-- Look at the next $5 lines of ready runs that have a limit, and have those arrive anew that no gate leads to.
-- $1 queue text  $2 served text  $3 scope text  $4 key text: the line after which to go on (null: from the first)
-- $5 limit integer: of lines, and of runs
-- Returns one row: looked (how many lines), queue, served, scope and key of the last of them, and queues (text[]: of the runs
--    that were mended, one each).
-- Locks the live rows it changes, skipping locked ones.
with recursive line(n, queue, served, scope, key) as materialized (    -- a probe each, however many runs are in it
    (select 1, queue, served, limit_scope, limit_key
     from runnerq.live
     where state = 'pending' and due_at is null and limit_scope is not null
       and (queue, served, limit_scope, limit_key)
           > (coalesce($1, ''), coalesce($2, ''), coalesce($3, ''), coalesce($4, ''))
     order by queue, served, limit_scope, limit_key
     limit 1)
    union all
    select l.n + 1, c.queue, c.served, c.limit_scope, c.limit_key
    from line as l
    cross join lateral (
        select queue, served, limit_scope, limit_key
        from runnerq.live
        where state = 'pending' and due_at is null and limit_scope is not null
          and (queue, served, limit_scope, limit_key) > (l.queue, l.served, l.scope, l.key)
        order by queue, served, limit_scope, limit_key
        limit 1
    ) as c
    where l.n < $5::integer
), lost as materialized (
    select l.queue, l.served, l.scope, l.key
    from line as l
    where not exists (                                  -- a gate of its own, or the whole scope's and a lane there
        select from runnerq.gate as g
        join runnerq.bucket as b on b.scope = g.scope and b.key = g.key
        where g.scope = l.scope and g.key = l.key and g.queue = l.queue and g.served = l.served and not b.whole
        offset 0)
      and not exists (
        select from runnerq.gate as g
        join runnerq.bucket as b on b.scope = g.scope and b.key = g.key
        where g.scope = l.scope and g.key = '' and g.queue = l.queue and g.served = l.served and b.whole
          and (select key from runnerq.lane     -- by order: else a plan may walk all lanes of the gate for it
               where scope = l.scope and queue = l.queue and served = l.served and key >= l.key
               order by key limit 1) = l.key
        offset 0)
), held as materialized (
    select r.run_id, l.queue
    from lost as l
    cross join lateral (
        select run_id
        from runnerq.live
        where state = 'pending' and due_at is null and queue = l.queue and served = l.served and limit_scope = l.scope
          and limit_key = l.key and lined
        order by rank, run_id
        limit $5::integer
        for update skip locked
    ) as r
    limit $5::integer
), anew as (
    update runnerq.live set lined = null where run_id = any(array(select run_id from held))
)
select (select count(*)::integer from line) as looked, z.queue, z.served, z.scope, z.key,
       array(select queue from held) as queues
from (select) as one
left join lateral (select queue, served, scope, key from line order by n desc limit 1) as z on true
