-- Create a schedule.
-- $1 name text  $2 rule text  $3 input text (JSON texts)  $4 since timestamptz  $5 next_at timestamptz (null: none comes)
-- Returns a row if there was none of this name.
-- Locks the schedule's row, waiting.
insert into runnerq.schedule (name, rule, input, since, next_at)
values ($1, $2::text::json, $3::text::json, $4, $5)
on conflict do nothing
returning name
