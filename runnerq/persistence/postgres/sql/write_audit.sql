-- Keep what people did.
-- $1 id uuid[]  $2 principal text[]  $3 action text[]  $4 outcome text[]  $5 target text[]  $6 run uuid[]  $7 reason text[]
-- $8 request text[]
-- Returns nothing. Locks nothing that is there: what was written before stays as it is.
insert into runnerq.audit (id, principal, action, outcome, target, run_id, reason, request)
select e.id, e.principal, e.action, e.outcome, e.target, e.run_id, e.reason, e.request::json
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[])
    as e(id, principal, action, outcome, target, run_id, reason, request)
order by e.id
on conflict (id) do nothing
