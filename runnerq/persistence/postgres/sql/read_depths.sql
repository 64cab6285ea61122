-- How many runs are open, by status, served name, queue and priority.
-- $1 most integer: of those that are ready, delayed or waiting, so many are counted at most, as they lie; the others, which have
--    indexes of their own, are all counted
-- Returns now and capped (there are more) in every row, and a row a group, or a single one with a null status: status, served,
--    queue, priority, how_many, oldest_ready_at (when the one that waits longest for a worker became ready, its head start not
--    counted).
-- Locks nothing. It reads open runs once, in the order in which they lie: an exact number has to. Run it with fetch_fresh, where
--    tables may be scanned.
with seen as materialized (
    select served, queue, priority, state, due_at is not null as is_due, started_at is not null as is_started, count(*) as how_many,
           min(rank) as first_rank
    from (select served, queue, priority, state, due_at, started_at, rank from runnerq.live limit $1::integer + 1) as m
    group by served, queue, priority, state, due_at is not null, started_at is not null
), part as materialized (
    select served, queue, priority, state, is_due, is_started, how_many, first_rank
    from seen
    where state <> 'running' and state <> 'blocked'
    union all
    select served, queue, priority, state, false, false, count(*), null
    from runnerq.live
    where state = 'running' or state = 'blocked'
    group by served, queue, priority, state
)
select now() as now, coalesce((select sum(how_many) from seen) > $1::integer, false) as capped,
       d.status, d.served, d.queue, d.priority, d.how_many, d.oldest_ready_at
from (select) as one
left join lateral (
    select c.status, g.served, g.queue, g.priority, c.how_many::integer, c.oldest_ready_at
    from (
        select served, queue, priority,
               sum(how_many) filter (where state = 'pending' and not is_due) as pending,
               sum(how_many) filter (where state = 'pending' and is_due and not is_started) as scheduled,
               sum(how_many) filter (where state = 'pending' and is_due and is_started) as retrying,
               sum(how_many) filter (where state = 'running') as running,
               sum(how_many) filter (where state = 'waiting') as waiting,
               sum(how_many) filter (where state = 'blocked') as blocked,
               min(first_rank) filter (where state = 'pending' and not is_due) as first_rank
        from part
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
