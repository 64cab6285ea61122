-- What runs that were claimed have on record: their journals and states, their mail, failed attempts.
-- $1 run uuid[]  $2 token bigint: of their claim  $3 run uuid[]: of which the journal is not wanted
-- Returns run_id, seen, cancel, and the rest as arrays, all of one snapshot. `seen` is the inbox count. A run that does not
--    carry the token any more is left out.
-- Locks nothing. Who has claimed a run alone writes its journal, so that this need not be the snapshot of the claim.
select l.run_id::text, l.inbox as seen, l.cancel,
       j.places, j.kinds, j.positions, j.ats, j."values", j.asks, m.numbers, m.sent, m.channels, m.payloads, m.traces, o.ended,
       a.attempts, (select value from runnerq.state where run_id = l.run_id) as state
from unnest($1::uuid[]) as w(run_id)
cross join lateral (
    select run_id, inbox, cancel, generation, wants_children
    from runnerq.live where run_id = w.run_id and token = $2::bigint offset 0
) as l
cross join lateral (
    select array_agg(e.place) as places, array_agg(e.kind) as kinds, array_agg(e.position) as positions,
           array_agg(e.at) as ats, array_agg(e.value::text) as "values", array_agg(e.asked::text) as asks
    from (
        select place, kind, position, at, value, asked
        from runnerq.journal
        where run_id = l.run_id and generation = l.generation and l.run_id <> all($3::uuid[])
        order by place
    ) as e
) as j
cross join lateral (
    select array_agg(e.number) as numbers, array_agg(e.at) as sent, array_agg(e.channel) as channels,
           array_agg(e.value::text) as payloads, array_agg(e.trace) as traces
    from (
        select number, at, channel, value, trace
        from runnerq.signal
        where run_id = l.run_id and not taken
        order by number
    ) as e
) as m
cross join lateral (
    select array_agg(row(run_id::text, status, ended_at, result::text, error::text, reason, cancel_requested)) as ended
    from runnerq.outcome
    where run_id = any(l.wants_children)
) as o
cross join lateral (
    select array_agg(row(position, number, error::text, at, next_at, details::text)) as attempts
    from runnerq.attempt
    where run_id = l.run_id and number >= 0 and coalesce(generation, l.generation) = l.generation
) as a
