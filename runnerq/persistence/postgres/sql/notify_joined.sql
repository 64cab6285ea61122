-- Tell all who listen, once the transaction has committed that this is part of, and say which database it writes to.
-- $1 channel text  $2 payload text[]
-- Returns database for each payload. Locks nothing of ours; commits of transactions that tell go one after the other.
select current_database()::text as database, pg_notify($1::text, p.payload)
from unnest($2::text[]) as p(payload)
