-- End runs that completed, with nothing to write but their last rows and no parent to tell: the cheap form of commit.sql.
-- $1 run uuid[], ordered  $2 token bigint[]  $3 generation integer[]  $4 result text[]: by place
-- $5 rows json: [{run_id, place, at, kind, position}]  with $6 value text[]  $7 asked text[]
-- Returns the ids of the runs that are ended now; a run that is missing was locked by somebody, has a parent, or is not this
--    token's, and commit.sql says which.
-- Locks the runs' live rows in the given order, and never waits for one.
with turn as materialized (
    select t.run_id, t.token, t.generation, t.result
    from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::text[]) as t(run_id, token, generation, result)
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select t.run_id, t.token, t.generation, t.result, l.started_at, l.cancel is not null as cancelled
    from turn as t
    cross join lateral (
        select token, state, generation, parent_id, started_at, cancel
        from runnerq.live
        where run_id = t.run_id
        for update skip locked offset 0
    ) as l
    where l.token = t.token and l.state = 'running' and l.generation = t.generation and l.parent_id is null
), gone as (
    delete from runnerq.live
    where run_id = any(array(select run_id from held))
), ended as (
    insert into runnerq.outcome (run_id, token, ended_at, started_at, generation, cancel_requested, status, result)
    select run_id, token, clock_timestamp(), started_at, generation, cancelled, 'completed', result::json
    from held
), entered as (
    insert into runnerq.journal as kept (run_id, token, at, generation, place, kind, position, value, asked)
    select h.run_id, h.token, e.at, h.generation, e.place, e.kind, e.position, e.value::json, e.asked::json
    from rows from (
        json_to_recordset($5::json) as (run_id uuid, place integer, at timestamptz, kind text, position text),
        unnest($6::text[]), unnest($7::text[])
    ) as e(run_id, place, at, kind, position, value, asked)
    join held as h on h.run_id = e.run_id
    on conflict (run_id, generation, place) do update       -- the same again is harmless, and another row is refused
    set kind = ('place ' || kept.place || ' of run ' || kept.run_id || ' is on record as ' || kept.kind || ' of '''
                || kept.position || ''', and not as ' || excluded.kind || ' of ''' || excluded.position || '''')::integer::text
    where kept.kind <> excluded.kind or kept.position <> excluded.position
), settled as (
    delete from runnerq.attempt
    where run_id = any(array(select run_id from held))
), freed as (                                           -- a build that came this far could follow the run
    delete from runnerq.block
    where run_id = any(array(select run_id from held))
)
select run_id::text from held
