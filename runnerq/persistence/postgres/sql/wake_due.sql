-- Make what is due claimable.
-- $1 limit integer  $2 timestamptz: from when on to look (null: from ever)
-- Returns queue and how_many, and in every row, of which there is at least one: last (up to when all that is due was
--    found, but for what somebody holds), scanned (seconds it took to find it) and dead (rows that vacuum has not removed, as
--    the statistics know them). A woken run's rank is the time it was due, minus the head start of its priority.
-- Locks the live rows it moves, skipping those that somebody holds.
with due as materialized (
    select run_id, due_at, priority
    from runnerq.live
    where due_at <= now() and due_at >= coalesce($2::timestamptz, '-infinity'::timestamptz)
    order by due_at
    limit $1::integer
    for update skip locked
), found as materialized (
    select case when count(*) < $1::integer then now() else max(due_at) end as last, clock_timestamp() as at from due
), moved as (
    update runnerq.live as live
    set state = 'pending', due_at = null, stack = null, -- out of the timer's partial index, into the ready one
        rank = d.due_at - case d.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                          when 2 then interval '0' else interval '-10 minutes' end
    from due as d
    where live.run_id = any(array(select run_id from due))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = d.run_id
    returning live.queue
)
select m.queue, m.how_many, f.last, extract(epoch from f.at - statement_timestamp())::double precision as scanned,
       pg_stat_get_dead_tuples('runnerq.live'::regclass) as dead
from found as f
left join (select queue, count(*)::integer as how_many from moved group by queue) as m on true
