-- Take up blocked runs that this build has not failed to follow, or whose worker's fault is due to be tried again.
-- $1 build text  $2 served text[]  $3 limit integer
-- Returns queue, how_many and, in a row of its own, skipped: how many somebody held.
-- What the block knows of builds is kept until the run gets on.
-- Locks the live rows it moves, skipping those that somebody holds.
with candidate as materialized (
    select l.run_id
    from unnest($2::text[]) as w(served)
    cross join lateral (
        select l.run_id
        from runnerq.live as l
        cross join lateral (select builds, retry_at from runnerq.block where run_id = l.run_id offset 0) as b
        where l.state = 'blocked' and l.served = w.served
          and $1::text <> all(b.builds) and (b.retry_at is null or b.retry_at <= now())
        order by l.run_id
        limit $3::integer
    ) as l
    order by l.run_id
    limit $3::integer
), held as materialized (
    select l.run_id, l.state, l.priority
    from candidate as c
    cross join lateral (
        select run_id, state, priority from runnerq.live where run_id = c.run_id for update skip locked offset 0
    ) as l
), moved as (
    update runnerq.live as live
    set state = 'pending', due_at = null,
        rank = now() - case h.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                       when 2 then interval '0' else interval '-10 minutes' end
    from held as h
    where live.run_id = any(array(select run_id from held where state = 'blocked'))
      and live.run_id = h.run_id
    returning live.queue
)
select queue, count(*)::integer as how_many, 0 as skipped from moved group by queue
union all
select null, 0, ((select count(*) from candidate) - (select count(*) from held))::integer
