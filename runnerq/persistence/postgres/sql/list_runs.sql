-- Runs that fit a filter, newest first.
-- $1 limit integer  $2 before uuid (null: from the newest)  $3 statuses text[]  $4 workflow text  $5 queue text
-- $6 key_prefix text  $7 metadata text[] (patterns that the metadata's JSON text must match, all)  $8 parent uuid
-- $9 root uuid  $10 since timestamptz  $11 until timestamptz; a null is no condition
-- $12 states text[]: what stands in the live rows of those statuses (way open; else null)
-- Returns the columns of a RunRecord.
-- Locks nothing. There are ways to the runs, and of what stands between [way and way] the loader keeps one way's: all (from
--    the newest), open (all statuses are open ones), unwell (ends other than completed), parent, root. It is planned anew each
--    time, for what is given, and stops when it has enough; where few runs fit and no way leads to them, it reads all. Run it
--    with fetch_fresh.
select r.id::text, r.kind, r.name, r.version, r.queue, r.priority, s.status, r.created_at,
       coalesce(r.root_id, r.id)::text as root_id, r.parent_id::text, r.depth, r.key,
       coalesce(l.generation, o.generation) as generation, l.due_at, coalesce(l.started_at, o.started_at) as started_at,
       o.ended_at, case when l.state = 'waiting' then l.parked_at end as parked_at, j.value as started,
       case when l.state = 'waiting' then l.wants_signals end as waiting_signals,
       case when l.state = 'waiting' then l.wants_children::text[] end as waiting_children,
       case when l.state = 'waiting' then l.stack end as stack,
       r.input, r.metadata, r.options, o.result, o.error, o.reason,
       coalesce(o.cancel_requested, l.cancel is not null) as cancel_requested, r.limit_scope, r.limit_key
from runnerq.run as r
-- [way open
join runnerq.live as w on w.run_id = r.id
  and w.state = any($12::text[])
  and (w.state <> 'pending' or case when w.due_at is null then 'pending' when w.started_at is null then 'scheduled'
                                    else 'retrying' end = any($3::text[]))
  and ($5::text is null or w.queue = $5::text)
  and ($4::text is null or w.served = $4::text or starts_with(w.served, concat($4::text, '@')))
-- way]
-- [way unwell
join runnerq.outcome as u on u.run_id = r.id and u.status <> 'completed' and u.status = any($3::text[])
-- way]
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
-- [way parent
  and r.parent_id = $8::uuid
-- way]
-- [way root
  and (r.root_id = $9::uuid or r.id = $9::uuid)         -- a root's own row names none
-- way]
  and ($8::uuid is null or r.parent_id = $8::uuid) and ($9::uuid is null or coalesce(r.root_id, r.id) = $9::uuid)
  and ($2::uuid is null or r.id < $2::uuid)
-- [way all parent root
  and ($3::text[] is null or s.status = any($3::text[]))
-- way]
-- [way all parent root unwell
  and $12::text[] is null
-- way]
  and ($4::text is null or r.name = $4::text)
  and ($5::text is null or r.queue = $5::text)
  and ($6::text is null or starts_with(r.key, $6::text))
  and ($7::text[] is null or (r.metadata is not null
       and not exists (select from unnest($7::text[]) as m(pattern) where r.metadata::text !~ m.pattern)))
  and ($10::timestamptz is null or r.created_at >= $10::timestamptz)
  and ($11::timestamptz is null or r.created_at < $11::timestamptz)
order by r.id desc
limit $1
