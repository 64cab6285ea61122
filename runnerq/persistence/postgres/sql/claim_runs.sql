-- Lease up to $3 ready runs of the wanted (queue, served) pairs, smallest rank first, with all that is needed to go on.
-- $1 queue text[]  $2 served text[]: the pairs, by place  $3 limit integer  $4 worker bigint
-- $5 token bigint (fresh, the caller's)  $6 run uuid[]  $7 token bigint[]: parked runs whose generators the worker still
--    has, and the tokens they were parked under  $8 rank timestamptz[]  $9 run uuid[]: where in each pair's order to begin
--    (null: at its beginning)  $10 candidates integer: how many to choose from, more than the limit, because somebody may
--    hold some of them  $11 timestamptz: from when on to look for the next due run (null: from ever)
-- Returns a first row with now, next_due, candidates (how many there were), scanned (seconds it took to choose), dead (rows
--    that vacuum has not removed, as the statistics know them) and paused (text[]: the queues from which nothing is taken)
--    and nothing else, then one row a run, by rank. Rows of
--    the journal are left out where the run still carries the token given; `seen` is the inbox count of the snapshot that
--    read the mail, never the newer one of the lock. An activity has no journal, and a run that was never claimed no
--    attempts: neither is looked for.
-- Nothing is taken from a paused queue. Choosing takes no lock. A run that was claimed and given back between the snapshot
--    and the lock is left for the next claim, for its journal here is stale: its token, compared in both versions, tells.
-- Locks the worker's row (key share: a reaper that takes it apart waits), then the live rows it takes, skipping locked ones.
with candidate as materialized (
    select c.run_id, c.token, c.inbox, clock_timestamp() as at
    from unnest($1::text[], $2::text[], $8::timestamptz[], $9::uuid[]) as w(queue, served, rank, run_id)
    cross join lateral (
        select run_id, rank, token, inbox
        from runnerq.live
        where state = 'pending' and due_at is null and queue = w.queue and served = w.served
          and (rank, run_id) >= (
              coalesce(w.rank, '-infinity'::timestamptz), coalesce(w.run_id, '00000000-0000-0000-0000-000000000000'::uuid))
        order by rank, run_id
        limit $10::integer
    ) as c
    where w.queue <> all(array(select name from runnerq.queue))     -- the paused ones
    order by c.rank, c.run_id
    limit $10::integer
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
), took as (
    update runnerq.live as live
    set state = 'running', token = $5, prior = live.token, worker_id = $4, started_at = coalesce(live.started_at, now())
    from chosen as c
    where live.run_id = any(array(select run_id from chosen))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = c.run_id
    returning live.run_id, live.rank, live.priority, live.generation, live.crashes, live.faults, live.cancel,
              live.wants_children, live.prior, live.served, c.seen
)
select case when one.first then now() end as now,
       case when one.first then (
           select due_at from runnerq.live
           where due_at is not null and due_at >= coalesce($11::timestamptz, '-infinity'::timestamptz)
           order by due_at limit 1) end as next_due,
       case when one.first then (select count(*)::integer from candidate) end as candidates,
       case when one.first then (
           select extract(epoch from coalesce(max(at), clock_timestamp()) - statement_timestamp())::double precision
           from candidate) end as scanned,
       case when one.first then pg_stat_get_dead_tuples('runnerq.live'::regclass) end as dead,
       case when one.first then array(select name from runnerq.queue) end as paused,
       t.run_id::text, t.rank, t.served, t.priority, t.generation, t.crashes, coalesce(t.faults, 0) as faults, t.cancel,
       h.token is not null as resumed,
       r.kind, r.name, r.version, r.queue, r.input, r.created_at, coalesce(r.root_id, r.id)::text as root_id,
       r.parent_id::text, r.depth, r.key, r.metadata, r.options, t.seen,
       w.places, w.kinds, w.positions, w.ats, w."values", w.asks, w.numbers, w.sent, w.channels, w.payloads, w.ended,
       case when t.prior <> 0 then (
           select array_agg(row(position, number, error::text, at, next_at, details::text))
           from runnerq.attempt
           where run_id = t.run_id and number >= 0 and coalesce(generation, t.generation) = t.generation) end as attempts,
       w.state
from (values (true), (false)) as one(first)
left join took as t on not one.first
left join lateral (
    select id, kind, name, version, queue, input, created_at, root_id, parent_id, depth, key, metadata, options
    from runnerq.run where id = t.run_id offset 0
) as r on true
left join unnest($6::uuid[], $7::bigint[]) as h(run_id, token) on h.run_id = t.run_id and h.token = t.prior
left join lateral (
    select j.places, j.kinds, j.positions, j.ats, j."values", j.asks, m.numbers, m.sent, m.channels, m.payloads, o.ended,
           (select value from runnerq.state where run_id = t.run_id) as state
    from (
        select array_agg(e.place) as places, array_agg(e.kind) as kinds, array_agg(e.position) as positions,
               array_agg(e.at) as ats, array_agg(e.value::text) as "values", array_agg(e.asked::text) as asks
        from (
            select place, kind, position, at, value, asked
            from runnerq.journal
            where run_id = t.run_id and generation = t.generation and h.token is null
            order by place
        ) as e
    ) as j
    cross join (
        select array_agg(e.number) as numbers, array_agg(e.at) as sent, array_agg(e.channel) as channels,
               array_agg(e.value::text) as payloads
        from (
            select number, at, channel, value
            from runnerq.signal
            where run_id = t.run_id and not taken
            order by number
        ) as e
    ) as m
    cross join (
        select array_agg(row(run_id::text, status, ended_at, result::text, error::text, reason, cancel_requested)) as ended
        from runnerq.outcome
        where run_id = any(t.wants_children)
    ) as o
    where r.kind = 'workflow'
    offset 0
) as w on true
where one.first or t.run_id is not null
order by t.rank nulls first, t.run_id
