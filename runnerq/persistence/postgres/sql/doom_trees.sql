-- Mark trees to be deleted, if all of them has ended: they can no longer be opened again, and their roots' keys are free.
-- $1 run uuid[] (distinct): roots whose outcomes the transaction has locked before, so that what this statement sees of
--    their trees stays so
-- Returns for each: run_id and changed (changed | unchanged: it was marked before | refused: it has a parent, or something
--    of it is open | unknown | busy: somebody has its key).
-- Locks the rows of the roots' keys, in the order of name and key, skipping those that somebody holds.
with named as materialized (
    select t.run_id, r.name, r.queue, r.key, k.run_id as holder,
           case when r.id is null then 'unknown'
                when r.parent_id is not null or o.run_id is null then 'refused'
                when o.doomed_at is not null then 'unchanged'
                when (select d.id
                      from runnerq.run as d
                      cross join lateral (select run_id from runnerq.live where run_id = d.id offset 0) as l
                      where d.root_id = t.run_id
                      limit 1) is not null then 'refused'
                else 'changed' end as changed
    from unnest($1::uuid[]) as t(run_id)
    left join lateral (select id, parent_id, name, queue, key from runnerq.run where id = t.run_id offset 0) as r on true
    left join lateral (select run_id, doomed_at from runnerq.outcome where run_id = t.run_id offset 0) as o on true
    left join lateral (select run_id from runnerq.key where name = r.name and key = r.key offset 0) as k on true
), keyed as materialized (                              -- lock by key alone: it may have moved on
    select n.run_id, n.name, n.key, k.holder
    from (
        select run_id, name, key from named where changed = 'changed' and holder = run_id order by name, key
    ) as n
    cross join lateral (
        select run_id as holder from runnerq.key where name = n.name and key = n.key for update skip locked offset 0
    ) as k
), judged as materialized (
    select n.run_id, n.name, n.queue,
           case when n.changed = 'changed' and n.holder = n.run_id and k.run_id is null then 'busy' else n.changed end
               as changed
    from named as n
    left join keyed as k on k.run_id = n.run_id
), marked as (
    update runnerq.outcome
    set doomed_at = now()
    where run_id = any(array(select run_id from judged where changed = 'changed'))
), listed as (
    insert into runnerq.doomed (root_id) select run_id from judged where changed = 'changed' on conflict do nothing
), freed as (
    delete from runnerq.key as kept
    using keyed as k
    where kept.name = any(array(select name from keyed where holder = run_id))    -- probes the key, whatever the planner
      and kept.key = any(array(select key from keyed where holder = run_id))      -- makes of sizes
      and kept.name = k.name and kept.key = k.key and k.holder = k.run_id
), told as (
    insert into runnerq.event (kind, run_id, name, queue)
    select 'deleted', run_id, name, queue from judged where changed = 'changed'
)
select run_id::text, changed from judged
