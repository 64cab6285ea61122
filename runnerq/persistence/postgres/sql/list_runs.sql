-- Runs that fit a filter, newest first, and where the look at them ended.
-- $1 limit integer  $2 cursor uuid (null: from the newest)  $3 statuses text[]  $4 workflow text  $5 queue text
-- $6 key_prefix text  $7 metadata text[] (patterns that the metadata's JSON text must match, all)  $8 parent uuid
-- $9 root uuid  $10 since timestamptz  $11 until timestamptz  $12 states text[]: what stands in the live rows of those
--    statuses (ways open and few; else null)  $13 low uuid  $14 high uuid: of which ids  $15 look integer: how many to look at
-- $16 version integer  $17 roots boolean  $18 error text (as it stands in JSON)  $19 fingerprint text
-- $20 ended_since timestamptz  $21 ended_until timestamptz  $22 worker bigint (of $3 'running' alone); a null is no condition
-- Returns stop (the id behind which to look on, where limit was not reached and more is there), and up to limit + 1 times the
--    columns of a RunRecord without input and result; a single row with a null id where none fits.
-- Locks nothing. There are ways to the runs, and of what stands between [way and way] the loader keeps one way's: all, open
--    (all statuses are open ones), few (running and blocked ones, which have indexes of their own), unwell (ends other than
--    completed), parent, root. Of each the loader makes one that turns, oldest first: without desc, and with > $2.
--    It is planned anew each time, for what is given, stops when it has enough, and never looks at more than $15 runs. Run it
--    with fetch_fresh.
-- What leads to the runs, and what fits, is a part of aggregate_runs.sql, too.
-- [turns]
-- [part ahead
with ahead as not materialized (
-- [way all
    select id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, metadata, options, limit_scope,
           limit_key
    from runnerq.run
    where id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
-- way]
-- [way parent
    select id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, metadata, options, limit_scope,
           limit_key
    from runnerq.run
    where parent_id = $8::uuid and id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
-- way]
-- [way root
    select id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, metadata, options, limit_scope,
           limit_key
    from runnerq.run
    where root_id = $9::uuid and id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
    union all                                           -- a root's own row names none
    select id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, metadata, options, limit_scope,
           limit_key
    from runnerq.run
    where id = $9::uuid and root_id is null and id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
-- way]
-- [way open
    select run_id as id, state, due_at, started_at, queue, served
    from runnerq.live
    where run_id >= $13::uuid and run_id <= $14::uuid and ($2::uuid is null or run_id < $2::uuid)
-- way]
-- [way few
    select run_id as id, state, due_at, started_at, queue, served
    from runnerq.live
    where (state = 'running' or state = 'blocked') and state = any($12::text[])
      and ($22::bigint is null or worker_id = $22::bigint)
      and run_id >= $13::uuid and run_id <= $14::uuid and ($2::uuid is null or run_id < $2::uuid)
-- way]
-- [way unwell
    select run_id as id from runnerq.outcome
    where status = 'failed' and 'failed' = any($3::text[])
      and run_id >= $13::uuid and run_id <= $14::uuid and ($2::uuid is null or run_id < $2::uuid)
    union all
    select run_id from runnerq.outcome
    where status = 'dead_letter' and 'dead_letter' = any($3::text[])
      and run_id >= $13::uuid and run_id <= $14::uuid and ($2::uuid is null or run_id < $2::uuid)
    union all
    select run_id from runnerq.outcome
    where status = 'cancelled' and 'cancelled' = any($3::text[])
      and run_id >= $13::uuid and run_id <= $14::uuid and ($2::uuid is null or run_id < $2::uuid)
-- way]
-- part]
), found as materialized (
    select r.id, r.kind, r.name, r.version, r.queue, r.priority, s.status, r.created_at,
           coalesce(r.root_id, r.id) as root_id, r.parent_id, r.depth, r.key,
           coalesce(l.generation, o.generation) as generation, l.due_at, coalesce(l.started_at, o.started_at) as started_at,
           o.ended_at, case when l.state = 'waiting' then l.parked_at end as parked_at,
           case when l.state = 'waiting' then l.wants_signals end as waiting_signals,
           case when l.state = 'waiting' then l.wants_children::text[] end as waiting_children,
           case when l.state = 'waiting' then l.stack end as stack,
           r.metadata, r.options, o.error, o.reason,
           coalesce(o.cancel_requested, l.cancel is not null) as cancel_requested, r.limit_scope, r.limit_key,
           case when l.state = 'running' then l.worker_id end as worker_id
-- [way all parent root
    from (
        select id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, metadata, options,
               limit_scope, limit_key
        from ahead
        order by id desc
        limit $15::integer
    ) as r
-- way]
-- [way open few
    from (
        select id, state, due_at, started_at, queue, served from ahead order by id desc limit $15::integer
    ) as a
-- way]
-- [way unwell
    from (select id from ahead order by id desc limit $15::integer) as a
    cross join lateral (
        select run_id, status, generation, started_at, ended_at, cancel_requested, error, reason
        from runnerq.outcome where run_id = a.id offset 0
    ) as o
-- way]
-- [way open few unwell
    cross join lateral (
        select id, parent_id, root_id, created_at, version, priority, depth, kind, name, queue, key, metadata, options,
               limit_scope, limit_key
        from runnerq.run where id = a.id offset 0
    ) as r
-- way]
    left join lateral (
        select run_id, state, worker_id, generation, due_at, started_at, parked_at, cancel, wants_signals, wants_children,
               stack
        from runnerq.live where run_id = r.id offset 0
    ) as l on true
-- [way all open few parent root
    left join lateral (
        select run_id, status, generation, started_at, ended_at, cancel_requested, error, reason
        from runnerq.outcome where run_id = r.id offset 0
    ) as o on true
-- way]
    cross join lateral (
        select case when o.run_id is not null then o.status
                    when l.state = 'pending' and l.due_at is not null
                        then case when l.started_at is null then 'scheduled' else 'retrying' end
                    else l.state end as status
    ) as s
-- [part fits
    where s.status is not null
-- [way open few
      and a.state = any($12::text[])
      and (a.state <> 'pending' or case when a.due_at is null then 'pending' when a.started_at is null then 'scheduled'
                                        else 'retrying' end = any($3::text[]))
      and ($5::text is null or a.queue = $5::text)
      and ($4::text is null or a.served = $4::text or starts_with(a.served, concat($4::text, '@')))
-- way]
-- [way all parent root unwell
      and ($3::text[] is null or s.status = any($3::text[])) and $12::text[] is null
-- way]
      and ($8::uuid is null or r.parent_id = $8::uuid) and ($9::uuid is null or coalesce(r.root_id, r.id) = $9::uuid)
      and ($4::text is null or r.name = $4::text)
      and ($5::text is null or r.queue = $5::text)
      and ($16::integer is null or r.version = $16::integer)
      and ($17::boolean is not true or r.parent_id is null)
      and ($6::text is null or starts_with(r.key, $6::text))
      and ($7::text[] is null or r.metadata::text ~ all($7::text[]))
      and ($10::timestamptz is null or r.created_at >= $10::timestamptz)
      and ($11::timestamptz is null or r.created_at < $11::timestamptz)
      and ($20::timestamptz is null or o.ended_at >= $20::timestamptz)
      and ($21::timestamptz is null or o.ended_at < $21::timestamptz)
      and ($18::text is null or strpos(lower(o.error::text), lower($18::text)) > 0)
      and ($19::text is null or runnerq.fingerprint(o.error, o.reason) = $19::text)
-- [way few parent root
      and ($22::bigint is null or (l.state = 'running' and l.worker_id = $22::bigint))
-- way]
-- [way all open unwell
      and $22::bigint is null
-- way]
-- [way all parent root
    order by r.id desc
-- way]
-- [way open few unwell
    order by a.id desc
-- way]
    limit $1::integer + 1
-- part]
)
select case when (select count(*) from found) <= $1::integer then (
           select id from ahead order by id desc offset $15::integer - 1 limit 1
       ) end::text as stop,
       f.id::text, f.kind, f.name, f.version, f.queue, f.priority, f.status, f.created_at, f.root_id::text, f.parent_id::text,
       f.depth, f.key, f.generation, f.due_at, f.started_at, f.ended_at, f.parked_at, j.value as started, f.waiting_signals,
       f.waiting_children, f.stack, null::json as input, f.metadata, f.options, null::json as result, f.error, f.reason,
       f.cancel_requested, f.limit_scope, f.limit_key, f.worker_id
from (select) as one
left join found as f on true
left join lateral (
    select value from runnerq.journal where run_id = f.id and generation = f.generation and place = 0 offset 0
) as j on true
order by f.id desc
