-- +goose Up

-- Requests to monitors: those that failed, and some of the others.
CREATE TABLE tries (
  id            INTEGER PRIMARY KEY,
  monitor_id    TEXT    NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  taken         INTEGER NOT NULL CHECK (taken = 0 OR taken = 1),
  result        TEXT    NOT NULL CHECK (result = 'taken' OR result = 'refused' OR result = 'away' OR result = 'gone'),
  at            INTEGER NOT NULL,
  seq           INTEGER NOT NULL, -- of the first event in it,
  last_seq      INTEGER NOT NULL, -- and of the last
  events        INTEGER NOT NULL,
  kind          TEXT    NOT NULL,
  subject_id    TEXT    NOT NULL,
  deployment_id TEXT    NOT NULL,
  data          TEXT    NOT NULL
) STRICT;
CREATE INDEX tries_by_monitor ON tries (monitor_id, taken, id);

ALTER TABLE monitors ADD COLUMN omitted INTEGER NOT NULL DEFAULT 0; -- tries that are not kept
