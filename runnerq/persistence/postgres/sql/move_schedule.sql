-- Move a schedule on that was fired, in the transaction that holds it.
-- $1 name text  $2 next_at timestamptz (null: none comes)  $3 last_at timestamptz  $4 behind boolean  $5 skipped integer
-- $6 run uuid[]: those of its ticks, the newest last  $7 kept integer: how many of its runs it names
-- Returns nothing. Locks nothing that the transaction has not locked.
update runnerq.schedule
set serial = serial + 1, next_at = $2, last_at = $3, behind = $4, skipped = skipped + $5,
    started = started + cardinality($6::uuid[]),
    runs = array(
        select k.id
        from (
            select u.id, u.n
            from unnest(runs || $6::uuid[]) with ordinality as u(id, n)
            where u.n > cardinality(runs) or u.id <> all($6::uuid[])
            order by u.n desc
            limit $7
        ) as k
        order by k.n
    )
where name = $1
