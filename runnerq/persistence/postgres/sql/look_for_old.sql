-- Look over the next $4 runs that have ended, by id and for the whole fleet, for the roots of trees to be deleted.
-- $1 completed double precision  $2 failed double precision (seconds since the end; null: never)
-- $3 limit integer: how many roots at most  $4 reach integer: how many to look at
-- Returns run_ids uuid[] and more (false: the cursor came to the end of what is old enough, and goes back to the beginning).
-- An id is a UUIDv7: what was made less than an age ago has not ended longer ago. What is too young for the age of completed
--    ones is looked at only where it failed, by an index of those: the rest is history, which may be long.
-- Locks the cursor (if somebody has it, nothing is done), then the outcomes it returns, skipping locked ones: nothing of
--    their trees opens again until the transaction's end. Whether a tree may go, doom_trees.sql says.
with place as materialized (
    select run_id from runnerq.retention for update skip locked
), young as materialized (                              -- from which id on it is too early (null: from the first)
    select rpad(lpad(to_hex(greatest(0, extract(epoch from now() - $1::float8 * interval '1 second') * 1000)::bigint),
                     12, '0'), 32, '0')::uuid as completed,
           rpad(lpad(to_hex(greatest(0, extract(epoch from now() - $2::float8 * interval '1 second') * 1000)::bigint),
                     12, '0'), 32, '0')::uuid as failed
), ahead as materialized (
    select o.run_id, o.status, o.ended_at, o.doomed_at
    from place as p
    cross join young as y
    cross join lateral (
        (select run_id, status, ended_at, doomed_at
         from runnerq.outcome
         where run_id > p.run_id and run_id < y.completed
         order by run_id
         limit $4::integer)
        union all
        (select f.run_id, f.status, f.ended_at, f.doomed_at
         from (values ('dead_letter'), ('failed')) as s(status)
         cross join lateral (
             select run_id, status, ended_at, doomed_at
             from runnerq.outcome
             where status = s.status and status <> 'completed'
               and run_id > p.run_id and run_id >= y.completed and run_id < y.failed
             order by run_id
             limit $4::integer
         ) as f)
        order by run_id
        limit $4::integer
    ) as o
), old as materialized (
    select a.run_id
    from ahead as a
    where a.doomed_at is null
      and a.ended_at < now() - case when a.status in ('completed', 'cancelled') then $1::float8 else $2::float8 end
                               * interval '1 second'
      and (select r.id from runnerq.run as r where r.id = a.run_id and r.parent_id is null) is not null
    order by a.run_id
    limit $3::integer
), round as materialized (
    select case when (select count(*) from old) = $3::integer then (select run_id from old order by run_id desc limit 1)
                when (select count(*) from ahead) = $4::integer then (select run_id from ahead order by run_id desc limit 1)
                end as run_id
    from place
), onward as (
    update runnerq.retention
    set run_id = coalesce((select run_id from round), '00000000-0000-0000-0000-000000000000'::uuid)
    where exists (select from place)
), held as materialized (
    select l.run_id
    from old as o
    cross join lateral (
        select run_id from runnerq.outcome where run_id = o.run_id for update skip locked offset 0
    ) as l
)
select coalesce((select array_agg(run_id::text) from held), '{}') as run_ids,
       coalesce((select run_id is not null from round), false) as more
