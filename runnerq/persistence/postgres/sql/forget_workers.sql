-- Delete the rows of workers that have been gone for a day: till then, a claim that came late is found by them.
-- Returns nothing. Locks the rows it deletes, skipping those that somebody holds.
delete from runnerq.worker
where id in (
    select w.id
    from runnerq.worker as w
    where w.reaped_at < now() - interval '1 day'
      and (select l.run_id from runnerq.live as l where l.worker_id = w.id and l.state = 'running' limit 1) is null
    for update skip locked)
