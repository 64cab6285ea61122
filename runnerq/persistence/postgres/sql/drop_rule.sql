-- End the rule of a scope. What that changes for those who wait is done by apply_rule.sql.
-- $1 scope text
-- Returns the scope, if there was a rule.
-- Locks the rule's row, waiting. To be run while the row of lining is held, which it changes.
with changed as (
    update runnerq.lining set changed_at = now()
)
delete from runnerq.limit_rule where scope = $1::text returning scope
