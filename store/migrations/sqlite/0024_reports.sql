-- +goose Up

-- What reports name things by, beside their ids.
CREATE INDEX instances_by_address ON instances (address) WHERE address <> '';
CREATE INDEX instances_by_name ON instances (name) WHERE name <> '';
CREATE INDEX deployments_by_name ON deployments (name) WHERE name <> '';

-- What reports said of something that nobody declared: the newest of it.
CREATE TABLE unmatched (
  report   TEXT    NOT NULL,
  kind     TEXT    NOT NULL CHECK (kind = 'deployment' OR kind = 'instance'),
  subject  TEXT    NOT NULL,
  why      TEXT    NOT NULL,
  word     TEXT    NOT NULL,
  reason   TEXT    NOT NULL,
  count    INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  last_at  INTEGER NOT NULL,
  PRIMARY KEY (report, kind, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX unmatched_by_time ON unmatched (last_at);
