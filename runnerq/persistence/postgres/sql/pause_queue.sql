-- Have no run of a queue claimed.
-- $1 queue text
-- Returns a row if it was not paused.
-- Locks the queue's row, waiting.
with paused as (
    insert into runnerq.queue (name) values ($1) on conflict do nothing returning name
), told as (
    insert into runnerq.event (kind, queue) select 'paused', name from paused
)
select name from paused
