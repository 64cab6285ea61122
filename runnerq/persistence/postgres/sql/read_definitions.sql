-- What is known under a name.
-- $1 name text
-- Returns the columns of a Definition, highest version first.
-- Locks nothing.
select kind, name, version, queue, build, options from runnerq.definition where name = $1 order by version desc, kind
