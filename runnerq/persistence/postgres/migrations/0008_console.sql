-- What a console asks of the tables: what was done when, what people did, and what failures are alike. All of it is new, and
-- done at once.

create table runnerq.minute (                           -- what happened in a minute, of a name; kept for eight days
    at              timestamptz not null,               -- when it begins
    name            text not null,                      -- '': of all together
    started         integer not null,
    completed       integer not null,
    failed          integer not null,
    dead_letter     integer not null,
    cancelled       integer not null,
    durations       integer[] not null,                 -- ends by the time since the first claim: up to 1 ms, and in steps of the
                                                        -- root of 2; as long as what there was
    primary key (at, name)
) with (fillfactor = 70);

create table runnerq.tally (                            -- how far the fleet's count of minutes has come
    one             boolean primary key default true check (one),
    seen            text not null,                      -- a snapshot: what was over then is counted
    at              timestamptz not null default now()  -- of the last look that came to the end
);
insert into runnerq.tally (seen) values (pg_current_snapshot()::text);

create table runnerq.audit (                            -- what people did; kept for 90 days
    id              uuid primary key,                   -- UUIDv7, the caller's
    run_id          uuid,
    at              timestamptz not null default clock_timestamp(),
    principal       text not null,
    action          text not null,
    outcome         text not null,
    target          text,
    reason          text,
    request         json
);
create index audit_run on runnerq.audit (run_id, id) where run_id is not null;

-- What failures that are alike share: their type and message, with every word that has a digit put as #. From the text, as
-- taking the JSON apart would fail on a NUL in it, and by the cheapest functions: thousands are grouped while somebody waits. An
-- escaped quote is put as another one, so that the next quote ends the text.
create function runnerq.fingerprint(error json, reason text) returns text
language sql immutable parallel safe
return left(encode(sha256(convert_to(
    coalesce(split_part(split_part(replace(error::text, '\"', ''''), '"type"', 2), '"', 2), '') || e'\n'
    || left(regexp_replace(
        left(coalesce(nullif(split_part(split_part(replace(error::text, '\"', ''''), '"message"', 2), '"', 2), ''), reason, ''),
             1000),
        '[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), 200), 'UTF8')), 'hex'), 16);
