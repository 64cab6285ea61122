-- Workflow runs of these names that have not ended, oldest first.
-- $1 names text[]  $2 limit integer  $3 after uuid (null: from the oldest)
-- Returns the columns of a RunRecord.
-- Locks nothing. It walks the open runs by id, so that its cost is theirs.
select r.id::text, r.kind, r.name, r.version, r.queue, r.priority,
       case when l.state = 'pending' and l.due_at is not null
                then case when l.started_at is null then 'scheduled' else 'retrying' end
            else l.state end as status,
       r.created_at, coalesce(r.root_id, r.id)::text as root_id, r.parent_id::text, r.depth, r.key, l.generation, l.due_at,
       l.started_at, null::timestamptz as ended_at, case when l.state = 'waiting' then l.parked_at end as parked_at,
       j.value as started,
       case when l.state = 'waiting' then l.wants_signals end as waiting_signals,
       case when l.state = 'waiting' then l.wants_children::text[] end as waiting_children,
       case when l.state = 'waiting' then l.stack end as stack,
       r.input, r.metadata, r.options, null::json as result, null::json as error, null::text as reason,
       l.cancel is not null as cancel_requested, r.limit_scope, r.limit_key,
       case when l.state = 'running' then l.worker_id end as worker_id
from (
    select run_id, state, worker_id, generation, due_at, started_at, parked_at, cancel, wants_signals, wants_children, stack
    from runnerq.live
    where run_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000'::uuid)
    order by run_id
) as l
cross join lateral (
    select id, kind, name, version, queue, priority, created_at, root_id, parent_id, depth, key, input, metadata, options,
           limit_scope, limit_key
    from runnerq.run where id = l.run_id offset 0
) as r
left join lateral (
    select value from runnerq.journal where run_id = l.run_id and generation = l.generation and place = 0 offset 0
) as j on true
where r.kind = 'workflow' and r.name = any($1::text[])
order by l.run_id
limit $2::integer
