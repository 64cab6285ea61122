-- Keep what attempts have said of themselves.
-- $1 run uuid[]  $2 token bigint[]  $3 generation integer[]  $4 position text[]  $5 failures integer[] (before this attempt)
-- $6 details text[] (JSON texts): by place, each run and position once
-- Returns the run_id of those that were left out because somebody holds their row. What another token holds by now, or
--    nobody, or is of another generation or an earlier attempt, is left out for good, and so is a position whose answer is on
--    record: a row with a negative number stands there. Whenever that was written it is seen, because the key is looked up,
--    and not the snapshot.
-- Locks the live rows of the runs, by id, skipping locked ones, then the attempts.
with said as materialized (
    select s.run_id, s.token, s.generation, s.position, s.failures, s.details
    from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::text[], $5::integer[], $6::text[])
         as s(run_id, token, generation, position, failures, details)
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select s.run_id, l.token, l.state, l.generation
    from (select distinct run_id from said order by run_id) as s
    cross join lateral (
        select token, state, generation from runnerq.live where run_id = s.run_id for update skip locked offset 0
    ) as l
), kept as (
    insert into runnerq.attempt as kept (run_id, position, number, at, generation, details)
    select s.run_id, s.position, s.failures, clock_timestamp(), s.generation, s.details::json
    from said as s
    join held as h
      on h.run_id = s.run_id and h.token = s.token and h.state = 'running' and h.generation = s.generation
    order by s.run_id, s.position
    on conflict (run_id, position) do update
    set details = excluded.details, generation = excluded.generation, number = excluded.number,
        at = case when kept.number > 0 and coalesce(kept.generation, excluded.generation) = excluded.generation
                  then kept.at else excluded.at end,
        next_at = case when coalesce(kept.generation, excluded.generation) = excluded.generation then kept.next_at end,
        error = case when coalesce(kept.generation, excluded.generation) = excluded.generation then kept.error end
    where kept.number = excluded.number or kept.generation < excluded.generation
)
select s.run_id::text
from (select distinct run_id from said) as s
left join held as h on h.run_id = s.run_id
cross join lateral (select run_id from runnerq.live where run_id = s.run_id offset 0) as l
where h.run_id is null
