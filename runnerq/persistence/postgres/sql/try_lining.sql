-- hold_lining.sql, but without waiting: no row, if somebody has it.
-- Locks the row of lining, or nothing.
select set_config('idle_in_transaction_session_timeout', '10000', true) as had
from runnerq.lining
for update skip locked
