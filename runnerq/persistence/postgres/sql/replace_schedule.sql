-- Put a schedule anew, if it is still the one that was seen. A pause, what was counted and its last runs stay.
-- $1 name text  $2 rule text  $3 input text (JSON texts)  $4 since timestamptz  $5 next_at timestamptz (null: none comes)
-- $6 serial bigint  $7 behind boolean
-- Returns a row if it was.
-- Locks the schedule's row, waiting.
update runnerq.schedule
set serial = serial + 1, rule = $2::text::json, input = $3::text::json, since = $4, next_at = $5, behind = $7
where name = $1 and serial = $6
returning name
