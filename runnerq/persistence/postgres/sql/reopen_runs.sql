-- Open runs again that ended as failed, dead-lettered or cancelled, or are blocked: all of them, or none.
-- $1 run uuid[] (distinct)  $2 generation integer[]  $3 status text[]: what the caller saw of them, by place, and beside it
--    the next row of each one's journal: $4 place integer[] (null: none)  $5 at timestamptz[]  $6 kind text[]
--    $7 position text[]  $8 value text[]  $9 asked text[] (JSON texts)
-- Returns run_id and queue of all; nothing, and nothing is changed, if one is no longer what the caller saw, has a row at
--    that place, never ran because another run holds its key, or is of a tree that is being deleted.
-- Locks the live rows of the blocked ones and of the roots of the ended ones, by id, then the outcomes of the ended ones and
--    of their roots, by id; waits for both. A tree is deleted under the lock of its root's outcome, after all of it has ended:
--    whichever of the two rows its root has, holding that keeps it. Under the lock of a run's own row its journal is what the
--    snapshot shows of it, if what is locked is what the snapshot shows: an outcome is written once, and whoever takes a
--    blocked run up changes its state or its token.
with named as materialized (
    select w.run_id, w.generation, w.status, w.place, w.at, w.kind, w.position, w.value, w.asked
    from unnest($1::uuid[], $2::integer[], $3::text[], $4::integer[], $5::timestamptz[], $6::text[], $7::text[], $8::text[],
                $9::text[]) as w(run_id, generation, status, place, at, kind, position, value, asked)
), root as materialized (                               -- those that are not to be opened themselves
    select distinct r.root_id as run_id
    from named as n
    cross join lateral (select root_id from runnerq.run where id = n.run_id offset 0) as r
    where n.status <> 'blocked' and r.root_id is not null
      and not exists (select from named as x where x.run_id = r.root_id)
), stuck as materialized (                              -- lock by id alone, then judge what the lock shows
    select w.run_id, l.state = 'blocked' and l.generation = w.generation and w.token = l.token as fits
    from (
        select n.run_id, n.generation, b.token
        from named as n
        cross join lateral (select token from runnerq.live where run_id = n.run_id and state = 'blocked' offset 0) as b
        where n.status = 'blocked'
        union all
        select t.run_id, null, null
        from root as t
        cross join lateral (select run_id from runnerq.live where run_id = t.run_id offset 0) as l
        order by run_id
    ) as w
    cross join lateral (
        select state, generation, token from runnerq.live where run_id = w.run_id for update offset 0
    ) as l
), over as materialized (
    select o.run_id, o.token, o.started_at, o.generation,
           o.doomed_at is null as stays,
           o.doomed_at is null and o.status = w.status and o.generation = w.generation
           and w.status in ('failed', 'dead_letter', 'cancelled')
           and (o.started_at is not null or w.key is null or coalesce(
                   (select k.run_id from runnerq.key as k where k.name = w.name and k.key = w.key), o.run_id) = o.run_id)
               as fits
    from (
        select n.run_id, n.generation, n.status, r.name, r.key
        from named as n
        cross join lateral (select name, key from runnerq.run where id = n.run_id offset 0) as r
        where n.status <> 'blocked' and (select count(*) from stuck) >= 0       -- after the live rows
        union all
        select t.run_id, null, null, null, null
        from root as t
        where not exists (select from stuck as s where s.run_id = t.run_id)
        order by run_id
    ) as w
    cross join lateral (
        select run_id, token, started_at, generation, status, doomed_at
        from runnerq.outcome where run_id = w.run_id for update offset 0
    ) as o
), fit as materialized (                                -- empty, unless all are
    select n.run_id
    from named as n
    where (select count(*) from named) = (
        select count(*)
        from named as w
        left join stuck as s on s.run_id = w.run_id
        left join over as o on o.run_id = w.run_id
        where coalesce(s.fits, o.fits, false)
          and (w.place is null or (
              select j.place from runnerq.journal as j
              where j.run_id = w.run_id and j.generation = w.generation and j.place = w.place) is null))
      and (select count(*) from root) = (
        select count(*)
        from root as t
        left join stuck as s on s.run_id = t.run_id
        left join over as o on o.run_id = t.run_id
        where s.run_id is not null or o.stays)
), entered as (
    insert into runnerq.journal (run_id, token, at, generation, place, kind, position, value, asked)
    select n.run_id, 0, n.at, n.generation, n.place, n.kind, n.position, n.value::json, n.asked::json
    from named as n
    join fit as f on f.run_id = n.run_id
    where n.place is not null
), forgotten as (
    delete from runnerq.outcome where run_id = any(array(select f.run_id from fit as f join over as o on o.run_id = f.run_id))
), queued as (
    insert into runnerq.live (
        run_id, parent_id, prior, rank, started_at, inbox, generation, priority, state, queue, served, reopened_at,
        limit_scope, limit_key)
    select o.run_id, r.parent_id, o.token,
           now() - case r.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                   when 2 then interval '0' else interval '-10 minutes' end,
           o.started_at,
           coalesce((select max(s.number) from runnerq.signal as s where s.run_id = o.run_id), 0),   -- their order goes on
           o.generation, r.priority, 'pending', r.queue,
           case r.kind when 'workflow' then concat(r.name, '@', case r.version when 0 then '?' else r.version::text end)
                       else r.name end,
           clock_timestamp(), r.limit_scope, r.limit_key
    from fit as f
    join over as o on o.run_id = f.run_id
    cross join lateral (
        select parent_id, priority, queue, kind, name, version, limit_scope, limit_key
        from runnerq.run where id = o.run_id offset 0
    ) as r
), moved as (                                           -- a generator that somebody kept does not know the new row
    update runnerq.live as live
    set state = 'pending', due_at = null, token = -abs(live.token), prior = abs(live.token), faults = null,
        rank = now() - case live.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                          when 2 then interval '0' else interval '-10 minutes' end
    from stuck as s
    where live.run_id = any(array(select f.run_id from fit as f join stuck as s on s.run_id = f.run_id))
      and live.run_id = s.run_id
), freed as (
    delete from runnerq.block where run_id = any(array(select run_id from fit))
), dropped as (                                         -- of an ended one: what came so late that its end did not see it
    delete from runnerq.attempt
    where run_id = any(array(select run_id from fit))
      and (number < 0 or run_id = any(array(select f.run_id from fit as f join over as o on o.run_id = f.run_id)))
), told as (
    insert into runnerq.event (kind, run_id, data)
    select 'reopened', f.run_id, json_build_object('from', n.status)
    from fit as f
    join named as n on n.run_id = f.run_id
)
select f.run_id::text, r.queue
from fit as f
cross join lateral (select queue from runnerq.run where id = f.run_id offset 0) as r
