-- End a queue's pause.
-- $1 queue text
-- Returns a row if it was paused.
-- Locks the queue's row, waiting.
with resumed as (
    delete from runnerq.queue where name = $1 returning name
), told as (
    insert into runnerq.event (kind, queue) select 'resumed', name from resumed
)
select name from resumed
