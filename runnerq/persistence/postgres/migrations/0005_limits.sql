-- What limits ask of the tables. A run's limit stands beside it, null where it has none; the new columns of `live` and `run`
-- make no row longer that does not use them. All of it is done at once; the indexes of `live` are the next step.

alter table runnerq.live
    add column limit_scope text,                        -- what the run counts against while it is held; null: nothing
    add column limit_key text,
    add column lined boolean;                           -- it is ready, and a gate (and its lane) was made for it; null: not yet
alter table runnerq.run
    add column limit_scope text,
    add column limit_key text;

create table runnerq.limit_rule (                       -- the rules, as people have set them
    scope           text primary key,
    concurrency     integer,                            -- how many may be held at once; null: any number
    rate            integer,                            -- how many may be admitted in any `per` seconds; null: any number
    per             double precision,
    per_key         boolean not null,                   -- each key of the scope by itself
    changed_at      timestamptz not null default now()
);

create table runnerq.bucket (                           -- what is counted together: a key, or a whole scope. Whoever admits has it
    scope           text not null,
    key             text not null,                      -- '' for a whole scope
    whole           boolean not null,
    concurrency     integer,                            -- its rule's, so that a lock of this row is a lock of that
    rate            integer,
    per             double precision,
    admitted_at     timestamptz,                        -- the last time; null: never
    made_at         timestamptz not null default now(),
    recent_at       timestamptz[] not null default '{}',    -- what was admitted within `per`, where there is a rate, by slices
    recent_n        integer[] not null default '{}',        -- of a 64th of it: the last time of each, and how many
    primary key (scope, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table runnerq.gate (                             -- where the ready runs of a pair wait for a bucket
    scope           text not null,
    key             text not null,                      -- the bucket's
    queue           text not null,
    served          text not null,
    open_at         timestamptz,                        -- claims look at it from then on, the earliest first; null: it is shut
    primary key (scope, key, queue, served)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index gate_turn on runnerq.gate (queue, served, open_at) where open_at is not null;
create index gate_shut on runnerq.gate (scope, key, queue, served) where open_at is null;

create table runnerq.lane (                             -- the keys that wait at the gate of a whole scope
    scope           text not null,
    queue           text not null,
    served          text not null,
    key             text not null,
    turn_at         timestamptz not null,               -- the earliest is admitted first
    primary key (scope, queue, served, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index lane_turn on runnerq.lane (scope, queue, served, turn_at);

create table runnerq.lining (                           -- whoever makes gates and lanes, or changes a rule, has this row alone
    one             boolean primary key default true check (one),
    changed_at      timestamptz not null default now()  -- the last change of a rule
);
insert into runnerq.lining default values;
