-- The rules of limits, by scope.
-- $1 cap integer: how many waiting keys are counted
-- Returns scope, concurrency, rate, per, per_key, changed_at, running (runs that hold places) and waiting (keys that have ready
--    runs which were lined up and not admitted).
-- Locks nothing. It counts what holds places, and looks at each waiting line up to the cap.
select r.scope, r.concurrency, r.rate, r.per, r.per_key, r.changed_at,
       (select count(*)::integer from runnerq.live where state = 'running' and limit_scope = r.scope) as running,
       (select count(*)::integer
        from (
            select distinct l.key
            from (
                select g.queue, g.served, g.key
                from runnerq.gate as g
                where g.scope = r.scope
                union all
                select queue, served, key from runnerq.lane where scope = r.scope
            ) as l
            cross join lateral (
                select 1
                from runnerq.live
                where state = 'pending' and due_at is null and queue = l.queue and served = l.served
                  and limit_scope = r.scope and limit_key = l.key
                limit 1
            ) as w
            limit $1::integer
        ) as k) as waiting
from runnerq.limit_rule as r
order by r.scope
