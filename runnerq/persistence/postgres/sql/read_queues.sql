-- The queues that have open runs, a living worker or a pause, by name.
-- $1 most integer: as in read_depths.sql
-- Returns the columns of a QueueRecord, workers alive as in read_workers.sql; capped: there are more. A queue of which only such are open is not among them.
-- Locks nothing. It reads open runs as read_depths.sql does; run it with fetch_fresh.
with seen as materialized (
    select queue, priority, state, due_at is not null as is_due, count(*) as how_many, min(rank) as first_rank
    from (select queue, priority, state, due_at, rank from runnerq.live limit $1::integer + 1) as m
    group by queue, priority, state, due_at is not null
), depth as materialized (
    select queue,
           (sum(how_many) filter (where state = 'pending' and not is_due))::integer as ready,
           (sum(how_many) filter (where state = 'pending' and is_due))::integer as delayed,
           (sum(how_many) filter (where state = 'running'))::integer as running,
           (sum(how_many) filter (where state = 'waiting'))::integer as waiting,
           (sum(how_many) filter (where state = 'blocked'))::integer as blocked,
           min(first_rank + case priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                          when 2 then interval '0' else interval '-10 minutes' end)
               filter (where state = 'pending' and not is_due) as oldest_ready_at
    from (
        select queue, priority, state, is_due, how_many, first_rank
        from seen
        where state <> 'running' and state <> 'blocked'
        union all
        select queue, priority, state, false, count(*), null
        from runnerq.live
        where state = 'running' or state = 'blocked'
        group by queue, priority, state
    ) as l
    group by queue
), served as materialized (
    select q.name, count(*)::integer as workers
    from runnerq.worker as w
    cross join lateral (select distinct name from unnest(w.queues) as u(name)) as q
    where w.reaped_at is null
      and w.beat_at + least(w.lease, greatest(3, w.lease / 6)) * interval '1 second' >= now()
      and (w.backend_start is null or w.beat_at >= now() - interval '3 seconds'
           or exists (select from pg_stat_get_activity(w.backend_pid) as a
                      where a.backend_start is null or a.backend_start = w.backend_start))
    group by q.name
)
select n.name, p.paused_at, coalesce(d.ready, 0) as ready, coalesce(d.delayed, 0) as delayed,
       coalesce(d.running, 0) as running, coalesce(d.waiting, 0) as waiting, coalesce(d.blocked, 0) as blocked,
       d.oldest_ready_at, coalesce(s.workers, 0) as workers, coalesce((select sum(how_many) from seen) > $1::integer, false) as capped
from (
    select queue as name from depth union select name from served
    union select name from runnerq.queue
) as n
left join depth as d on d.queue = n.name
left join served as s on s.name = n.name
left join runnerq.queue as p on p.name = n.name
order by n.name
