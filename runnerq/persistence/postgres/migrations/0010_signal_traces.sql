-- A signal may carry the trace that it was sent in. Without one, a row is as long as before.

alter table runnerq.signal
    add column trace text;                              -- a W3C traceparent; null: nobody traced it
