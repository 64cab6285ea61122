-- Database time.
-- Returns now. Locks nothing.
select now()
