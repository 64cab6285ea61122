-- Hold all that a rule is applied to: after this nobody admits anything of the scope until the end of the transaction.
-- $1 scope text
-- Locks its buckets, then its gates, by key, waiting for claims that are under way.
with bucket as materialized (
    select key from runnerq.bucket where scope = $1::text order by scope, key for update
), gate as materialized (
    select key from runnerq.gate where scope = $1::text and (select count(*) from bucket) >= 0
    order by scope, key, queue, served for update
)
select (select count(*) from bucket) + (select count(*) from gate) as how_many
