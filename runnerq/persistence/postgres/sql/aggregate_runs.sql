-- Count the runs that fit a filter, by a value of theirs.
-- $1 cap integer (of so many runs that fit, the newest)  $2 cursor uuid (null)  $3 to $21: as in list_runs.sql
-- $22 by text: status | workflow | queue | priority | minute | hour | day | failure (name, status and fingerprint, with \x1f
--    between them); null: all are one group, with an empty value
-- Returns value, how_many, first_at and last_at (of ends), sample (the newest run's id) and capped (more runs fit than were
--    counted, or not all were looked at); no row where none fits, but one without a value if not all were looked at.
-- Locks nothing. Its ways are those of list_runs.sql; run it with fetch_fresh.
with ahead as not materialized (
-- [way all
    select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
    from runnerq.run
    where id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
-- way]
-- [way parent
    select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
    from runnerq.run
    where parent_id = $8::uuid and id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
-- way]
-- [way root
    select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
    from runnerq.run
    where root_id = $9::uuid and id >= $13::uuid and id <= $14::uuid and ($2::uuid is null or id < $2::uuid)
    union all                                           -- a root's own row names none
    select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
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
), fit as materialized (
    select r.id, o.ended_at,
           case $22::text
               when 'status' then s.status
               when 'workflow' then r.name
               when 'queue' then r.queue
               when 'priority' then r.priority::text
               when 'minute' then to_char(r.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI":00+00:00"')
               when 'hour' then to_char(r.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24":00:00+00:00"')
               when 'day' then to_char(r.created_at at time zone 'UTC', 'YYYY-MM-DD"T00:00:00+00:00"')
               when 'failure' then concat_ws(e'\x1f', r.name, s.status, runnerq.fingerprint(o.error, o.reason))
               else '' end as value
-- [way all parent root
    from (
        select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
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
        select status, ended_at, error, reason from runnerq.outcome where run_id = a.id offset 0
    ) as o
    cross join lateral (
        select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
        from runnerq.run where id = a.id offset 0
    ) as r
    cross join lateral (select o.status) as s
-- way]
-- [way open few
    cross join lateral (
        select id, parent_id, root_id, created_at, version, priority, name, queue, key, metadata
        from runnerq.run where id = a.id offset 0
    ) as r
-- way]
-- [way all open few parent root
    left join lateral (select state, due_at, started_at from runnerq.live where run_id = r.id offset 0) as l on true
    left join lateral (
        select run_id, status, ended_at, error, reason from runnerq.outcome where run_id = r.id offset 0
    ) as o on true
    cross join lateral (
        select case when o.run_id is not null then o.status
                    when l.state = 'pending' and l.due_at is not null
                        then case when l.started_at is null then 'scheduled' else 'retrying' end
                    else l.state end as status
    ) as s
-- way]
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
-- [way all parent root
    order by r.id desc
-- way]
-- [way open few unwell
    order by a.id desc
-- way]
    limit $1::integer + 1
), part as materialized (
    select (select count(*) from fit) > $1::integer
           or ($15::integer is not null
               and (select id from ahead order by id desc offset $15::integer limit 1) is not null) as capped
)
select g.value, g.how_many, g.first_at, g.last_at, g.sample::text, p.capped
from part as p
left join (
    select value, count(*)::integer as how_many, min(ended_at) as first_at, max(ended_at) as last_at,
           (array_agg(id order by id desc))[1] as sample
    from (select id, ended_at, value from fit limit $1::integer) as f
    group by value
) as g on true
where p.capped or g.value is not null
