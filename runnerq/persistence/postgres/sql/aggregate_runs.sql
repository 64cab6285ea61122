-- Count the runs that fit a filter, by a value of theirs.
-- $1 cap integer (of so many runs, the newest)  $2 before uuid (null)  $3 to $12: as in list_runs.sql
-- $13 by text: status | workflow | queue | priority | minute | hour | day (null: all are one group, with an empty value)
-- Returns value, how_many and capped (more runs fit than were counted); no row where none fits.
-- Locks nothing. Its ways are those of list_runs.sql; run it with fetch_fresh.
with fit as materialized (
    select case $13::text
               when 'status' then s.status
               when 'workflow' then r.name
               when 'queue' then r.queue
               when 'priority' then r.priority::text
               when 'minute' then to_char(r.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI":00+00:00"')
               when 'hour' then to_char(r.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24":00:00+00:00"')
               when 'day' then to_char(r.created_at at time zone 'UTC', 'YYYY-MM-DD"T00:00:00+00:00"')
               else '' end as value
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
    left join lateral (select state, due_at, started_at from runnerq.live where run_id = r.id offset 0) as l on true
    left join lateral (select run_id, status from runnerq.outcome where run_id = r.id offset 0) as o on true
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
    limit $1::integer + 1
)
select value, count(*)::integer as how_many, (select count(*) from fit) > $1::integer as capped
from (select value from fit limit $1::integer) as f
group by value
