-- One run as it stands.
-- $1 run uuid
-- Returns the columns of a RunRecord, or no row.
-- Locks nothing.
select r.id::text, r.kind, r.name, r.version, r.queue, r.priority,
       case when o.run_id is not null then o.status
            when l.state = 'pending' and l.due_at is not null
                then case when l.started_at is null then 'scheduled' else 'retrying' end
            else l.state end as status,
       r.created_at, coalesce(r.root_id, r.id)::text as root_id, r.parent_id::text, r.depth, r.key,
       coalesce(l.generation, o.generation) as generation, l.due_at, coalesce(l.started_at, o.started_at) as started_at,
       o.ended_at, case when l.state = 'waiting' then l.parked_at end as parked_at, j.value as started,
       case when l.state = 'waiting' then l.wants_signals end as waiting_signals,
       case when l.state = 'waiting' then l.wants_children::text[] end as waiting_children,
       case when l.state = 'waiting' then l.stack end as stack,
       r.input, r.metadata, r.options, o.result, o.error, o.reason,
       coalesce(o.cancel_requested, l.cancel is not null) as cancel_requested, r.limit_scope, r.limit_key,
       case when l.state = 'running' then l.worker_id end as worker_id
from runnerq.run as r
left join lateral (
    select run_id, state, worker_id, generation, due_at, started_at, parked_at, cancel, wants_signals, wants_children, stack
    from runnerq.live where run_id = r.id offset 0
) as l on true
left join lateral (
    select run_id, status, generation, started_at, ended_at, cancel_requested, result, error, reason
    from runnerq.outcome where run_id = r.id offset 0
) as o on true
left join lateral (
    select value from runnerq.journal
    where run_id = r.id and generation = coalesce(l.generation, o.generation) and place = 0 offset 0
) as j on true
where r.id = $1 and (l.run_id is not null or o.run_id is not null)
