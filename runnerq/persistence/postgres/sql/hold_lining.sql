-- Be the only one who makes or removes gates and lanes, until the end of the transaction.
-- Returns nothing of use. A client that falls silent in the middle is cut off, so that it stops nobody for long.
-- Locks the row of lining, waiting.
select set_config('idle_in_transaction_session_timeout', '10000', true)
from runnerq.lining
for update
