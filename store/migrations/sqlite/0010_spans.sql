-- +goose Up

-- How long deployments were in a state that they left, added up over all there ever were.
CREATE TABLE spans (
  state  TEXT    PRIMARY KEY,
  micros INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
