-- Make or change the rule of a scope. What it changes for those who wait is done by apply_rule.sql.
-- $1 scope text  $2 concurrency integer  $3 rate integer  $4 per double precision  $5 per_key boolean
-- Returns a row if that is a change.
-- Locks the rule's row, waiting. To be run while the row of lining is held, which it changes.
with changed as (
    update runnerq.lining set changed_at = now()
)
insert into runnerq.limit_rule as kept (scope, concurrency, rate, per, per_key, changed_at)
values ($1::text, $2::integer, $3::integer, $4::double precision, $5::boolean, now())
on conflict (scope) do update
set concurrency = excluded.concurrency, rate = excluded.rate, per = excluded.per, per_key = excluded.per_key,
    changed_at = excluded.changed_at
where (kept.concurrency, kept.rate, kept.per, kept.per_key)
      is distinct from (excluded.concurrency, excluded.rate, excluded.per, excluded.per_key)
returning scope
