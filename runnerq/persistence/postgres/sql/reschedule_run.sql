-- Have a pending run become due at another time, before its first attempt or its next.
-- $1 run uuid  $2 at timestamptz
-- Returns one row: changed (changed | unchanged | refused: it is not pending, or is to cancel, which must not wait | unknown
--    | again: it was worked on meanwhile, so that its attempt as read here is stale; nothing was done) and queue.
-- A time in the past makes it ready at once, and counts for its rank.
-- Locks its live row, waiting.
with seen as materialized (
    select xmin as version from runnerq.live where run_id = $1::uuid
), held as materialized (                               -- lock by id alone, then judge what the lock shows
    select run_id, xmin as version, state, due_at, rank, cancel, priority
    from runnerq.live
    where run_id = $1::uuid
    for update
), wanted as materialized (
    select h.run_id, h.version, h.state, h.cancel, h.due_at as present_due_at, h.rank as present_rank,
           case when t.at > now() then t.at end as due_at,
           t.at - case h.priority when 0 then interval '1 hour' when 1 then interval '10 minutes'
                                  when 2 then interval '0' else interval '-10 minutes' end as rank
    from held as h
    cross join (                                        -- bounded: one row outside of all calendars would stop every claim
        select greatest('1970-01-01 00:00+00', least($2::timestamptz, '9000-01-01 00:00+00')) as at
    ) as t
), judged as materialized (
    select w.run_id, w.due_at, w.rank,
           case when w.state <> 'pending' or w.cancel is not null then 'refused'
                when s.version is null or s.version <> w.version then 'again'
                when w.due_at is not distinct from w.present_due_at and w.rank = w.present_rank then 'unchanged'
                else 'changed' end as changed
    from wanted as w
    left join seen as s on true
), moved as (
    update runnerq.live as live
    set due_at = j.due_at, rank = j.rank, lined = null     -- whoever is ready then has arrived anew
    from judged as j
    where live.run_id = $1::uuid and live.run_id = j.run_id and j.changed = 'changed'
    returning live.queue
), put_off as (
    update runnerq.attempt
    set next_at = $2::timestamptz
    where run_id = $1::uuid and position = '' and next_at is not null and (select changed from judged) = 'changed'
), told as (
    insert into runnerq.event (kind, run_id, data)
    select 'rescheduled', run_id, json_build_object('at', $2::timestamptz)
    from judged
    where changed = 'changed'
)
select coalesce((select changed from judged),
                case when (select id from runnerq.run where id = $1::uuid) is not null then 'refused' else 'unknown' end)
           as changed,
       (select queue from moved) as queue
