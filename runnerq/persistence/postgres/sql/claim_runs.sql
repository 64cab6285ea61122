-- Lease up to $3 ready runs of the wanted (queue, served) pairs, smallest rank first.
-- $1 queue text[]  $2 served text[]: the pairs, by place  $3 limit integer  $4 worker bigint
-- $5 token bigint (fresh, the caller's)  $6 rank timestamptz[]  $7 run uuid[]: where in each pair's order to begin (null: at
--    its beginning)  $8 candidates integer: how many to choose from, more than the limit, because somebody may hold some of
--    them  $9 timestamptz: from when on to look for the next due run (null: from ever)
-- Returns a first row with now, next_due, candidates (how many there were), scanned (seconds it took to choose), dead (rows
--    that vacuum has not removed, as the statistics know them), paused (text[]: the queues from which nothing is taken),
--    arrived (runs with a limit are ready that were not lined up yet), limited (some wait at gates, or have arrived),
--    next_open (when the next gate opens by its rate), more (something was left because others were at it, or it was not
--    looked at), shut_scopes and shut_keys (text[]: the buckets whose gates were shut, for want of places: see open_gates.sql)
--    and nothing else, then one row a run, by rank. `seen` is the inbox count of the snapshot, never the newer one of the lock.
--    `prior` is the token that the run carried. `blank` says that nothing else is on record of it: what there is of others is
--    read with read_claimed.sql.
-- Nothing is taken from a paused queue. Choosing takes no lock. A run that was claimed and given back between the snapshot
--    and the lock is left for the next claim, for what was seen of it is stale: its token, compared in both versions, tells.
-- There are two ways, of which the loader makes two statements: `free` takes runs without a limit alone, `limited` others as
--    well (limits.py has the rules). Of those it takes, at each open gate, as many as its bucket admits, of each lane one, then
--    of each a second one; of keys with gates of their own a large claim takes up to eight at a time, for each costs it a lock
--    and two writes. They stand among the others by their ranks: the first by turn where their smallest rank is.
-- Locks the worker's row (key share: a reaper that takes it apart waits), then for each run it takes its bucket, its gate,
--    its lane and the live row, and the gates that it shuts, skipping whatever somebody has locked: it waits for none of them.
with ready as materialized (                            -- those without a limit
    select c.run_id, c.rank, c.token, c.inbox, clock_timestamp() as at
    from unnest($1::text[], $2::text[], $6::timestamptz[], $7::uuid[]) as w(queue, served, rank, run_id)
    cross join lateral (
        select run_id, rank, token, inbox
        from runnerq.live
        where state = 'pending' and due_at is null and limit_scope is null and queue = w.queue and served = w.served
          and (rank, run_id) >= (
              coalesce(w.rank, '-infinity'::timestamptz), coalesce(w.run_id, '00000000-0000-0000-0000-000000000000'::uuid))
        order by rank, run_id
        limit $8::integer
    ) as c
    where w.queue <> all(array(select name from runnerq.queue))     -- the paused ones
    order by c.rank, c.run_id
    limit $8::integer
-- [way free
), candidate as materialized (
    select run_id, token, inbox, at from ready order by rank, run_id
), worker as materialized (
    select id from runnerq.worker
    where id = $4 and reaped_at is null and exists (select from candidate)
    for key share
), chosen as materialized (                             -- lazily, in the order of candidates: no more locks than needed
    select c.run_id, c.inbox as seen
    from candidate as c
    cross join lateral (
        select token, state, due_at
        from runnerq.live
        where run_id = c.run_id and exists (select from worker)
        for update skip locked offset 0
    ) as l
    where l.state = 'pending' and l.due_at is null and l.token = c.token
    limit $3::integer
-- way]
-- [way limited
), gate as materialized (                               -- the open ones, by turn. A place is a version: a new one has another
    select row_number() over (order by g.open_at) as n, g.place, g.scope, g.key, g.queue, g.served, g.open_at
    from unnest($1::text[], $2::text[]) as w(queue, served)
    cross join lateral (
        select ctid as place, scope, key, queue, served, open_at
        from runnerq.gate
        where queue = w.queue and served = w.served and open_at <= now()
        order by open_at
        limit $8::integer * 5 / 8 + 4                  -- each has a run or more: a few more gates than the limit will do
    ) as g
    where w.queue <> all(array(select name from runnerq.queue))
    order by g.open_at
    limit $8::integer * 5 / 8 + 4
), share as materialized (                              -- of all gates alike; where they are many, of each a few until it is enough
    select s.gates, s.at_once, greatest(s.alike, s.at_once) as runs,
           s.enough + case when s.alike > s.at_once then s.gates else 0 end as all_runs
    from (
        select count(*) as gates, least(8, $3::integer / 32 + 1) as at_once, $8::integer * 5 / 8 + 4 as enough,
               ($8::integer * 5 / 8 + 4) / greatest(1, count(*)) + 1 as alike
        from gate
    ) as s
), looked as materialized (                             -- lazily, by turn: of no more gates than needed, what may be admitted
    select g.n as gate, g.place, g.scope, g.key, g.queue, g.served, b.place as pail, b.whole, b.per, b.admitted_at, b.recent_at,
           b.recent_n, b.concurrency - h.running as places, b.rate - r.used as turns, r.first_at, r.free,
           case when b.whole then 1 else s.at_once end as at_once, l.place as lane, l.turn_at, l.wanted,
           c.run_id, c.rank, c.token, c.inbox, c.round, coalesce(c.found, 0) as found
    from (select n, place, scope, key, queue, served, open_at from gate order by n) as g
    cross join share as s
    cross join lateral (
        select ctid as place, whole, concurrency, rate, per, admitted_at, recent_at, recent_n
        from runnerq.bucket
        where scope = g.scope and key = g.key
        offset 0
    ) as b
    cross join lateral (
        select count(*)::integer as running
        from (
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = g.scope and limit_key = g.key and not b.whole
             limit coalesce(b.concurrency, 0))
            union all
            (select 1 from runnerq.live
             where state = 'running' and limit_scope = g.scope and b.whole
             limit coalesce(b.concurrency, 0))
        ) as l
    ) as h
    cross join lateral (
        select coalesce(sum(n), 0)::integer as used, min(at) as first_at,
               greatest(0, least($3::integer, b.concurrency - h.running, b.rate - coalesce(sum(n), 0)::integer)) as free
        from unnest(b.recent_at, b.recent_n) as e(at, n)
        where at > now() - b.per * interval '1 second'
    ) as r
    left join lateral (                                 -- the lanes at a gate; a key's own gate is its lane
        select null::tid as place, g.key, g.open_at as turn_at, least(r.free, s.runs) as wanted
        where r.free > 0 and not b.whole
        union all
        select place, key, turn_at, least(r.free, s.runs / count(*) over () + 1)
        from (
            select ctid as place, key, turn_at
            from runnerq.lane
            where b.whole and scope = g.scope and queue = g.queue and served = g.served
            order by turn_at
            limit least(r.free, s.runs)
        ) as w
    ) as l on true
    left join lateral (                                 -- by rank; one more says that more wait
        select run_id, rank, token, inbox, row_number() over () as round, count(*) over () as found
        from (
            select run_id, rank, token, inbox
            from runnerq.live
            where state = 'pending' and due_at is null and queue = g.queue and served = g.served and limit_scope = g.scope
              and limit_key = l.key
            order by rank, run_id
            limit l.wanted + 1
        ) as w
    ) as c on c.round <= l.wanted
    limit (select all_runs from share)
), fair as materialized (                               -- some of each line, by turn, then of each some more
    select place, pail, lane, run_id, rank, token, inbox,
           row_number() over (order by turn, turn_at, together, rank, run_id) as n
    from (
        select place, pail, lane, free, run_id, rank, token, inbox, (round - 1) / at_once as turn, turn_at,
               case when at_once > 1 then gate end as together,    -- what one claim has admitted has the same time
               row_number() over (partition by pail order by round, turn_at, rank, run_id) as nth
        from looked where run_id is not null
    ) as w
    where nth <= free
), candidate as materialized (
    select run_id, token, inbox, at, place, pail, lane
    from (
        select run_id, token, inbox, at, rank, 0 as n, null::tid as place, null::tid as pail, null::tid as lane
        from ready
        union all
        select f.run_id, f.token, f.inbox, statement_timestamp(), r.rank, f.n, f.place, f.pail, f.lane
        from fair as f
        join (select rank, row_number() over (order by rank, run_id) as n from fair) as r on r.n = f.n
    ) as c
    order by rank, n, run_id
    limit $8::integer
), worker as materialized (
    select id from runnerq.worker
    where id = $4 and reaped_at is null and (exists (select from candidate) or exists (select from gate))
    for key share
), chosen as materialized (                             -- lazily, in the order of candidates: no more locks than needed
    select c.run_id, c.inbox as seen, c.place, c.pail, c.lane
    from candidate as c
    cross join lateral (                                -- where it has changed since the snapshot, that has counted too early
        select true as had where c.pail is null
        union all
        select l.place = c.pail
        from (
            select ctid as place from runnerq.bucket
            where ctid = c.pail and exists (select from worker)
            for update skip locked offset 0
        ) as l
    ) as b
    cross join lateral (
        select true as had where c.pail is null
        union all
        select l.place = c.place
        from (
            select ctid as place from runnerq.gate where ctid = c.place and b.had for update skip locked offset 0
        ) as l
    ) as g
    cross join lateral (
        select true as had where c.lane is null
        union all
        select l.place = c.lane
        from (
            select ctid as place from runnerq.lane where ctid = c.lane and g.had for update skip locked offset 0
        ) as l
    ) as w
    cross join lateral (
        select token, state, due_at
        from runnerq.live
        where run_id = c.run_id and b.had and g.had and w.had and exists (select from worker)
        for update skip locked offset 0
    ) as l
    where b.had and g.had and w.had and l.state = 'pending' and l.due_at is null and l.token = c.token
    limit $3::integer
-- way]
), took as (
    update runnerq.live as live
    set state = 'running', token = $5, prior = live.token, worker_id = $4, started_at = coalesce(live.started_at, now()),
        lined = null                                    -- when it is ready again it has arrived anew
    from chosen as c
    where live.run_id = any(array(select run_id from chosen))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = c.run_id
    returning live.run_id, live.rank, live.priority, live.generation, live.crashes, live.faults, live.cancel,
              live.prior, live.served, live.limit_scope, live.limit_key, c.seen
-- [way limited
), admitted as materialized (
    select b.pail, a.how_many, b.per, b.recent_at, b.recent_n, b.places - a.how_many as places,
           b.turns - a.how_many as turns, greatest(clock_timestamp(), b.admitted_at) as at
    from (select pail, count(*)::integer as how_many from chosen where pail is not null group by pail) as a
    join (select distinct on (pail) pail, per, recent_at, recent_n, places, turns, admitted_at from looked) as b
      on b.pail = a.pail
), counted as (
    update runnerq.bucket as bucket
    set admitted_at = a.at, recent_at = coalesce(r.ats, '{}'), recent_n = coalesce(r.numbers, '{}')
    from admitted as a
    cross join lateral (                                -- a slice has its latest time: what is in it counts rather too long
        select array_agg(s.at order by s.at) as ats, array_agg(s.n order by s.at) as numbers
        from (
            select max(at) as at, sum(n)::integer as n
            from (
                select at, n from unnest(a.recent_at, a.recent_n) as e(at, n)
                where at > a.at - a.per * interval '1 second'
                union all
                select a.at, a.how_many where a.per is not null
            ) as e
            group by floor(extract(epoch from at)::double precision * 64 / a.per)
        ) as s
    ) as r
    where bucket.ctid = any(array(select pail from admitted)) and bucket.ctid = a.pail
), line as materialized (                               -- what became of each
    select l.place, l.lane, l.found, l.found > l.wanted as more, coalesce(t.how_many, 0) as taken
    from (select distinct place, lane, wanted, found from looked) as l
    left join (select place, lane, count(*) as how_many from chosen where pail is not null group by place, lane) as t
           on t.place = l.place and t.lane is not distinct from l.lane
), passed as materialized (                             -- and of each gate
    select g.place, g.pail, g.scope, g.key, l.taken, l.found, l.more,
           coalesce(a.places, g.places) as places, coalesce(a.turns, g.turns) as turns,
           coalesce(g.first_at, a.at, now()) + g.per * interval '1 second' as turns_at,
           case when g.free = 0 then false              -- its lines were not looked at
                when g.whole then (
                    select 1 from runnerq.lane
                    where scope = g.scope and queue = g.queue and served = g.served limit 1) is null
                else l.found = l.taken end as empty
    from (
        select distinct on (place) place, pail, scope, key, queue, served, whole, per, free, places, turns, first_at from looked
    ) as g
    join (select place, sum(taken) as taken, sum(found) as found, bool_or(more) as more from line group by place) as l
      on l.place = g.place
    left join admitted as a on a.pail = g.pail
), all_tried as materialized (
    select (select count(*) from chosen) < $3::integer as yes
), due as materialized (                                -- the gates that are not to stay as they are
    select p.place, p.pail, p.scope, p.key, p.taken, p.empty,
           case when p.places <= 0 then null when p.turns <= 0 then p.turns_at else now() end as open_at,
           p.more and (p.places > 0 and p.turns > 0) is not false as more
    from passed as p
    cross join all_tried as t
    where p.taken > 0 or p.empty or p.places <= 0 or p.turns <= 0 or p.found > 0 and t.yes
), settled as materialized (
    select place, scope, key, empty, open_at from due where taken > 0       -- locked already
    union all
    select d.place, d.scope, d.key, d.empty, d.open_at
    from due as d
    cross join lateral (
        select ctid as place from runnerq.bucket
        where ctid = d.pail and exists (select from worker)
        for update skip locked offset 0
    ) as b
    cross join lateral (
        select ctid as place from runnerq.gate where ctid = d.place and b.place = d.pail for update skip locked offset 0
    ) as g
    where d.taken = 0 and b.place = d.pail and g.place = d.place
), moved as (
    update runnerq.gate as gate
    set open_at = s.open_at
    from settled as s
    where gate.ctid = any(array(select place from settled where not empty)) and gate.ctid = s.place
), removed as (
    delete from runnerq.gate where ctid = any(array(select place from settled where empty))
), lane as materialized (                               -- the lanes that were admitted from, or were looked at in vain
    select lane as place, found = taken as empty
    from line
    where lane is not null and taken > 0                -- locked already
    union all
    select l.lane, l.found = 0
    from line as l
    cross join all_tried as t
    cross join lateral (
        select ctid as place from runnerq.lane
        where ctid = l.lane and exists (select from worker)
        for update skip locked offset 0
    ) as w
    where l.lane is not null and l.taken = 0 and (l.found = 0 or t.yes) and w.place = l.lane
), turned as (
    update runnerq.lane set turn_at = now() where ctid = any(array(select place from lane where not empty))
), left_lanes as (
    delete from runnerq.lane where ctid = any(array(select place from lane where empty))
-- way]
), seen as materialized (
    select coalesce(bool_or(w.arrived), false) as arrived,
           coalesce(bool_or(w.arrived or w.open_at <= now()), false) as limited,
-- [way free
           min(w.open_at) as next_open, false as more, '{}'::text[] as shut_scopes, '{}'::text[] as shut_keys
-- way]
-- [way limited
           least(min(w.later_at), (select min(open_at) from settled where open_at > now() and not empty)) as next_open,
           (select yes from all_tried)
           and ((select count(*) from settled) < (select count(*) from due)
                or exists (select from due where more and taken > 0)
                or exists (                             -- or there are others that were not looked at
                    select from share where gates >= $8::integer * 5 / 8 + 4 or all_runs <= (select count(*) from looked))
           ) as more,
           array(select scope from settled where open_at is null and not empty order by place) as shut_scopes,
           array(select key from settled where open_at is null and not empty order by place) as shut_keys
-- way]
    from (                                              -- without any limit, this is all that is looked at
        select exists (select from runnerq.gate where open_at is not null) as gates,
               exists (
                   select from runnerq.live
                   where state = 'pending' and due_at is null and limit_scope is not null and lined is null) as arrived
        offset 0
    ) as e
    cross join lateral (                                -- once each: what was lined up is in their way until vacuum comes
        select e.arrived and (                          -- of one row: of "exists" the planner would read and hash them all
                   select true from runnerq.live
                   where state = 'pending' and due_at is null and limit_scope is not null and lined is null
                     and queue = p.queue and served = p.served
                   limit 1) is true as arrived,
               (select open_at from runnerq.gate
                where queue = p.queue and served = p.served and open_at is not null order by open_at limit 1) as open_at,
               (select open_at from runnerq.gate
                where queue = p.queue and served = p.served and open_at > now() order by open_at limit 1) as later_at
        from unnest($1::text[], $2::text[]) as p(queue, served)
        where e.gates or e.arrived
        offset 0
    ) as w
)
select case when one.first then now() end as now,
       case when one.first then (
           select due_at from runnerq.live
           where due_at is not null and due_at >= coalesce($9::timestamptz, '-infinity'::timestamptz)
           order by due_at limit 1) end as next_due,
       case when one.first then (select count(*)::integer from candidate) end as candidates,
       case when one.first then (
           select extract(epoch from coalesce(max(at), clock_timestamp()) - statement_timestamp())::double precision
           from candidate) end as scanned,
       case when one.first then pg_stat_get_dead_tuples('runnerq.live'::regclass) end as dead,
       case when one.first then array(select name from runnerq.queue) end as paused,
       s.arrived, s.limited, s.next_open, s.more, s.shut_scopes, s.shut_keys,
       t.run_id::text, t.rank, t.served, t.priority, t.generation, t.crashes, coalesce(t.faults, 0) as faults, t.cancel,
       t.limit_scope, t.limit_key, t.prior,
       r.kind, r.name, r.version, r.queue, r.input, r.created_at, coalesce(r.root_id, r.id)::text as root_id,
       r.parent_id::text, r.depth, r.key, r.metadata, r.options, t.seen,
       case when t.prior = 0 and t.seen = 0 then (     -- one that was forked begins with a journal
           select run_id from runnerq.journal where run_id = t.run_id limit 1) is null
           else false end as blank
from (values (true), (false)) as one(first)
left join took as t on not one.first
left join seen as s on one.first
left join lateral (
    select id, kind, name, version, queue, input, created_at, root_id, parent_id, depth, key, metadata, options
    from runnerq.run where id = t.run_id offset 0
) as r on true
where one.first or t.run_id is not null
order by t.rank nulls first, t.run_id
