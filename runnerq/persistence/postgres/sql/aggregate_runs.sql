-- Count the runs that fit a filter, by a value of theirs.
-- $1 cap integer (of so many runs that fit, the newest)  $2 cursor uuid (null)  $3 to $22: as in list_runs.sql
-- $23 by text: status | workflow | queue | priority | minute | hour | day | failure (name, status and fingerprint, with \x1f
--    between them); null: all are one group, with an empty value
-- Returns value, how_many, first_at and last_at (of ends), sample (the newest run's id) and capped (more runs fit than were
--    counted, or not all were looked at); no row where none fits, but one without a value if not all were looked at.
-- Locks nothing. Its ways are those of list_runs.sql; run it with fetch_fresh.
-- [as in list_runs: ahead]
), fit as materialized (
    select r.id, o.ended_at,
           case $23::text
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
    left join lateral (
        select state, worker_id, due_at, started_at from runnerq.live where run_id = r.id offset 0
    ) as l on true
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
-- [as in list_runs: fits]
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
