-- What happened from one minute to another, by spans of time.
-- $1 since timestamptz  $2 until timestamptz  $3 span integer (minutes)  $4 names text[] ('': all together; null: each name)
-- Returns at, name, started, completed, failed, dead_letter, cancelled, durations; oldest first, then by name.
-- Locks nothing.
with part as materialized (
    select $1::timestamptz + floor(extract(epoch from at - $1::timestamptz) / (60 * $3::integer)) * $3::integer * interval '1 minute' as at,
           name, started, completed, failed, dead_letter, cancelled, durations
    from runnerq.minute
    where at >= $1::timestamptz and at < $2::timestamptz
      and case when $4::text[] is null then name <> '' else name = any($4::text[]) end
), slotted as materialized (
    select at, name, array_agg(how_many order by slot) as durations
    from (
        select p.at, p.name, u.slot, sum(u.n)::integer as how_many
        from part as p
        cross join lateral unnest(p.durations) with ordinality as u(n, slot)
        group by p.at, p.name, u.slot
    ) as c
    group by at, name
)
select p.at, p.name, sum(p.started)::integer as started, sum(p.completed)::integer as completed,
       sum(p.failed)::integer as failed, sum(p.dead_letter)::integer as dead_letter, sum(p.cancelled)::integer as cancelled,
       s.durations
from part as p
left join slotted as s on s.at = p.at and s.name = p.name
group by p.at, p.name, s.durations
order by p.at, p.name
