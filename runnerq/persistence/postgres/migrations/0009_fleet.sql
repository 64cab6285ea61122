-- What people want to know of workers, and may ask of them. All of it is done at once: there are few workers, and columns without
-- a default rewrite nothing.

alter table runnerq.worker
    add column library text,                            -- the version of runnerq that it runs; null: older than this column
    add column clock_off double precision,              -- seconds that its machine's clock was ahead at its last beat
    add column drain_at timestamptz;                    -- when somebody asked it to stop in order; null: nobody has
