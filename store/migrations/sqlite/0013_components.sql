-- +goose Up

-- Software components. Times are microseconds since 1970, as everywhere. What changes
-- with each signal stands apart from what is large.

CREATE TABLE deployables (
  id         TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  summary    TEXT    NOT NULL, -- JSON
  source     TEXT    NOT NULL,
  files      TEXT    NOT NULL  -- JSON
) STRICT;

-- How many of its components are in which phase, as JSON; '' when it has no deployable.
ALTER TABLE deployments ADD COLUMN components TEXT NOT NULL DEFAULT '';

-- What a deployment is made by.
CREATE TABLE deployed (
  deployment_id TEXT NOT NULL PRIMARY KEY REFERENCES deployments (id) ON DELETE CASCADE,
  deployable    TEXT NOT NULL REFERENCES deployables (id),
  parameters    TEXT NOT NULL, -- JSON, as they were given
  hidden        TEXT NOT NULL, -- JSON: the names of those that are never shown
  outputs       TEXT NOT NULL  -- JSON: of the plan
) STRICT;
CREATE INDEX deployed_by_deployable ON deployed (deployable);

-- The servers of its plan, and the instances that take their place.
CREATE TABLE servers (
  deployment_id TEXT NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  name          TEXT NOT NULL,
  instance_id   TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (deployment_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX servers_by_instance ON servers (instance_id) WHERE instance_id <> '';
CREATE INDEX instances_by_assembly ON instances (deployment_id, assembly, id) WHERE assembly <> '';

CREATE TABLE components (
  id            INTEGER PRIMARY KEY,
  uid           BLOB    NOT NULL UNIQUE,
  deployment_id TEXT    NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  name          TEXT    NOT NULL,
  kind          TEXT    NOT NULL CHECK (kind = 'software' OR kind = 'wait_condition'),
  instance      TEXT    NOT NULL,           -- the name of its server
  instance_id   TEXT    NOT NULL,
  handle        TEXT    NOT NULL,
  hook          TEXT    NOT NULL,           -- its group
  wanted        INTEGER NOT NULL,           -- signals
  timeout       INTEGER NOT NULL,           -- microseconds
  retries       INTEGER NOT NULL,
  silent        INTEGER NOT NULL,
  planned       INTEGER NOT NULL CHECK (planned = 0 OR planned = 1), -- 0: it goes once it is deleted
  action        TEXT    NOT NULL CHECK (action = 'CREATE' OR action = 'UPDATE' OR action = 'DELETE'),
  state         TEXT    NOT NULL CHECK (state = 'waiting' OR state = 'available' OR state = 'running' OR state = 'complete' OR state = 'failed' OR state = 'timed_out' OR state = 'cancelled'),
  since         INTEGER NOT NULL,
  reason        TEXT    NOT NULL DEFAULT '',
  run           INTEGER NOT NULL DEFAULT 0,
  failures      INTEGER NOT NULL DEFAULT 0, -- since somebody last asked for it
  unmet         INTEGER NOT NULL,           -- how many components it waits for
  signals       INTEGER NOT NULL DEFAULT 0, -- that count
  heard         INTEGER NOT NULL DEFAULT 0, -- signals ever
  available_at  INTEGER NOT NULL DEFAULT 0,
  started_at    INTEGER NOT NULL DEFAULT 0,
  finished_at   INTEGER NOT NULL DEFAULT 0,
  deadline_at   INTEGER NOT NULL DEFAULT 0,
  hash          TEXT    NOT NULL DEFAULT '', -- of the job that is run
  done_hash     TEXT    NOT NULL DEFAULT '', -- of the one that was last complete; '': none was
  UNIQUE (deployment_id, name)
) STRICT;
CREATE INDEX components_by_server ON components (deployment_id, instance);
CREATE INDEX components_by_instance ON components (instance_id) WHERE instance_id <> '';
CREATE INDEX components_by_handle ON components (deployment_id, handle) WHERE handle <> '';
CREATE INDEX components_offered ON components (instance_id) WHERE (state = 'available' OR state = 'running');
CREATE INDEX components_failed ON components (deployment_id, name) WHERE (state = 'failed' OR state = 'timed_out');
CREATE INDEX components_by_deadline ON components (deadline_at) WHERE deadline_at > 0;
CREATE INDEX components_by_hook ON components (hook, state);

CREATE TABLE component_plans (
  component_id INTEGER PRIMARY KEY REFERENCES components (id) ON DELETE CASCADE,
  actions      TEXT NOT NULL, -- JSON
  outputs      TEXT NOT NULL, -- JSON: the declared ones
  refers       TEXT NOT NULL, -- JSON
  spec         BLOB NOT NULL
) STRICT;

-- The one comes before the other.
CREATE TABLE component_edges (
  before INTEGER NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  after  INTEGER NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  PRIMARY KEY (before, after)
) STRICT, WITHOUT ROWID;
CREATE INDEX component_edges_by_after ON component_edges (after, before);

-- The servers that have to run first.
CREATE TABLE component_needs (
  component_id  INTEGER NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  deployment_id TEXT    NOT NULL,
  server        TEXT    NOT NULL,
  PRIMARY KEY (component_id, server)
) STRICT, WITHOUT ROWID;
CREATE INDEX component_needs_by_server ON component_needs (deployment_id, server, component_id);

CREATE TABLE component_outputs (
  component_id INTEGER NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  name         TEXT    NOT NULL,
  value        TEXT    NOT NULL, -- JSON
  PRIMARY KEY (component_id, name)
) STRICT;

-- What was signalled to a condition, by whom.
CREATE TABLE component_data (
  component_id INTEGER NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  sender       TEXT    NOT NULL,
  data         TEXT    NOT NULL, -- JSON
  PRIMARY KEY (component_id, sender)
) STRICT;

CREATE TABLE component_signals (
  component_id INTEGER NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  n            INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  run          INTEGER NOT NULL,
  sender       TEXT    NOT NULL,
  status       TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  late         INTEGER NOT NULL,
  PRIMARY KEY (component_id, n)
) STRICT, WITHOUT ROWID;

-- What an instance is to run is another whenever this is another number.
ALTER TABLE instances ADD COLUMN work INTEGER NOT NULL DEFAULT 0;

CREATE TABLE instance_tokens (
  instance_id TEXT NOT NULL PRIMARY KEY REFERENCES instances (id) ON DELETE CASCADE,
  hash        BLOB NOT NULL -- SHA-256
) STRICT, WITHOUT ROWID;

-- A monitor may refuse to hear of a component, too.
CREATE TABLE new_lanes (
  monitor_id  TEXT    NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  kind        TEXT    NOT NULL CHECK (kind = 'deployment' OR kind = 'instance' OR kind = 'component' OR kind = 'provider' OR kind = 'monitor' OR kind = 'log'),
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
