-- +goose Up

-- Requests under way at once, each about another subject.
ALTER TABLE monitors ADD COLUMN parallel INTEGER NOT NULL DEFAULT 16 CHECK (parallel BETWEEN 1 AND 64);

-- Which resume what is saved goes back to.
ALTER TABLE monitors ADD COLUMN round INTEGER NOT NULL DEFAULT 0;

-- Beyond the cursor: up to where the events of a subject were delivered, as JSON.
ALTER TABLE monitors ADD COLUMN ahead TEXT NOT NULL DEFAULT '';

ALTER TABLE monitors ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;      -- since the last success
ALTER TABLE monitors ADD COLUMN failing_since INTEGER NOT NULL DEFAULT 0; -- the first of them
ALTER TABLE monitors ADD COLUMN paused TEXT NOT NULL DEFAULT '' CHECK (paused = '' OR paused = 'operator' OR paused = 'failures' OR paused = 'gone');

-- What waits for a monitor about a subject because the first of it was refused. The
-- cursor of the monitor passes it.
CREATE TABLE lanes (
  monitor_id  TEXT    NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  kind        TEXT    NOT NULL CHECK (kind = 'deployment' OR kind = 'instance' OR kind = 'monitor' OR kind = 'log'),
  subject_id  TEXT    NOT NULL,
  first_seq   INTEGER NOT NULL, -- the first event that waits
  attempts    INTEGER NOT NULL,
  next_try_at INTEGER NOT NULL,
  last_error  TEXT    NOT NULL,
  PRIMARY KEY (monitor_id, kind, subject_id)
) STRICT, WITHOUT ROWID;
