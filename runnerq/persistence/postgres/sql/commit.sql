-- Write many turns, at most one a run, each whole or not at all. A turn is fenced by its run and token.
-- $1 turns json: an array, ordered by run_id, of
--    {run_id, token, seen, generation, place (of its last row), move: going | park | back | stuck | end | renew,
--     recovered, status, reason, cancel_requested (of an end), due_at, needs, signals, children (null: any), stack (of a
--     park), stuck: {build, retry_at, message, position, recorded, asked, line, traceback}, consumed, settled}
--    with, by place, $2 result text[]  $3 error text[]
-- $4 rows json: [{turn, next (it is of the generation that begins), place, at, kind, position}]  with $5 value text[]
--    $6 asked text[]
-- $7 published text[], by place of the turn
-- $8 children json: [{turn, id, root_id, kind, name, version, served, queue, priority, depth, parent_position, key,
--    on_duplicate, due_at, due_in, limit_scope, limit_key, detached (it has no parent)}]  with $9 input text[]  $10 metadata text[]  $11 options text[]
-- $12 attempts json: [{turn, position, number, at, next_at}]  with $13 error text[]  $14 details text[]
--    `turn` counts the turns from 1; payloads are JSON texts beside the documents, because inside them NUL and lone
--    surrogates would be refused. What stands between [more and more] costs a third of the time when it has nothing to do:
--    the loader makes a second statement, commit_plain, without it and without $7 to $14.
-- Returns a row for each turn that is written: run_id; again (it was to park, but something has come since `seen`, so
--    the run is still held); ready_queue (the run's, given back at once); own_worker (its holder: a child of it has ended in
--    this very commit); parent_queue (the end woke the parent); parent_worker (who holds the running parent). A turn that is
--    missing was not written: judge_turns.sql says why.
-- Locks the live rows of the runs in the given order, then those of the parents of the ones that end, by id, or the outcome
--    of a parent that has ended, against its being opened again meanwhile; never waits for any. Keys of new children are
--    waited for: the caller sends such turns apart, under a lock timeout.
with turn as materialized (
    select t.n, t.run_id, t.token, t.seen, t.generation, coalesce(t.place, -1) as place, t.move,
           coalesce(t.recovered, false) as recovered, t.status, t.reason,
           coalesce(t.cancel_requested, false) as cancel_requested, t.due_at,
           coalesce(t.needs, 0) as needs, t.signals, t.children, t.stack, t.stuck, t.consumed, t.settled,
           t.result, t.error
    from rows from (
        json_to_recordset($1::json) as (
            run_id uuid, token bigint, seen integer, generation integer, place integer, move text, recovered boolean,
            status text, reason text, cancel_requested boolean, due_at timestamptz, needs integer, signals text[],
            children uuid[], stack text[], stuck json, consumed integer[], settled text[]),
        unnest($2::text[]), unnest($3::text[])
    ) with ordinality as t(
        run_id, token, seen, generation, place, move, recovered, status, reason, cancel_requested, due_at, needs, signals,
        children, stack, stuck, consumed, settled, result, error, n)
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select t.n, t.run_id, t.token, t.generation, t.move, t.seen, t.status, t.recovered,
           l.token as holder, l.state, l.inbox, l.crashes, l.faults, l.generation as present, l.priority, l.parent_id,
           l.started_at, l.cancel is not null as cancelled
    from turn as t
    cross join lateral (
        select token, state, inbox, crashes, faults, generation, priority, parent_id, started_at, cancel
        from runnerq.live
        where run_id = t.run_id
        for update skip locked offset 0
    ) as l
), parent as materialized (
    select l.run_id, l.state, l.inbox, l.needs, l.arrived, l.generation, l.priority, l.due_at, l.rank, l.wants_children
    from (
        select distinct parent_id from held
        where move = 'end' and parent_id is not null and holder = token and state = 'running'
        order by parent_id
    ) as h
    cross join lateral (
        select run_id, state, inbox, needs, arrived, generation, priority, due_at, rank, wants_children
        from runnerq.live
        where run_id = h.parent_id
        for update skip locked offset 0
    ) as l
), done as materialized (                               -- the turns that are written
    select h.n, h.run_id, h.token, h.generation, h.move, h.seen, h.status,
           h.recovered and (h.crashes > 0 or h.faults is not null) as recovered, h.faults, h.inbox, h.priority, h.parent_id,
           h.started_at, h.cancelled, clock_timestamp() as at
    from held as h
    left join parent as p on h.move = 'end' and p.run_id = h.parent_id
    where h.holder = h.token and h.state = 'running' and h.generation = h.present
      and (h.move <> 'end' or h.parent_id is null or p.run_id is not null
           or (select l.run_id from runnerq.live as l where l.run_id = h.parent_id) is null
              and ((select o.run_id from runnerq.outcome as o where o.run_id = h.parent_id) is null
                   or (select o.run_id from runnerq.outcome as o where o.run_id = h.parent_id
                       for key share skip locked) is not null))
-- [more
), child as materialized (
    select case when not coalesce(c.detached, false) then d.run_id end as parent_id, c.n, c.id, c.root_id, c.kind, c.name,
           c.version, c.served, c.queue, c.priority, c.depth, c.parent_position, c.key, c.on_duplicate, c.limit_scope, c.limit_key,
           coalesce(                                    -- bounded: one row outside of all calendars would stop every claim
               case when c.due_at is not null then
                   greatest('1970-01-01 00:00+00', least(c.due_at, '9000-01-01 00:00+00')) end,
               now() + case when c.due_in > 1e11 then 1e11 else c.due_in end * interval '1 second') as due_at,
           c.input, c.metadata, c.options
    from rows from (
        json_to_recordset($8::json) as (
            turn integer, id uuid, root_id uuid, kind text, name text, version integer, served text, queue text,
            priority smallint, depth smallint, parent_position text, key text, on_duplicate text,
            due_at timestamptz, due_in double precision, limit_scope text, limit_key text, detached boolean),
        unnest($9::text[]), unnest($10::text[]), unnest($11::text[])
    ) with ordinality as c(
        turn, id, root_id, kind, name, version, served, queue, priority, depth, parent_position, key, on_duplicate,
        due_at, due_in, limit_scope, limit_key, detached, input, metadata, options, n)
    join done as d on d.n = c.turn
), keyed as (                                           -- do update, not do nothing: a concurrent loser must see the holder
    insert into runnerq.key as kept (name, key, run_id)
    select distinct on (c.name, c.key) c.name, c.key, c.id
    from child as c
    where c.key is not null
    order by c.name, c.key, case when c.on_duplicate = 'allow_reuse' then -c.n else c.n end    -- of those, the last has it
    on conflict (name, key) do update set run_id = case
        when (select r.id from runnerq.run as r where r.id = excluded.run_id) is not null then kept.run_id
        when (select c.on_duplicate from child as c where c.id = excluded.run_id) = 'allow_reuse' then excluded.run_id
        when (select c.on_duplicate from child as c where c.id = excluded.run_id) = 'allow_reuse_on_failure'
             and (select o.status from runnerq.outcome as o where o.run_id = kept.run_id)
                 in ('failed', 'dead_letter', 'cancelled') then excluded.run_id
        else kept.run_id
    end
    returning name, key, run_id
), born as (
    insert into runnerq.run (
        id, parent_id, root_id, version, priority, depth, kind, name, queue, key, parent_position, input, metadata, options,
        limit_scope, limit_key)
    select c.id, c.parent_id, nullif(c.root_id, c.id), c.version, c.priority, c.depth, c.kind, c.name, c.queue, c.key,
           c.parent_position, c.input::json, c.metadata::json, c.options::json, c.limit_scope, c.limit_key
    from child as c
    on conflict do nothing
    returning id
), queued as (
    insert into runnerq.live (run_id, parent_id, rank, due_at, priority, state, queue, served, limit_scope, limit_key)
    select c.id, c.parent_id,
           coalesce(c.due_at, now()) - case c.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                                       when 2 then interval '0' else interval '-10 minutes' end,
           case when c.due_at > now() then c.due_at end,
           c.priority, 'pending', c.queue, c.served, c.limit_scope, c.limit_key
    from born as b
    join child as c on c.id = b.id
    left join keyed as k on k.name = c.name and k.key = c.key
    where c.key is null or k.run_id = c.id or c.on_duplicate = 'allow_reuse'
), refused as (                                         -- a key that another run holds: the child ends before it began
    insert into runnerq.outcome (run_id, token, ended_at, status, error)
    select c.id, 0, clock_timestamp(), 'failed',
           json_build_object(
               'type', 'KeyTaken', 'module', concat('runnerq', '.errors'),      -- split: the schema is put in for its name
               'message', format('key %L of %s is held by run %s: use another key, or that run', c.key, c.name, k.run_id),
               'args', json_build_array(c.name, c.key, k.run_id), 'cause', null, 'notes', json_build_array(), 'stack', '',
               'retryable', false, 'rebuilt', true)
    from born as b
    join child as c on c.id = b.id
    join keyed as k on k.name = c.name and k.key = c.key
    where k.run_id <> c.id and c.on_duplicate <> 'allow_reuse'
    returning run_id
-- more]
), arrival as materialized (                            -- ends of children, and whom they reach
    select d.parent_id as run_id, d.run_id as child_id, d.status = 'completed' as completed
    from done as d
    where d.move = 'end' and d.parent_id is not null
-- [more
    union all
    select c.parent_id, c.id, false
    from refused as r
    join child as c on c.id = r.run_id
    where c.parent_id is not null
-- more]
), come as materialized (
    select a.run_id, count(*)::integer as inbox,
           (count(*) filter (where p.wants_children is null or a.child_id = any(p.wants_children)))::integer as wanted,
           coalesce(bool_or(not a.completed
                            and (p.wants_children is null or a.child_id = any(p.wants_children))), false) as failed
    from arrival as a
    left join parent as p on p.run_id = a.run_id
    group by a.run_id
), next as materialized (                               -- the one new version of every row that changes
    select d.run_id,
           case d.move when 'back' then 'pending' when 'stuck' then 'blocked'
                       when 'park' then case when d.inbox <> d.seen or c.run_id is not null then 'running' else 'waiting' end
                       else 'running' end as state,
           d.inbox + coalesce(c.inbox, 0) as inbox, t.needs, 0 as arrived, t.signals, t.children, t.stack, d.recovered,
           case when d.move = 'stuck' and t.stuck ->> 'build' is null
                then case when d.recovered then 1 else coalesce(d.faults, 0) + 1 end end::smallint as faults,
           d.generation + (d.move = 'renew')::integer as generation,
           case when d.move = 'park' and d.inbox = d.seen and c.run_id is null then t.due_at
                when d.move = 'back' and t.due_at > now() and not d.cancelled then t.due_at end as due_at,
           least(t.due_at, now()) - case d.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                                       when 2 then interval '0' else interval '-10 minutes' end as rank
    from done as d
    join turn as t on t.n = d.n
    left join come as c on c.run_id = d.run_id
    where d.move <> 'end'
      and (d.move in ('back', 'stuck', 'renew') or d.recovered or c.run_id is not null
           or d.move = 'park' and d.inbox = d.seen)
    union all
    select p.run_id, case when w.woken then 'pending' else p.state end,
           p.inbox + c.inbox, p.needs, case when p.state = 'waiting' then p.arrived + c.wanted else p.arrived end,
           null, p.wants_children, null, false, null, p.generation,
           case when w.woken then null else p.due_at end,
           case when w.woken
                then now() - case p.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                             when 2 then interval '0' else interval '-10 minutes' end
                else p.rank end
    from come as c
    join parent as p on p.run_id = c.run_id
    cross join lateral (
        select p.state = 'waiting' and (c.failed or c.wanted > 0 and p.arrived + c.wanted >= p.needs) as woken
    ) as w
    where not exists (select from done as d where d.run_id = c.run_id)
), moved as (
    update runnerq.live as live
    set state = n.state, inbox = n.inbox, generation = n.generation, due_at = n.due_at,
        rank = case when n.state = 'pending' then n.rank else live.rank end,
        crashes = case when n.recovered then 0 else live.crashes end,
        faults = case when n.state = 'blocked' then n.faults
                      when n.recovered or n.state = 'waiting' and live.state = 'running' then null else live.faults end,
        stack = case when n.state = 'waiting' then case when live.state = 'running' then n.stack else live.stack end end,
        needs = case when n.state = 'waiting' then n.needs else live.needs end,
        arrived = case when n.state = 'waiting' then n.arrived else live.arrived end,
        wants_signals = case when n.state = 'waiting' and live.state = 'running' then n.signals else live.wants_signals end,
        wants_children = case when n.state = 'waiting' then n.children else live.wants_children end,
        limit_scope = case when live.cancel is null or n.state = 'running' then live.limit_scope end,
        limit_key = case when live.cancel is null or n.state = 'running' then live.limit_key end,
        parked_at = case when n.state = 'waiting' and live.state = 'running' then now() else live.parked_at end
    from next as n
    where live.run_id = any(array(select run_id from next))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = n.run_id
    returning live.run_id, live.state, live.queue, live.worker_id
), gone as (
    delete from runnerq.live
    where run_id = any(array(select run_id from done where move = 'end'))
), ended as (
    insert into runnerq.outcome (
        run_id, token, ended_at, started_at, generation, cancel_requested, status, reason, result, error)
    select d.run_id, d.token, d.at, d.started_at, d.generation, t.cancel_requested or d.cancelled, d.status, t.reason,
           t.result::json, t.error::json
    from done as d
    join turn as t on t.n = d.n
    where d.move = 'end'
), entered as (
    insert into runnerq.journal as kept (run_id, token, at, generation, place, kind, position, value, asked)
    select d.run_id, d.token, e.at, d.generation + coalesce(e.next, false)::integer, e.place, e.kind, e.position,
           e.value::json, e.asked::json
    from rows from (
        json_to_recordset($4::json) as (
            turn integer, next boolean, place integer, at timestamptz, kind text, position text),
        unnest($5::text[]), unnest($6::text[])
    ) as e(turn, next, place, at, kind, position, value, asked)
    join done as d on d.n = e.turn
    on conflict (run_id, generation, place) do update       -- the same again is harmless, and another row is refused
    set kind = ('place ' || kept.place || ' of run ' || kept.run_id || ' is on record as ' || kept.kind || ' of '''
                || kept.position || ''', and not as ' || excluded.kind || ' of ''' || excluded.position || '''')::integer::text
    where kept.kind <> excluded.kind or kept.position <> excluded.position
-- [more
), attempted as (                                       -- an answered position keeps a row that keeps late details out
    insert into runnerq.attempt as kept (run_id, position, number, at, next_at, generation, error, details)
    select d.run_id, a.position, a.number, a.at, a.next_at, d.generation, a.error::json, a.details::json
    from rows from (
        json_to_recordset($12::json) as (
            turn integer, position text, number integer, at timestamptz, next_at timestamptz),
        unnest($13::text[]), unnest($14::text[])
    ) as a(turn, position, number, at, next_at, error, details)
    join done as d on d.n = a.turn
    join turn as t on t.n = d.n
    where d.move not in ('end', 'renew') and (a.position = any(t.settled)) is not true
    union all
    select s.run_id, s.position, -1, now(), null, s.generation, null, null
    from (
        select distinct d.run_id, d.generation, u.position
        from done as d
        join turn as t on t.n = d.n
        cross join lateral unnest(t.settled) as u(position)
        where d.move not in ('end', 'renew')
    ) as s
    on conflict (run_id, position) do update
    set number = excluded.number, at = excluded.at, next_at = excluded.next_at, generation = excluded.generation,
        error = excluded.error, details = excluded.details
    where excluded.number < 0 or excluded.number >= kept.number or kept.generation < excluded.generation
-- more]
), dropped as (
    delete from runnerq.attempt
    where run_id = any(array(select run_id from done where move in ('end', 'renew')))
), taken as materialized (
    select s.ctid as place, s.dedup is not null as stays
    from done as d
    join turn as t on t.n = d.n
    cross join lateral unnest(t.consumed) as c(number)
    cross join lateral (
        select ctid, dedup from runnerq.signal where run_id = d.run_id and number = c.number offset 0
    ) as s
), eaten as (
    delete from runnerq.signal where ctid = any(array(select place from taken where not stays))
), marked as (                                          -- one with a dedup id stays, so that it counts once for ever
    update runnerq.signal set taken = true where ctid = any(array(select place from taken where stays))
-- [more
), shown as (
    insert into runnerq.state as kept (run_id, generation, place, value)
    select d.run_id, d.generation, t.place, p.value::json
    from unnest($7::text[]) with ordinality as p(value, n)
    join done as d on d.n = p.n
    join turn as t on t.n = p.n
    where p.value is not null
    on conflict (run_id) do update
    set generation = excluded.generation, place = greatest(excluded.place, kept.place), value = excluded.value
    where excluded.place < 0 or (excluded.generation, excluded.place) >= (kept.generation, kept.place)
), stuck as (
    insert into runnerq.block as kept (
        run_id, at, retry_at, builds, message, position, recorded, asked, line, traceback)
    select d.run_id, d.at, s.retry_at, array_remove(array[s.build], null), s.message, s.position, s.recorded, s.asked,
           s.line, s.traceback
    from done as d
    join turn as t on t.n = d.n
    cross join lateral json_to_record(t.stuck) as s(
        build text, retry_at timestamptz, message text, position text, recorded text, asked text, line text, traceback text)
    where d.move = 'stuck'
    on conflict (run_id) do update
    set at = excluded.at, retry_at = excluded.retry_at, message = excluded.message, position = excluded.position,
        recorded = excluded.recorded, asked = excluded.asked, line = excluded.line, traceback = excluded.traceback,
        builds = kept.builds || array(select unnest(excluded.builds) except select unnest(kept.builds))
), told as (
    insert into runnerq.event (kind, run_id, data)
    select 'blocked', d.run_id, json_strip_nulls(json_build_object('message', s.message, 'position', s.position, 'build', s.build))
    from done as d
    join turn as t on t.n = d.n
    cross join lateral json_to_record(t.stuck) as s(message text, position text, build text)
    where d.move = 'stuck'
-- more]
), freed as (                                           -- a build that came this far could follow the run
    delete from runnerq.block
    where run_id = any(array(select run_id from done where move in ('park', 'end')))
)
select d.run_id::text,
       d.move = 'park' and (d.inbox <> d.seen or c.run_id is not null) as again,
       case when own.state = 'pending' then own.queue end as ready_queue,
       case when own.state = 'running' and c.run_id is not null then own.worker_id end as own_worker,
       case when up.state = 'pending' then up.queue end as parent_queue,
       case when up.state = 'running' then up.worker_id end as parent_worker
from done as d
left join come as c on c.run_id = d.run_id
left join moved as own on own.run_id = d.run_id
left join moved as up on d.move = 'end' and up.run_id = d.parent_id
