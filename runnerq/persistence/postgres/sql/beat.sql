-- Say that a worker lives, and what it has in hand.
-- $1 worker bigint  $2 backend_pid integer  $3 backend_start timestamptz: this connection's own (null: a pooler is between)
-- $4 held integer  $5 running integer  $6 stuck integer  $7 late integer  $8 clock timestamptz: its machine's
-- Returns now, alive and drain (it is to stop in order) in every row, and a row for each held run whose inbox has counted
--    something: run_id, inbox, cancel.
-- A beat never revives: a worker that was reaped, or is not there, is told so.
-- Locks the worker's row, waiting.
with alive as (
    update runnerq.worker
    set beat_at = now(), backend_pid = $2, backend_start = $3, held = $4, running = $5, stuck = $6, late = $7,
        clock_off = extract(epoch from $8::timestamptz - clock_timestamp())
    where id = $1 and reaped_at is null
    returning id, drain_at
)
select now() as now, a.id is not null as alive, a.drain_at is not null as drain, l.run_id::text, l.inbox, l.cancel
from (select) as one
left join alive as a on true
left join lateral (
    select run_id, inbox, cancel from runnerq.live where worker_id = a.id and state = 'running' and inbox > 0 offset 0
) as l on true
