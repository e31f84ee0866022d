-- +goose Up

ALTER TABLE deployments ADD COLUMN depends_on TEXT NOT NULL DEFAULT '[]';
ALTER TABLE deployments ADD COLUMN held_by TEXT NOT NULL DEFAULT '';
ALTER TABLE deployments ADD COLUMN told TEXT NOT NULL DEFAULT '';
CREATE INDEX deployments_held ON deployments (id) WHERE held = 1;
ALTER TABLE instances ADD COLUMN held_by TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN told TEXT NOT NULL DEFAULT '';

CREATE TABLE dependencies (
  child  TEXT COLLATE "C" NOT NULL,
  parent TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (child, parent)
);
CREATE INDEX dependencies_by_parent ON dependencies (parent);

CREATE TABLE silences (
  id         TEXT   COLLATE "C" PRIMARY KEY,
  scope      TEXT   NOT NULL,
  metadata   TEXT   NOT NULL,
  author     TEXT   NOT NULL,
  reason     TEXT   NOT NULL,
  starts_at  BIGINT NOT NULL,
  ends_at    BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX silences_by_end ON silences (ends_at);
ALTER TABLE log ADD COLUMN silenced_until BIGINT NOT NULL DEFAULT 0;
