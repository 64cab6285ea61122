-- Make what is due claimable.
-- $1 limit integer
-- Returns queue and how_many. Its rank is the time it was due, minus the head start of its priority.
-- Locks the live rows it moves, skipping those that somebody holds.
with due as materialized (
    select run_id, due_at, priority
    from runnerq.live
    where due_at <= now()
    order by due_at
    limit $1::integer
    for update skip locked
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
select queue, count(*)::integer as how_many from moved group by queue
