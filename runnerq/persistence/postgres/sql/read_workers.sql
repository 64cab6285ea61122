-- The workers that are on record: those that live first, then the last that went; within each the newest first.
-- Returns the columns of a WorkerRecord. One that has been gone for a day is none any more.
-- Locks nothing. It reads all workers of a day.
select w.id, w.host, w.pid, w.build, w.queues, w.served, w.slots, w.lease, w.registered_at, w.beat_at, a.alive, w.left_at,
       w.reaped_at, w.held, w.running, w.stuck, w.late
from runnerq.worker as w
cross join lateral (
    select w.reaped_at is null and w.beat_at + w.lease * interval '1 second' >= now() as alive
) as a
where w.reaped_at is null or w.reaped_at >= now() - interval '1 day'
order by a.alive desc, w.registered_at desc, w.id
