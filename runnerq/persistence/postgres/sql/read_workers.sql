-- The workers that are on record: those that live first, then the last that went; within each the newest first.
-- Returns the columns of a WorkerRecord. One is alive that was heard of lately: within a sixth of its lease (3 s at
--    least), and, where its beat's backend is visibly not there any more, within 3 s, as reap_workers.sql judges.
--    One that has been gone for a day is none any more.
-- Locks nothing. It reads all workers of a day.
select w.id, w.host, w.pid, w.build, w.queues, w.served, w.slots, w.lease, w.registered_at, w.beat_at, a.alive, w.left_at,
       w.reaped_at, w.held, w.running, w.stuck, w.late, w.library, w.clock_off, w.drain_at
from runnerq.worker as w
cross join lateral (
    select w.reaped_at is null
           and w.beat_at + least(w.lease, greatest(3, w.lease / 6)) * interval '1 second' >= now()
           and (w.backend_start is null or w.beat_at >= now() - interval '3 seconds'
                or exists (select from pg_stat_get_activity(w.backend_pid) as a
                           where a.backend_start is null or a.backend_start = w.backend_start)) as alive
) as a
where w.reaped_at is null or w.reaped_at >= now() - interval '1 day'
order by a.alive desc, w.registered_at desc, w.id
