-- What replay asks of the tables: workers' faults in a row, runs that were opened again, where a parked run stands, and
-- when a build was first seen. The new columns of `live` are null until used, and make no row longer.

alter table runnerq.live
    add column faults smallint,                         -- blocks in a row by a fault of the worker; null: none
    add column reopened_at timestamptz,                 -- when it was opened again: an end of its parent before that is no
                                                        -- concern of it
    add column stack text[];                            -- where the code of a waiting run stands

create table runnerq.build (                            -- kept for good: what a build may skip hangs on its age
    build           text primary key,
    first_seen      timestamptz not null default now()
);
insert into runnerq.build (build, first_seen)
select build, min(registered_at) from runnerq.worker group by build;
