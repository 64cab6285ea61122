-- One generation of a run's journal, with the failed attempts of what is still open.
-- $1 run uuid  $2 generation integer (null: the present one)
-- Returns run_id, generation, the rows as arrays by place, and the attempts; no row for an unknown run.
-- Locks nothing.
select r.run_id::text, r.generation, j.places, j.kinds, j.positions, j.ats, j."values", j.asks, a.attempts
from (
    select r.id as run_id, coalesce($2::integer, l.generation, o.generation) as generation,
           l.generation as present
    from runnerq.run as r
    left join lateral (select generation from runnerq.live where run_id = r.id offset 0) as l on true
    left join lateral (select generation from runnerq.outcome where run_id = r.id offset 0) as o on true
    where r.id = $1
) as r
cross join lateral (
    select array_agg(e.place) as places, array_agg(e.kind) as kinds, array_agg(e.position) as positions,
           array_agg(e.at) as ats, array_agg(e.value::text) as "values", array_agg(e.asked::text) as asks
    from (
        select place, kind, position, at, value, asked
        from runnerq.journal
        where run_id = r.run_id and generation = r.generation
        order by place
    ) as e
) as j
cross join lateral (
    select array_agg(row(position, number, error::text, at, next_at, details::text)) as attempts
    from runnerq.attempt
    where run_id = r.run_id and r.generation = r.present and number >= 0
      and coalesce(generation, r.present) = r.present
) as a
