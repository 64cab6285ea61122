-- Change the priority of an open run, and its rank with it.
-- $1 run uuid  $2 priority integer
-- Returns one row: changed (changed | unchanged | refused: it has ended | unknown) and queue.
-- The cold row says the same afterwards: for lists, and for the run should it be opened again.
-- Locks its live row, waiting, then the cold row.
with held as materialized (                             -- lock by id alone, then judge what the lock shows
    select run_id, priority from runnerq.live where run_id = $1::uuid for update
), fit as materialized (
    select run_id,
           case priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                         when 2 then interval '0' else interval '-10 minutes' end
           - case $2::integer when 0 then interval '1 hour' when 1 then interval '10 minutes'
                              when 2 then interval '0' else interval '-10 minutes' end as later
    from held
    where priority <> $2::integer
), moved as (
    update runnerq.live as live
    set priority = $2::integer, rank = live.rank + f.later
    from fit as f
    where live.run_id = $1::uuid and live.run_id = f.run_id
    returning live.queue
), kept as (
    update runnerq.run set priority = $2::integer where id = $1::uuid and exists (select from fit)
), told as (
    insert into runnerq.event (kind, run_id, data)
    select 'prioritized', run_id, json_build_object('priority', $2::integer)
    from fit
)
select case when exists (select from fit) then 'changed'
            when exists (select from held) then 'unchanged'
            when (select id from runnerq.run where id = $1::uuid) is not null then 'refused'
            else 'unknown' end as changed,
       (select queue from moved) as queue
