-- Delete some of what is kept for a time: events for a week, minutes for eight days, what people did for 90 days; up to 1,000 of
-- each, the oldest first.
-- Returns nothing. Locks the rows it deletes, and no others, skipping those that somebody holds. The id of what people did is a
--    UUIDv7: what was written longer ago than it is kept was made longer ago, too, but for clocks that are ahead.
with no_event as (
    delete from runnerq.event
    where number = any(array(
        select number
        from runnerq.event
        where number = any(array(
            select e.number
            from (select number, at from runnerq.event order by number limit 1000) as e
            where e.at < now() - interval '7 days'))
        for update skip locked))
), no_minute as (
    delete from runnerq.minute
    where ctid = any(array(
        select ctid
        from runnerq.minute
        where at < now() - interval '8 days'
        order by at, name
        limit 1000
        for update skip locked))
)
delete from runnerq.audit
where id = any(array(
    select id
    from runnerq.audit
    where id < rpad(lpad(to_hex((extract(epoch from now() - interval '90 days') * 1000)::bigint), 12, '0'), 32, '0')::uuid
      and at < now() - interval '90 days'
    order by id
    limit 1000
    for update skip locked))
