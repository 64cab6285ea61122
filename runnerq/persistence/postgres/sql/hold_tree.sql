-- Take what keeps a tree from changing: nothing of it opens again while its root's outcome is locked.
-- $1 run uuid
-- Returns nothing of use. Whether the tree may go, doom_trees.sql says in the same transaction: its snapshot is of a time
--    after these locks.
-- Locks the outcome, then the row of the run's key, waiting for both.
with shut as materialized (
    select run_id from runnerq.outcome where run_id = $1::uuid for update
), named as materialized (
    select r.name, r.key
    from shut as s
    cross join lateral (select name, key from runnerq.run where id = s.run_id and key is not null offset 0) as r
), keyed as materialized (
    select k.run_id
    from named as n
    cross join lateral (
        select run_id from runnerq.key where name = n.name and key = n.key for update offset 0
    ) as k
)
select (select count(*) from shut) as outcomes, (select count(*) from keyed) as keys
