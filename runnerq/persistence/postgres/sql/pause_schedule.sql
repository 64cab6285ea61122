-- Have a schedule fire no more until it is resumed.
-- $1 name text
-- Returns changed (changed | unchanged: it is paused | unknown).
-- Locks the schedule's row, waiting.
with held as materialized (
    select name, paused_at from runnerq.schedule where name = $1 for update
), paused as (
    update runnerq.schedule
    set serial = serial + 1, paused_at = now()
    where name = any(array(select name from held where paused_at is null))
)
select case when (select count(*) from held) = 0 then 'unknown'
            when (select paused_at from held) is null then 'changed'
            else 'unchanged' end as changed
