-- Append journal rows of turns that change nothing else: the cheap form of commit.sql, and the common one.
-- $1 rows json: an array, ordered by run_id, of {run_id, token, generation, place, at, kind, position}
-- $2 value text[]  $3 asked text[]: JSON texts beside the rows (inside $1, NUL and lone surrogates would be refused)
-- Returns the ids of the runs whose rows are on record now; a run that is missing was locked by somebody, or is not this
-- token's, and commit.sql says which. Repeating it is harmless.
-- Locks the runs' live rows, and never waits for one.
with entry as materialized (
    select e.run_id, e.token, e.generation, e.place, e.at, e.kind, e.position, e.value, e.asked
    from rows from (
        json_to_recordset($1::json) as (
            run_id uuid, token bigint, generation integer, place integer, at timestamptz, kind text, position text),
        unnest($2::text[]),
        unnest($3::text[])
    ) as e(run_id, token, generation, place, at, kind, position, value, asked)
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select l.run_id, l.token, l.state, l.generation
    from (select distinct run_id from entry order by run_id) as e
    cross join lateral (
        select run_id, token, state, generation from runnerq.live where run_id = e.run_id for update skip locked offset 0
    ) as l
), written as (
    insert into runnerq.journal as kept (run_id, token, at, generation, place, kind, position, value, asked)
    select e.run_id, e.token, e.at, e.generation, e.place, e.kind, e.position, e.value::json, e.asked::json
    from entry as e
    join held as h on h.run_id = e.run_id and h.token = e.token and h.state = 'running' and h.generation = e.generation
    on conflict (run_id, generation, place) do update       -- the same again is harmless, and another row is refused
    set kind = ('place ' || kept.place || ' of run ' || kept.run_id || ' is on record as ' || kept.kind || ' of '''
                || kept.position || ''', and not as ' || excluded.kind || ' of ''' || excluded.position || '''')::integer::text
    where kept.kind <> excluded.kind or kept.position <> excluded.position
)
select distinct e.run_id::text
from entry as e
join held as h on h.run_id = e.run_id and h.token = e.token and h.state = 'running' and h.generation = e.generation
