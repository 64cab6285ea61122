-- What the queue asks of the tables: who wrote what (so that a tail of changes misses nothing that commits late), what no
-- other row shows, what workers have in hand, and the form of what they take. All of it is done at once, however many rows
-- there are; workers, whose beats must not wait, come last. The indexes of these tables are the next step.

create table runnerq.event (                            -- only what no other row shows; kept for a week
    number          bigint generated always as identity primary key,
    xid             bigint default pg_current_xact_id()::text::bigint,    -- null: copied from another server
    at              timestamptz not null default clock_timestamp(),
    kind            text not null,                      -- crashed | blocked | reopened | terminated | run_now | rescheduled | ...
    run_id          uuid,                               -- null: it is a queue's
    name            text,                               -- null: what the run's row says
    queue           text,                               -- null: what the run's row says
    data            json
);
create index event_xid on runnerq.event (xid, number);

create table runnerq.queue (                            -- the queues that are paused
    name            text primary key,
    paused_at       timestamptz not null default now()
);

create table runnerq.doomed (                           -- the trees to be deleted; a row goes with its root
    root_id         uuid primary key,
    at              timestamptz not null default now()
);

create table runnerq.retention (                        -- how far the fleet's look for old trees has come
    one             boolean primary key default true check (one),
    run_id          uuid not null
);
insert into runnerq.retention (run_id) values ('00000000-0000-0000-0000-000000000000');

alter table runnerq.definition add column schema json;  -- a JSON Schema of its input

-- A row of `attempt` no longer goes with its answer: a position whose answer is on record keeps one with number -1 until its
-- generation ends, so that details which come late do not bring it back. A position without a failure so far, whose attempt has said something, has number 0.
alter table runnerq.attempt add column generation integer;      -- null: written by older code, for the present one

alter table runnerq.outcome
    add column doomed_at timestamptz,                   -- of a root whose tree is to be deleted: none of it opens again
    add column xid bigint;                              -- of the transaction that wrote the row; null: older than this column
alter table runnerq.outcome alter column xid set default pg_current_xact_id()::text::bigint;    -- apart: old rows stay null
alter table runnerq.run add column xid bigint;
alter table runnerq.run alter column xid set default pg_current_xact_id()::text::bigint;

alter table runnerq.worker
    add column slots integer not null default 0,
    add column held integer not null default 0,         -- what it had in hand at its last beat
    add column running integer not null default 0,
    add column stuck integer not null default 0,
    add column late integer not null default 0;
