-- Tell all who listen.
-- $1 channel text  $2 payload text
-- Returns nothing. Locks nothing of ours; never part of a transaction that writes data, which it would slow down.
select pg_notify($1, $2)
