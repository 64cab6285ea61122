-- Create runs that differ in nothing but their inputs, with neither key nor parent: the cheap form of start_runs.sql.
-- $1 id uuid[]  $2 input text[]: by place  $3 kind text  $4 name text  $5 version integer  $6 served text  $7 queue text
-- $8 priority smallint  $9 metadata text  $10 options text  $11 due_at timestamptz  $12 due_in double precision (seconds)
-- $13 limit_scope text (null: it has no limit)  $14 limit_key text
-- Returns nothing: every one of them is there then. Repeating it is harmless.
-- Locks nothing that exists.
with due as materialized (
    select case when d.at > now() then d.at end as at,
           coalesce(d.at, now()) - case $8::smallint when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                                     when 2 then interval '0' else interval '-10 minutes' end as rank
    from (select coalesce(                              -- bounded: one row outside of all calendars would stop every claim
        case when $11::timestamptz is not null then
            greatest('1970-01-01 00:00+00', least($11::timestamptz, '9000-01-01 00:00+00')) end,
        now() + case when $12::double precision > 1e11 then 1e11 else $12::double precision end * interval '1 second') as at
    ) as d
), born as (
    insert into runnerq.run (id, version, priority, depth, kind, name, queue, input, metadata, options,
                             limit_scope, limit_key)
    select r.id, $5::integer, $8::smallint, 0, $3::text, $4::text, $7::text, r.input::json, $9::text::json, $10::text::json,
           $13::text, $14::text
    from unnest($1::uuid[], $2::text[]) as r(id, input)
    on conflict do nothing
    returning id
)
insert into runnerq.live (run_id, rank, due_at, priority, state, queue, served, limit_scope, limit_key)
select b.id, d.rank, d.at, $8::smallint, 'pending', $7::text, $6::text, $13::text, $14::text
from born as b
cross join due as d
