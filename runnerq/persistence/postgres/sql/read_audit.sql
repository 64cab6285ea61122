-- What people did, newest first.
-- $1 limit integer  $2 before uuid (null: from the newest)  $3 run uuid  $4 principal text  $5 action text; a null is no condition
-- Returns id, at, principal, action, outcome, target, run_id, reason, request.
-- Locks nothing. Planned anew each time, for what is given: run it with fetch_fresh.
select id::text, at, principal, action, outcome, target, run_id::text, reason, request
from runnerq.audit
where ($2::uuid is null or id < $2::uuid)
  and ($3::uuid is null or run_id = $3::uuid)
  and ($4::text is null or principal = $4::text)
  and ($5::text is null or action = $5::text)
order by id desc
limit $1
