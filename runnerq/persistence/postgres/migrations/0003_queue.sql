-- What the queue asks of the tables: who wrote what (so that a tail of changes misses nothing that commits late), what no
-- other row shows, what workers have in hand, and the form of what they take.

alter table runnerq.run add column xid bigint;          -- of the transaction that wrote the row; null: older than this column
alter table runnerq.run alter column xid set default pg_current_xact_id()::text::bigint;    -- apart: old rows stay null
alter table runnerq.outcome add column xid bigint;
alter table runnerq.outcome alter column xid set default pg_current_xact_id()::text::bigint;
create index run_xid on runnerq.run using brin (xid) with (pages_per_range = 32, autosummarize = on);
create index outcome_xid on runnerq.outcome using brin (xid) with (pages_per_range = 32, autosummarize = on);

create table runnerq.event (                            -- only what no other row shows; kept for a week
    number          bigint generated always as identity primary key,
    xid             bigint not null default pg_current_xact_id()::text::bigint,
    at              timestamptz not null default clock_timestamp(),
    kind            text not null,                      -- crashed | blocked | reopened | terminated | run_now | rescheduled | ...
    run_id          uuid,                               -- null: it is a queue's
    name            text,                               -- null: what the run's row says
    queue           text,                               -- null: what the run's row says
    data            json
);
create index event_xid on runnerq.event (xid, number);

alter table runnerq.worker
    add column slots integer not null default 0,
    add column held integer not null default 0,         -- what it had in hand at its last beat
    add column running integer not null default 0,
    add column stuck integer not null default 0,
    add column late integer not null default 0;

alter table runnerq.definition add column schema json;  -- a JSON Schema of its input

-- Failures are rare, and people look for them: this costs a completed run nothing.
create index outcome_unwell on runnerq.outcome (status, run_id) where status <> 'completed';

-- A position whose answer is on record keeps a row with number -1 until its generation ends, so that details which come
-- late do not bring it back.
alter table runnerq.attempt add column generation integer;      -- null: written by older code, for the present one

create table runnerq.queue (                            -- the queues that are paused
    name            text primary key,
    paused_at       timestamptz not null default now()
);

alter table runnerq.outcome add column doomed_at timestamptz;   -- of a root whose tree is to be deleted: none of it opens again

create table runnerq.doomed (                           -- the trees to be deleted; a row goes with its root
    root_id         uuid primary key,
    at              timestamptz not null default now()
);

create table runnerq.retention (                        -- how far the fleet's look for old trees has come
    one             boolean primary key default true check (one),
    run_id          uuid not null
);
insert into runnerq.retention (run_id) values ('00000000-0000-0000-0000-000000000000');

-- Runs that were started by name, before anybody knew the name.
create index live_unnamed on runnerq.live (served, run_id) where right(served, 2) = '@?';
