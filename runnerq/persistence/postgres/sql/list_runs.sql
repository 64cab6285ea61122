-- Runs that fit a filter, newest first.
-- $1 limit integer  $2 before uuid (null: from the newest)  $3 statuses text[]  $4 workflow text  $5 queue text
-- $6 key_prefix text  $7 metadata text[] (patterns that the metadata's JSON text must match, all)  $8 parent uuid
-- $9 root uuid  $10 since timestamptz  $11 until timestamptz; a null is no condition
-- Returns the columns of a RunRecord.
-- Locks nothing. Three ways in, of which the parameters leave one open: all runs, a parent's, a root's. It is planned anew
--    each time, for what is given; run it with fetch_fresh.
with chosen as (
    select id from runnerq.run
    where $8::uuid is null and $9::uuid is null and ($2::uuid is null or id < $2::uuid)
    union all
    select id from runnerq.run
    where $8::uuid is not null and parent_id = $8::uuid and ($2::uuid is null or id < $2::uuid)
    union all
    select id from runnerq.run
    where $8::uuid is null and $9::uuid is not null and root_id = $9::uuid and ($2::uuid is null or id < $2::uuid)
    union all
    select id from runnerq.run                          -- a root's own row says null
    where $8::uuid is null and $9::uuid is not null and id = $9::uuid and root_id is null
      and ($2::uuid is null or id < $2::uuid)
)
select r.id::text, r.kind, r.name, r.version, r.queue, r.priority, s.status, r.created_at,
       coalesce(r.root_id, r.id)::text as root_id, r.parent_id::text, r.depth, r.key,
       coalesce(l.generation, o.generation) as generation, l.due_at, coalesce(l.started_at, o.started_at) as started_at,
       o.ended_at, case when l.state = 'waiting' then l.parked_at end as parked_at, j.value as started,
       case when l.state = 'waiting' then l.wants_signals end as waiting_signals,
       case when l.state = 'waiting' then l.wants_children::text[] end as waiting_children,
       case when l.state = 'waiting' then l.stack end as stack,
       r.input, r.metadata, r.options, o.result, o.error, o.reason,
       coalesce(o.cancel_requested, l.cancel is not null) as cancel_requested
from (select id from chosen order by id desc) as c
cross join lateral (
    select id, kind, name, version, queue, priority, created_at, root_id, parent_id, depth, key, input, metadata, options
    from runnerq.run where id = c.id offset 0
) as r
left join lateral (
    select run_id, state, generation, due_at, started_at, parked_at, cancel, wants_signals, wants_children, stack
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
cross join lateral (
    select case when o.run_id is not null then o.status
                when l.state = 'pending' and l.due_at is not null
                    then case when l.started_at is null then 'scheduled' else 'retrying' end
                else l.state end as status
) as s
where s.status is not null
  and ($3::text[] is null or s.status = any($3::text[]))
  and ($4::text is null or r.name = $4::text)
  and ($5::text is null or r.queue = $5::text)
  and ($6::text is null or starts_with(r.key, $6::text))
  and ($7::text[] is null or (r.metadata is not null
       and not exists (select from unnest($7::text[]) as m(pattern) where r.metadata::text !~ m.pattern)))
  and ($10::timestamptz is null or r.created_at >= $10::timestamptz)
  and ($11::timestamptz is null or r.created_at < $11::timestamptz)
limit $1
