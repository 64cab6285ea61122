-- The indexes of what 0003 has changed. These tables may be large, and others write into them meanwhile: each is built beside
-- them, outside of a transaction. One whose building was broken off is built anew.

create index concurrently if not exists run_xid on runnerq.run using brin (xid)
    with (pages_per_range = 32, autosummarize = on);
create index concurrently if not exists outcome_xid on runnerq.outcome using brin (xid)
    with (pages_per_range = 32, autosummarize = on);

-- Failures are rare, and people look for them: this costs a completed run nothing.
create index concurrently if not exists outcome_unwell on runnerq.outcome (status, run_id) where status <> 'completed';

-- Runs that were started by name, before anybody knew the name.
create index concurrently if not exists live_unnamed on runnerq.live (served, run_id) where right(served, 2) = '@?';
