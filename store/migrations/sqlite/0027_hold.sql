-- +goose Up

-- What else holds callbacks: that what a deployment depends on is down, and silences.
ALTER TABLE deployments ADD COLUMN depends_on TEXT NOT NULL DEFAULT '[]'; -- ids of deployments, as JSON
ALTER TABLE deployments ADD COLUMN held_by TEXT NOT NULL DEFAULT '';      -- in words
ALTER TABLE deployments ADD COLUMN told TEXT NOT NULL DEFAULT '';         -- the state of which a word was told last
CREATE INDEX deployments_held ON deployments (id) WHERE held = 1;
ALTER TABLE instances ADD COLUMN held_by TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN told TEXT NOT NULL DEFAULT '';

-- Each pair of depends_on, for those who ask what depends on one.
CREATE TABLE dependencies (
  child  TEXT NOT NULL,
  parent TEXT NOT NULL,
  PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_parent ON dependencies (parent);

CREATE TABLE silences (
  id         TEXT    PRIMARY KEY,
  scope      TEXT    NOT NULL,
  metadata   TEXT    NOT NULL, -- names and values, as JSON
  author     TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  starts_at  INTEGER NOT NULL,
  ends_at    INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX silences_by_end ON silences (ends_at);
ALTER TABLE log ADD COLUMN silenced_until INTEGER NOT NULL DEFAULT 0; -- the last end of any; 0: there is none
