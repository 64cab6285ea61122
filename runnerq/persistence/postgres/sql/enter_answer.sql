-- Put the answer of a transaction's function on record, last in its transaction, under the run's lock.
-- All as text, because the function may have changed how other types are sent: $1 run_id uuid  $2 token bigint
-- $3 generation integer  $4 marker text: what the transaction was marked with as it began  $5 place integer
-- $6 at timestamptz  $7 position text  $8 value json  $9 settles boolean: there were failed attempts  $10 recovered boolean
-- Returns verdict: done; lost (the run is not this token's); ended (the function has ended its transaction: the mark, which
--    lives as long as that, is gone). Only at done anything is written. Not to be repeated: a row that is there already is
--    an error, which rolls back what the function did a second time.
-- Locks the run's live row, and waits for it, behind everything that the function has locked. From here to the commit the
--    client may be silent for a few seconds only: it holds that lock.
with held as materialized (                             -- lock by id alone, then judge what the lock shows
    select token, state, generation from runnerq.live where run_id = $1::text::uuid for update
), mine as materialized (
    select 1 as one
    from held
    where token = $2::text::bigint and state = 'running' and generation = $3::text::integer
      and current_setting('runnerq_transaction.marker', true) = $4::text
), written as (
    insert into runnerq.journal (run_id, token, at, generation, place, kind, position, value)
    select $1::text::uuid, $2::text::bigint, $6::text::timestamptz, $3::text::integer, $5::text::integer, 'answered', $7::text, $8::text::json
    from mine
), settled as (                                         -- an answered position keeps a row that keeps late details out
    insert into runnerq.attempt as kept (run_id, position, number, at, generation)
    select $1::text::uuid, $7::text, -1, now(), $3::text::integer
    from mine
    where $9::text::boolean
    on conflict (run_id, position) do update
    set number = excluded.number, at = excluded.at, next_at = null, generation = excluded.generation, error = null,
        details = null
), calmed as (
    update runnerq.live
    set crashes = 0, faults = null
    where run_id = $1::text::uuid and $10::text::boolean and exists (select from mine)
)
select case when current_setting('runnerq_transaction.marker', true) is distinct from $4::text then 'ended'
            when exists (select from mine) then 'done'
            else 'lost' end as verdict,
       set_config('idle_in_transaction_session_timeout', '10s', true) as silent_for
