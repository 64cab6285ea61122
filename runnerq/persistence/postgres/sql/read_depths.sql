-- How many runs are open, by status, served name, queue and priority.
-- Returns now in every row, and a row a group, or a single one with a null status: status, served, queue, priority, how_many,
--    oldest_ready_at (when the one that waits longest for a worker became ready, its head start not counted).
-- Locks nothing. It reads every open run, once and in the order in which they lie: an exact number has to. Run it with
--    fetch_fresh, where tables may be scanned.
select now() as now, d.status, d.served, d.queue, d.priority, d.how_many, d.oldest_ready_at
from (select) as one
left join lateral (
    select c.status, g.served, g.queue, g.priority, c.how_many::integer, c.oldest_ready_at
    from (                                              -- by columns alone, so that the planner knows that groups are few
        select served, queue, priority,
               count(*) filter (where state = 'pending' and due_at is null) as pending,
               count(*) filter (where state = 'pending' and due_at is not null and started_at is null) as scheduled,
               count(*) filter (where state = 'pending' and due_at is not null and started_at is not null) as retrying,
               count(*) filter (where state = 'running') as running,
               count(*) filter (where state = 'waiting') as waiting,
               count(*) filter (where state = 'blocked') as blocked,
               min(rank) filter (where state = 'pending' and due_at is null) as first_rank
        from runnerq.live
        group by served, queue, priority
    ) as g
    cross join lateral (
        values ('pending', g.pending,
                g.first_rank + case g.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                               when 2 then interval '0' else interval '-10 minutes' end),
               ('scheduled', g.scheduled, null), ('retrying', g.retrying, null), ('running', g.running, null),
               ('waiting', g.waiting, null), ('blocked', g.blocked, null)
    ) as c(status, how_many, oldest_ready_at)
    where c.how_many > 0
) as d on true
order by d.queue, d.served, d.priority, d.status
