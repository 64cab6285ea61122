-- Delete up to 1,000 events that are older than a week, the oldest first.
-- Returns nothing. Locks the rows it deletes, skipping those that somebody holds.
delete from runnerq.event
where number = any(array(
    select e.number
    from (select number, at from runnerq.event order by number limit 1000 for update skip locked) as e
    where e.at < now() - interval '7 days'))
