-- Schedules: rules that start runs. There are few, and each row changes once a tick.

create table runnerq.schedule (
    name            text primary key,
    serial          bigint not null default (random() * 1e15)::bigint,  -- counts changes; begins anywhere, so that none of a
                                                        -- schedule that was deleted and made anew is one of the old one's
    next_at         timestamptz,                        -- the next tick, due or to come; null: none comes
    paused_at       timestamptz,
    since           timestamptz not null,               -- when it was put as it is: intervals count from here
    created_at      timestamptz not null default now(),
    last_at         timestamptz,                        -- the last tick that was fired or passed over
    started         bigint not null default 0,          -- ticks that have a run
    skipped         bigint not null default 0,          -- ticks that were passed over because an earlier run was open
    behind          boolean not null default false,     -- missed ticks are left that go with the last firing
    runs            uuid[] not null default '{}',       -- the last ones, the newest last
    rule            json not null,                      -- all else that was put
    input           json not null
) with (fillfactor = 50);
create index schedule_due on runnerq.schedule (next_at) where paused_at is null and next_at is not null;
