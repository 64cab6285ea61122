-- Look over the next $1 open runs, by id and for the whole fleet, for what must not be.
-- $1 limit integer
-- Mends parked runs whose wake is already there, and running ones whose worker has no row. Returns run_id, fault (missed:
--    made ready; orphaned: given back; left: a child whose parent has ended, for the caller to cancel) and queue.
-- Locks the cursor (if somebody has it, nothing is done), then the live rows it mends, skipping locked ones.
with place as materialized (
    select run_id from runnerq.sweep for update skip locked
), ahead as materialized (
    select l.run_id, l.token, l.state, l.worker_id, l.parent_id, l.cancel, l.cancel_at, l.reopened_at, l.parked_at, l.needs,
           l.wants_signals, l.wants_children
    from place as p
    cross join lateral (
        select run_id, token, state, worker_id, parent_id, cancel, cancel_at, reopened_at, parked_at, needs, wants_signals,
               wants_children
        from runnerq.live
        where run_id > p.run_id
        order by run_id
        limit $1::integer
    ) as l
), onward as (                                          -- a look that comes short was the last of a round
    update runnerq.sweep
    set run_id = case when (select count(*) from ahead) < $1::integer then '00000000-0000-0000-0000-000000000000'::uuid
                      else (select run_id from ahead order by run_id desc limit 1) end
    where exists (select from place)
), wrong as materialized (
    select a.run_id, a.token, a.state, 'left' as fault
    from ahead as a
    where a.parent_id is not null and a.cancel is null
      -- One that was opened again since outlives the end of its parent.
      and (select o.ended_at from runnerq.outcome as o where o.run_id = a.parent_id)
          > coalesce(a.reopened_at, '-infinity'::timestamptz)
      -- A look at the text: taking the document apart would fail on a NUL anywhere in it.
      and (select coalesce(r.options::text, '') from runnerq.run as r where r.id = a.run_id)
          !~ '"parent_close"\s*:\s*"abandon"'
    union all
    select a.run_id, a.token, a.state, 'orphaned'
    from ahead as a
    where a.state = 'running' and (select w.id from runnerq.worker as w where w.id = a.worker_id) is null
    union all
    select a.run_id, a.token, a.state, 'missed'
    from ahead as a
    where a.state = 'waiting'
      and (a.cancel_at > a.parked_at
           or cardinality(a.wants_signals) > 0 and (
               select s.number from runnerq.signal as s
               where s.run_id = a.run_id and not s.taken and s.channel = any(a.wants_signals)
               limit 1) is not null
           or cardinality(a.wants_children) > 0 and (
               select count(*) >= a.needs or count(*) filter (where o.status <> 'completed') > 0
               from runnerq.outcome as o
               where o.run_id = any(a.wants_children))
           or a.wants_children is null and (             -- any child: what ended since the park, or that none is left
               select count(*) filter (where o.ended_at >= a.parked_at) >= a.needs
                      or count(*) filter (where o.ended_at >= a.parked_at and o.status <> 'completed') > 0
                      or count(*) > 0 and count(o.run_id) = count(*)
               from runnerq.run as r
               left join lateral (
                   select run_id, ended_at, status from runnerq.outcome where run_id = r.id offset 0
               ) as o on true
               where r.parent_id = a.run_id))
), held as materialized (
    select w.run_id, w.fault, l.priority, l.token = w.token and l.state = w.state as same
    from (select run_id, token, state, fault from wrong where fault <> 'left' order by run_id) as w
    cross join lateral (
        select token, state, priority from runnerq.live where run_id = w.run_id for update skip locked offset 0
    ) as l
), moved as (
    update runnerq.live as live
    set state = 'pending', due_at = null, stack = null,
        token = case h.fault when 'orphaned' then -live.token else live.token end,
        prior = case h.fault when 'orphaned' then 0 else live.prior end,
        rank = case h.fault when 'orphaned' then live.rank
               else now() - case h.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                            when 2 then interval '0' else interval '-10 minutes' end end
    from held as h
    where live.run_id = any(array(select run_id from held where same))    -- probes the key, whatever the planner makes of sizes
      and live.run_id = h.run_id
    returning live.run_id, h.fault, live.queue
)
select run_id::text, fault, queue from moved
union all
select w.run_id::text, w.fault, null
from wrong as w
where w.fault = 'left' and not exists (select from moved as m where m.run_id = w.run_id)
