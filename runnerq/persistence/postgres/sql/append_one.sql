-- Append one journal row of one turn that changes nothing else: what a run that is alone writes a step with.
-- $1 run_id uuid  $2 token bigint  $3 generation integer  $4 place integer  $5 at timestamptz  $6 kind text
-- $7 position text  $8 value text  $9 asked text (JSON texts)
-- Returns a row if the journal row is on record now; none if the run was locked by somebody, or is not this token's, and
--    commit.sql says which. Repeating it is harmless.
-- Locks the run's live row, and never waits for it.
with held as materialized (                             -- lock by id alone, then judge what the lock shows
    select token, state, generation from runnerq.live where run_id = $1::uuid for update skip locked
), written as (
    insert into runnerq.journal as kept (run_id, token, at, generation, place, kind, position, value, asked)
    select $1::uuid, $2::bigint, $5::timestamptz, $3::integer, $4::integer, $6::text, $7::text, $8::text::json, $9::text::json
    from held
    where token = $2::bigint and state = 'running' and generation = $3::integer
    on conflict (run_id, generation, place) do update       -- the same again is harmless, and another row is refused
    set kind = ('place ' || kept.place || ' of run ' || kept.run_id || ' is on record as ' || kept.kind || ' of '''
                || kept.position || ''', and not as ' || excluded.kind || ' of ''' || excluded.position || '''')::integer::text
    where kept.kind <> excluded.kind or kept.position <> excluded.position
)
select 1 as written from held where token = $2::bigint and state = 'running' and generation = $3::integer
