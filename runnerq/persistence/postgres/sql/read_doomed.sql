-- Whether a tree is marked to be deleted.
-- $1 root uuid
-- Returns a row if it is. Locks nothing.
select root_id::text from runnerq.doomed where root_id = $1
