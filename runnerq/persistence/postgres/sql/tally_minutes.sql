-- Count into their minutes the runs that were started, and that ended, between two snapshots.
-- $1 seen text: the cursor as it was read  $2 old_xmax bigint  $3 old_open bigint[]  $4 new_xmax bigint  $5 new_open bigint[]: as
--    in read_events.sql  $6 next text: the cursor to be written  $7 done boolean: it is the end of what there is
-- Returns counted: how many; no row if the cursor is another one by now, or somebody has it: nothing is changed then.
-- Locks the cursor, which only it writes, then minutes, in the order of time and name. What wrote a row is looked up over coarse
--    indexes that must be scanned as bitmaps: run it with fetch_fresh.
with place as materialized (
    select one from runnerq.tally where seen = $1 for update skip locked
), happened as materialized (                           -- few rows: what is alike is counted at once
    select date_trunc('minute', r.created_at) as at, r.name, 'started' as kind, null::integer as slot, count(*) as how_many
    from runnerq.run as r
    where (select one from place)
      and (r.xid >= $2::bigint or r.xid = any($3::bigint[])) and r.xid < $4::bigint and not r.xid = any($5::bigint[])
    group by 1, 2
    union all
    select date_trunc('minute', o.ended_at), r.name, o.status,
           case when o.started_at is not null then
               least(63, ceil(2 * ln(greatest(0.001, extract(epoch from o.ended_at - o.started_at)::float8) / 0.001) / ln(2::float8)))
           end::integer,
           count(*)
    from runnerq.outcome as o
    cross join lateral (select name from runnerq.run where id = o.run_id offset 0) as r
    where (select one from place)
      and (o.xid >= $2::bigint or o.xid = any($3::bigint[])) and o.xid < $4::bigint and not o.xid = any($5::bigint[])
    group by 1, 2, 3, 4
), part as materialized (
    select at, coalesce(name, '') as name, kind, slot, sum(how_many)::integer as how_many   -- no run's name is null: all of them
    from happened
    group by grouping sets ((at, name, kind, slot), (at, kind, slot))
), filled as materialized (                             -- every slot up to the last; no joins, whose sizes nobody can foresee
    select at, name, kind, slot, how_many from part
    union all
    select l.at, l.name, null, s.slot, 0
    from (select at, name, max(slot) as longest from part where slot is not null group by at, name) as l
    cross join lateral generate_series(0, l.longest) as s(slot)
), slotted as materialized (
    select at, name, slot, sum(how_many)::integer as how_many,
           coalesce(sum(how_many) filter (where kind = 'started'), 0) as started,
           coalesce(sum(how_many) filter (where kind = 'completed'), 0) as completed,
           coalesce(sum(how_many) filter (where kind = 'failed'), 0) as failed,
           coalesce(sum(how_many) filter (where kind = 'dead_letter'), 0) as dead_letter,
           coalesce(sum(how_many) filter (where kind = 'cancelled'), 0) as cancelled
    from filled
    group by at, name, slot
), written as (
    insert into runnerq.minute as m (at, name, started, completed, failed, dead_letter, cancelled, durations)
    select at, name, sum(started), sum(completed), sum(failed), sum(dead_letter), sum(cancelled),
           coalesce(array_agg(how_many order by slot) filter (where slot is not null), '{}')
    from slotted
    group by at, name
    order by at, name
    on conflict (at, name) do update
    set started = m.started + excluded.started, completed = m.completed + excluded.completed,
        failed = m.failed + excluded.failed, dead_letter = m.dead_letter + excluded.dead_letter,
        cancelled = m.cancelled + excluded.cancelled,
        durations = array(
            select coalesce(u.one, 0) + coalesce(u.other, 0)
            from unnest(m.durations, excluded.durations) with ordinality as u(one, other, n)
            order by u.n)
)
update runnerq.tally
set seen = $6, at = case when $7 then now() else at end
where (select one from place)
returning (select coalesce(sum(how_many), 0)::integer from happened) as counted
