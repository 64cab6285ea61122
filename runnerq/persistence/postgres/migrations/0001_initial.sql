-- The first shape: a cold `run` written once, one narrow `live` row for every open run, append-only `journal` and `outcome`.
-- The live row is at once the queue entry, the lease, the timer and the lock of its run; `state` says which.
-- No triggers and no foreign keys: every statement that writes says itself what belongs together.

create table runnerq.run (                              -- cold: written once
    id              uuid primary key,                   -- UUIDv7, the caller's
    parent_id       uuid,
    root_id         uuid,                               -- null: the run itself
    created_at      timestamptz not null default now(),
    version         integer not null,
    priority        smallint not null,
    depth           smallint not null,
    kind            text not null,                      -- workflow | activity
    name            text not null,
    queue           text not null,
    key             text,                               -- the idempotency key it was started with
    parent_position text,                               -- where the parent's journal asked for it
    input           json not null,                      -- json, not jsonb: NUL is accepted and numbers are kept as written
    metadata        json,
    options         json
) with (autovacuum_vacuum_insert_scale_factor = 0.2);
create index run_parent on runnerq.run (parent_id, id) where parent_id is not null;
create index run_root on runnerq.run (root_id, id) where root_id is not null;

create table runnerq.live (                             -- hot: one row while the run is open
    run_id          uuid primary key,
    parent_id       uuid,                               -- whose live row an end must lock
    token           bigint not null default 0,          -- of the last claim, kept after a park; negative: taken back
    prior           bigint not null default 0,          -- the token before it, so that a repeated last turn is known
    worker_id       bigint,
    rank            timestamptz not null,               -- when it became ready, minus the head start of its priority
    due_at          timestamptz,                        -- set while delayed or while a park has a timer
    started_at      timestamptz,                        -- of the first claim; null: it never ran
    parked_at       timestamptz,
    cancel_at       timestamptz,                        -- when a cancel was requested
    inbox           integer not null default 0,         -- counts what has come: signals, ends of children, a cancel
    needs           integer not null default 1,         -- the fewest ends of wanted children that can move a parked run
    arrived         integer not null default 0,         -- how many have come since the park
    generation      integer not null default 1,
    priority        smallint not null,                  -- 0 critical, 1 high, 2 normal, 3 low
    crashes         smallint not null default 0,        -- lost leases with no answer in between
    state           text not null,                      -- pending | running | waiting | blocked
    queue           text not null,
    served          text not null,                      -- what workers claim by: workflow@version, or the activity's name
    cancel          text,                               -- the reason of a requested cancel; '' where none was given
    wants_signals   text[],                             -- channels that wake a parked run
    wants_children  uuid[] default '{}'                 -- children whose ends it waits for; null: any child's
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index live_ready on runnerq.live (queue, served, rank, run_id) where state = 'pending' and due_at is null;
create index live_due on runnerq.live (due_at) where due_at is not null;
create index live_held on runnerq.live (worker_id) where state = 'running';
create index live_blocked on runnerq.live (served, run_id) where state = 'blocked';

create table runnerq.journal (                          -- append-only: one answer, and what was asked on being fed it
    run_id          uuid not null,
    token           bigint not null,                    -- of the claim that wrote it
    at              timestamptz not null,
    generation      integer not null,
    place           integer not null,
    kind            text not null,
    position        text not null,
    value           json,
    asked           json,
    primary key (run_id, generation, place)
) with (autovacuum_vacuum_insert_scale_factor = 0.2);

create table runnerq.outcome (                          -- append-only: one row for every finished run
    run_id          uuid primary key,
    token           bigint not null,                    -- of the claim that ended it; 0: nobody held it
    ended_at        timestamptz not null,
    started_at      timestamptz,
    generation      integer not null default 1,
    cancel_requested boolean not null default false,
    status          text not null,                      -- completed | failed | dead_letter | cancelled
    reason          text,
    result          json,
    error           json
) with (autovacuum_vacuum_insert_scale_factor = 0.2);

create table runnerq.attempt (                          -- the last failed attempt at a position; goes with its answer
    run_id          uuid not null,
    position        text not null,                      -- '' for an activity run
    number          integer not null,                   -- failures so far
    at              timestamptz not null,
    next_at         timestamptz,
    error           json,
    details         json,                               -- the last heartbeat details
    primary key (run_id, position)
);

create table runnerq.signal (                           -- a run's mailbox
    run_id          uuid not null,
    number          integer not null,                   -- the inbox count it made: its order
    at              timestamptz not null,               -- read under the run's lock
    taken           boolean not null default false,     -- consumed; only those with a dedup id stay
    channel         text not null,
    dedup           text,
    value           json,
    primary key (run_id, number)
);
create unique index signal_dedup on runnerq.signal (run_id, channel, dedup) where dedup is not null;

create table runnerq.state (                            -- what a run publishes, kept after its end
    run_id          uuid primary key,
    generation      integer not null,
    place           integer not null,                   -- of the row that published it: an older turn does not overwrite
    value           json not null
) with (fillfactor = 80);

create table runnerq.block (                            -- why a run is stuck, and which builds could not follow it
    run_id          uuid primary key,
    at              timestamptz not null,
    retry_at        timestamptz,                        -- a fault of the worker: when it is tried again
    builds          text[] not null,
    message         text not null,
    position        text,
    recorded        text,
    asked           text,
    line            text,
    traceback       text
);

create table runnerq.key (                              -- which run an idempotency key stands for
    name            text not null,
    key             text not null,
    run_id          uuid not null,
    primary key (name, key)
) with (fillfactor = 80);

create table runnerq.worker (                           -- one beat row a worker; kept for a day after its end
    id              bigint primary key,
    beat_at         timestamptz not null,
    registered_at   timestamptz not null default now(),
    backend_start   timestamptz,                        -- of the beat's own backend; null behind a pooler
    reaped_at       timestamptz,                        -- it counts as gone for ever
    left_at         timestamptz,                        -- it signed off by itself
    lease           double precision not null,          -- seconds
    backend_pid     integer,
    pid             integer not null,
    host            text not null,
    build           text not null,
    queues          text[] not null,
    served          text[] not null
) with (fillfactor = 50);

create table runnerq.definition (                       -- what workers have registered
    kind            text not null,
    name            text not null,
    version         integer not null,
    queue           text not null,
    build           text not null,
    options         json,
    primary key (name, version, kind)
);

create table runnerq.sweep (                            -- how far the fleet's sweep has come
    one             boolean primary key default true check (one),
    run_id          uuid not null
);
insert into runnerq.sweep (run_id) values ('00000000-0000-0000-0000-000000000000');
