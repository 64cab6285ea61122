-- The mailboxes of held runs.
-- $1 run uuid[]: whose  $2 run uuid[]  $3 child uuid[]: pairs, by place, of a run and a child whose end it looks for
-- Returns run_id, seen, now, cancel, signals (arrays, oldest first) and ended children, all of one snapshot; a run that is not
--    open is left out.
-- Locks nothing.
select l.run_id::text, l.inbox as seen, now() as now, l.cancel, m.numbers, m.sent, m.channels, m.payloads, m.traces, o.ended
from unnest($1::uuid[]) as w(run_id)
cross join lateral (select run_id, inbox, cancel from runnerq.live where run_id = w.run_id offset 0) as l
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
    select array_agg(row(e.run_id::text, e.status, e.ended_at, e.result::text, e.error::text, e.reason, e.cancel_requested))
               as ended
    from unnest($2::uuid[], $3::uuid[]) as k(run_id, child_id)
    cross join lateral (
        select run_id, status, ended_at, result, error, reason, cancel_requested
        from runnerq.outcome where run_id = k.child_id offset 0
    ) as e
    where k.run_id = l.run_id
) as o
