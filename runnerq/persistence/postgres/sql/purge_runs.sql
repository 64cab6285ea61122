-- Delete some runs of the trees that are marked: of each the highest ids first, and the root last.
-- $1 limit integer  $2 root uuid (null: of any tree)  $3 rows integer: how many rows of journals, and how many signals, at
--    most; a run with more of them is deleted over several calls
-- Returns runs (how many are gone) and rows (how many rows of journals and signals).
-- Locks the marks of the trees, then the outcomes, by id, then keys, in the order of name and key; skips what somebody holds.
with tree as materialized (
    select root_id
    from runnerq.doomed
    where root_id >= coalesce($2::uuid, '00000000-0000-0000-0000-000000000000'::uuid)
      and root_id <= coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    order by root_id
    limit $1::integer
    for update skip locked
), pick as materialized (                               -- lazily, tree by tree: no more is looked at than is wanted
    select p.run_id
    from tree as t
    cross join lateral (
        (select id as run_id from runnerq.run where root_id = t.root_id order by id desc limit $1::integer)
        union all
        select t.root_id
    ) as p
    limit $1::integer
), shut as materialized (
    select o.run_id
    from (select run_id from pick order by run_id) as p
    cross join lateral (
        select run_id from runnerq.outcome where run_id = p.run_id for update skip locked offset 0
    ) as o
), named as materialized (
    select r.run_id, r.name, r.key
    from shut as s
    cross join lateral (
        select id as run_id, name, key from runnerq.run where id = s.run_id and key is not null offset 0
    ) as r
    cross join lateral (select run_id from runnerq.key where name = r.name and key = r.key offset 0) as k
    where k.run_id = r.run_id
), keyed as materialized (                              -- lock by key alone: it may have moved on
    select n.run_id, n.name, n.key, k.holder
    from (select run_id, name, key from named order by name, key) as n
    cross join lateral (
        select run_id as holder from runnerq.key where name = n.name and key = n.key for update skip locked offset 0
    ) as k
), clear as materialized (
    select s.run_id
    from shut as s
    left join named as n on n.run_id = s.run_id
    left join keyed as k on k.run_id = s.run_id
    where n.run_id is null or k.run_id is not null
    order by s.run_id desc
), entry as materialized (                              -- in the order of what is clear
    select c.run_id, j.place
    from clear as c
    cross join lateral (select ctid as place from runnerq.journal where run_id = c.run_id offset 0) as j
    limit $3::integer
), mail as materialized (
    select c.run_id, s.place
    from clear as c
    cross join lateral (select ctid as place from runnerq.signal where run_id = c.run_id offset 0) as s
    limit $3::integer
), whole as materialized (                              -- those of which nothing is left over
    select run_id
    from clear
    where ((select count(*) from entry) < $3::integer or run_id > (select run_id from entry order by run_id limit 1))
      and ((select count(*) from mail) < $3::integer or run_id > (select run_id from mail order by run_id limit 1))
), gone as materialized (                               -- a root only with the last of its tree
    select w.run_id
    from whole as w
    where (select r.id
           from runnerq.run as r
           where r.root_id = w.run_id and r.id <> all(array(select run_id from whole))
           limit 1) is null
), no_entry as (
    delete from runnerq.journal where ctid = any(array(select place from entry))
), no_mail as (
    delete from runnerq.signal where ctid = any(array(select place from mail))
), no_attempt as (
    delete from runnerq.attempt where run_id = any(array(select run_id from gone))
), no_block as (
    delete from runnerq.block where run_id = any(array(select run_id from gone))
), no_state as (
    delete from runnerq.state where run_id = any(array(select run_id from gone))
), no_key as (
    delete from runnerq.key as kept
    using keyed as k
    where kept.name = any(array(select name from keyed where holder = run_id))
      and kept.key = any(array(select key from keyed where holder = run_id))
      and kept.name = k.name and kept.key = k.key and k.holder = k.run_id
      and exists (select from gone as g where g.run_id = k.run_id)
), no_outcome as (
    delete from runnerq.outcome where run_id = any(array(select run_id from gone))
), no_run as (
    delete from runnerq.run where id = any(array(select run_id from gone))
), no_mark as (
    delete from runnerq.doomed where root_id = any(array(select run_id from gone))
)
select (select count(*)::integer from gone) as runs,
       (select count(*)::integer from entry) + (select count(*)::integer from mail) as rows
