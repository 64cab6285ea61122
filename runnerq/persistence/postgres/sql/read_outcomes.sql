-- How runs ended.
-- $1 run uuid[]
-- Returns run_id, status, ended_at, result, error, reason, cancel_requested; open and unknown ones are left out.
-- Locks nothing.
select o.run_id::text, o.status, o.ended_at, o.result, o.error, o.reason, o.cancel_requested
from unnest($1::uuid[]) with ordinality as w(run_id, n)
cross join lateral (
    select run_id, status, ended_at, result, error, reason, cancel_requested
    from runnerq.outcome where run_id = w.run_id offset 0
) as o
order by w.n
