-- The indexes of what 0005 has changed. Each is built beside those who write, outside of a transaction. A claim no longer
-- walks over runs that wait for a limit: the index of what is ready leaves them out, and the one without is dropped.

create index concurrently if not exists live_claimable on runnerq.live (queue, served, rank, run_id)
    where state = 'pending' and due_at is null and limit_scope is null;

-- Runs that are ready and have a limit, by lines; and of those the ones for which no gate was made yet.
create index concurrently if not exists live_lines on runnerq.live (queue, served, limit_scope, limit_key, rank, run_id)
    where state = 'pending' and due_at is null and limit_scope is not null;
create index concurrently if not exists live_arrived on runnerq.live (queue, served, limit_scope, limit_key, rank)
    where state = 'pending' and due_at is null and limit_scope is not null and lined is null;

-- Who holds places: the truth of every count.
create index concurrently if not exists live_places on runnerq.live (limit_scope, limit_key)
    where state = 'running' and limit_scope is not null;

drop index concurrently if exists runnerq.live_ready;
