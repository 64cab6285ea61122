-- Count the runs that ended in these ways, other than completed: what an index alone says.
-- $1 statuses text[]  $2 most integer
-- Returns how_many; it stops at most.
-- Locks nothing.
select count(*)::integer as how_many
from (
    select s.status
    from unnest($1::text[]) as s(status)
    cross join lateral (
        select run_id from runnerq.outcome where status = s.status and status <> 'completed' order by run_id limit $2::integer
    ) as o
    limit $2::integer
) as counted
