-- Create runs, ready at once or delayed, and claim their idempotency keys. A child is created only under a parent that is
-- open, or is created with it: none can come into a tree that is being deleted.
-- $1 runs json: an array of {id, root_id, parent_id, parent_position, kind, name, version, served, queue, priority, depth,
--    key, on_duplicate, due_at, due_in (seconds), limit_scope, limit_key}, with, by place, $2 input text[]  $3 metadata text[]  $4 options text[]
-- $5 rows json: [{turn (which run, from 1), place, at, kind, position}], the journals that they begin with, with
--    $6 value text[]  $7 asked text[]. The loader makes start_runs_plain, without what stands between [more and more]: for
--    runs that have no parent and begin with no journal.
-- Returns for each, in order: id (of the run that stands for it), created, refused (where id is its own: its parent is not
--    open). Repeating it is harmless.
-- Locks the live rows of the parents (key share), by id, then the key rows in the order of name and key; waits for both.
with new as materialized (
    select r.n, r.id, r.root_id, r.parent_id, r.parent_position, r.kind, r.name, r.version, r.served, r.queue, r.priority,
           r.depth, r.key, r.on_duplicate, r.limit_scope, r.limit_key,
           coalesce(                                    -- bounded: one row outside of all calendars would stop every claim
               case when r.due_at is not null then
                   greatest('1970-01-01 00:00+00', least(r.due_at, '9000-01-01 00:00+00')) end,
               now() + case when r.due_in > 1e11 then 1e11 else r.due_in end * interval '1 second') as due_at,
           r.input, r.metadata, r.options
    from rows from (
        json_to_recordset($1::json) as (
            id uuid, root_id uuid, parent_id uuid, parent_position text, kind text, name text, version integer, served text,
            queue text, priority smallint, depth smallint, key text, on_duplicate text,
            due_at timestamptz, due_in double precision, limit_scope text, limit_key text),
        unnest($2::text[]), unnest($3::text[]), unnest($4::text[])
    ) with ordinality as r(
        id, root_id, parent_id, parent_position, kind, name, version, served, queue, priority, depth, key, on_duplicate,
        due_at, due_in, limit_scope, limit_key, input, metadata, options, n)
-- [more
), above as materialized (
    select l.run_id
    from (select distinct parent_id from new where parent_id is not null order by parent_id) as r
    cross join lateral (
        select run_id from runnerq.live where run_id = r.parent_id for key share offset 0
    ) as l
), late as materialized (                               -- their parents are not open
    select r.n, r.id
    from new as r
    where r.parent_id is not null
      and not exists (select from above as a where a.run_id = r.parent_id)
      and not exists (select from new as p where p.id = r.parent_id)
-- more]
), first as materialized (                              -- a key given twice is the first one's, or the last one's of those
                                                        -- that each take it
    select distinct on (r.name, r.key) r.name, r.key, r.id, r.on_duplicate
    from new as r
    where r.key is not null
-- [more
      and not exists (select from late as x where x.n = r.n)
-- more]
    order by r.name, r.key, case when r.on_duplicate = 'allow_reuse' then -r.n else r.n end
), keyed as (                                           -- do update, not do nothing: a concurrent loser must see the holder
    insert into runnerq.key as kept (name, key, run_id)
    select f.name, f.key, f.id
    from first as f
    order by f.name, f.key
    on conflict (name, key) do update set run_id = case
        when (excluded.run_id in (select f.id from first as f where f.on_duplicate = 'allow_reuse')     -- hashed, once
              or excluded.run_id in (select f.id from first as f where f.on_duplicate = 'allow_reuse_on_failure')
                 and (select o.status from runnerq.outcome as o where o.run_id = kept.run_id)
                     in ('failed', 'dead_letter', 'cancelled'))
             and (select r.id from runnerq.run as r where r.id = excluded.run_id) is null then excluded.run_id
        else kept.run_id
    end
    returning name, key, run_id
), born as (
    insert into runnerq.run (
        id, parent_id, root_id, version, priority, depth, kind, name, queue, key, parent_position, input, metadata, options,
        limit_scope, limit_key)
    select r.id, r.parent_id, nullif(r.root_id, r.id), r.version, r.priority, r.depth, r.kind, r.name, r.queue, r.key,
           r.parent_position, r.input::json, r.metadata::json, r.options::json, r.limit_scope, r.limit_key
    from new as r
    left join keyed as k on k.name = r.name and k.key = r.key
    where (r.key is null or k.run_id = r.id or r.on_duplicate = 'allow_reuse')
-- [more
      and not exists (select from late as x where x.n = r.n)
-- more]
    on conflict do nothing
    returning id
), queued as (
    insert into runnerq.live (run_id, parent_id, rank, due_at, priority, state, queue, served, limit_scope, limit_key)
    select r.id, r.parent_id,
           coalesce(r.due_at, now()) - case r.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                                       when 2 then interval '0' else interval '-10 minutes' end,
           case when r.due_at > now() then r.due_at end,
           r.priority, 'pending', r.queue, r.served, r.limit_scope, r.limit_key
    from born as b
    join new as r on r.id = b.id
-- [more
), entered as (
    insert into runnerq.journal (run_id, token, at, generation, place, kind, position, value, asked)
    select r.id, 0, e.at, 1, e.place, e.kind, e.position, e.value::json, e.asked::json
    from rows from (
        json_to_recordset($5::json) as (turn integer, place integer, at timestamptz, kind text, position text),
        unnest($6::text[]), unnest($7::text[])
    ) as e(turn, place, at, kind, position, value, asked)
    join new as r on r.n = e.turn
    join born as b on b.id = r.id
-- more]
)
select case when s.own or s.late then r.id else k.run_id end::text as id, s.own as created,
       not s.own and (s.late or r.on_duplicate in ('no_reuse', 'allow_reuse_on_failure')) as refused
from new as r
left join keyed as k on k.name = r.name and k.key = r.key
cross join lateral (
    -- A start that is repeated stands for itself, even if its key has moved on since.
    select (select x.id from runnerq.run as x where x.id = r.id) is not null
           or (r.key is null or k.run_id = r.id or r.on_duplicate = 'allow_reuse')
-- [more
           and not exists (select from late as x where x.n = r.n)
-- more]
           as own,
           false
-- [more
           or exists (select from late as x where x.n = r.n)
-- more]
           as late
) as s
order by r.n
