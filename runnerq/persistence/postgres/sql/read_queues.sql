-- The queues that have open runs, a living worker or a pause, by name.
-- Returns the columns of a QueueRecord.
-- Locks nothing. It reads every open run, as read_depths.sql does; run it with fetch_fresh.
with depth as materialized (
    select queue,
           (count(*) filter (where state = 'pending' and due_at is null))::integer as ready,
           (count(*) filter (where state = 'pending' and due_at is not null))::integer as delayed,
           (count(*) filter (where state = 'running'))::integer as running,
           (count(*) filter (where state = 'waiting'))::integer as waiting,
           (count(*) filter (where state = 'blocked'))::integer as blocked,
           min(rank + case priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                    when 2 then interval '0' else interval '-10 minutes' end)
               filter (where state = 'pending' and due_at is null) as oldest_ready_at
    from runnerq.live
    group by queue
), served as materialized (
    select q.name, count(*)::integer as workers
    from runnerq.worker as w
    cross join lateral (select distinct name from unnest(w.queues) as u(name)) as q
    where w.reaped_at is null and w.beat_at + w.lease * interval '1 second' >= now()
    group by q.name
)
select n.name, p.paused_at, coalesce(d.ready, 0) as ready, coalesce(d.delayed, 0) as delayed,
       coalesce(d.running, 0) as running, coalesce(d.waiting, 0) as waiting, coalesce(d.blocked, 0) as blocked,
       d.oldest_ready_at, coalesce(s.workers, 0) as workers
from (
    select queue as name from depth union select name from served
    union select name from runnerq.queue
) as n
left join depth as d on d.queue = n.name
left join served as s on s.name = n.name
left join runnerq.queue as p on p.name = n.name
order by n.name
