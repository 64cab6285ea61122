-- The schedules that are due, the longest due first, and when the next of the others is.
-- $1 limit int  $2 next_at timestamptz  $3 name text: those that come after this one (null: from the first on)
-- Returns a row with now (database time) and later (when the next one is due that is not; null: none), then name, serial and
--    next_at, null where none is due. What they start stays unread: it may be large, and others may fire it.
-- Locks nothing.
select c.now, c.later, s.name, s.serial, s.next_at
from (
    select now() as now,
           (select next_at
            from runnerq.schedule
            where paused_at is null and next_at is not null and next_at > now()
            order by next_at
            limit 1) as later
) as c
left join lateral (
    select name, serial, next_at
    from runnerq.schedule
    where paused_at is null and next_at is not null and next_at <= now()
      and (next_at, name) > (coalesce($2::timestamptz, '-infinity'), coalesce($3::text, ''))
    order by next_at, name
    limit $1
) as s on true
order by s.next_at, s.name
