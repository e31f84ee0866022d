-- +goose Up

-- In which trace that is which waits, so that it is told in that: traceparent and tracestate.
ALTER TABLE deployments ADD COLUMN held_trace TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN held_trace TEXT NOT NULL DEFAULT '';
