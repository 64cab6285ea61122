-- Say of turns that commit.sql or append.sql did not write whether they had been written before.
-- $1 run_id uuid[]  $2 token bigint[]  $3 generation integer[] (the turn's)  $4 generation integer[]  $5 place integer[]: where
--    its first row is (null: it has none)
-- Returns run_id and verdict, in order: busy (the token holds the run: somebody has the lock, send it again); done (a turn of
--    this token was written here before: a park, an end, or these very rows); lost (the run is not this token's).
-- Locks nothing.
select t.run_id::text,
       case when l.token = t.token and l.state = 'running'
                then case when l.generation = t.generation then 'busy'
                          when l.generation > t.generation then 'done' else 'lost' end
            when l.token = t.token or l.prior = t.token then 'done'
            when o.token = t.token then 'done'
            when j.token = t.token then 'done'
            else 'lost' end as verdict
from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::integer[])
     with ordinality as t(run_id, token, generation, row_generation, place, n)
left join lateral (select token, prior, state, generation from runnerq.live where run_id = t.run_id offset 0) as l on true
left join lateral (select token from runnerq.outcome where run_id = t.run_id offset 0) as o on true
left join lateral (
    select token from runnerq.journal
    where run_id = t.run_id and generation = t.row_generation and place = t.place offset 0
) as j on true
order by t.n
