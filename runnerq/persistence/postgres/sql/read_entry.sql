-- Look whether a row of a journal was written by this token.
-- $1 run_id uuid  $2 generation integer  $3 place integer  $4 token bigint
-- Returns a row if it was.
-- Locks nothing.
select 1 as written
from runnerq.journal
where run_id = $1::uuid and generation = $2::integer and place = $3::integer and token = $4::bigint
