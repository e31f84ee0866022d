-- +goose Up

-- Of a provider that is listed as a whole.
ALTER TABLE providers ADD COLUMN every INTEGER NOT NULL DEFAULT 0;       -- microseconds from one listing to the next; 0: it is not listed
ALTER TABLE providers ADD COLUMN took INTEGER NOT NULL DEFAULT 0;        -- microseconds the last complete listing took
ALTER TABLE providers ADD COLUMN deployments INTEGER NOT NULL DEFAULT 0; -- in that
ALTER TABLE providers ADD COLUMN instances INTEGER NOT NULL DEFAULT 0;
ALTER TABLE providers ADD COLUMN lost_at INTEGER NOT NULL DEFAULT 0;     -- when it will not have been listed for too long
ALTER TABLE providers ADD COLUMN lost INTEGER NOT NULL DEFAULT 0 CHECK (lost = 0 OR lost = 1);
CREATE INDEX providers_by_lost_at ON providers (lost_at) WHERE lost_at > 0 AND lost = 0;

-- A monitor may refuse to hear of a provider, too.
CREATE TABLE new_lanes (
  monitor_id  TEXT    NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  kind        TEXT    NOT NULL CHECK (kind = 'deployment' OR kind = 'instance' OR kind = 'provider' OR kind = 'monitor' OR kind = 'log'),
  subject_id  TEXT    NOT NULL,
  first_seq   INTEGER NOT NULL, -- the first event that waits
  attempts    INTEGER NOT NULL,
  next_try_at INTEGER NOT NULL,
  last_error  TEXT    NOT NULL,
  PRIMARY KEY (monitor_id, kind, subject_id)
) STRICT, WITHOUT ROWID;
INSERT INTO new_lanes SELECT monitor_id, kind, subject_id, first_seq, attempts, next_try_at, last_error FROM lanes;
DROP TABLE lanes;
ALTER TABLE new_lanes RENAME TO lanes;
