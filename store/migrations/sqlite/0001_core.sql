-- +goose Up

-- Times are microseconds since 1970, UTC; 0 is "none". Texts are '' when absent.
--
-- Lists of values are spelled with OR: for IN of more than two, SQLite builds a table in
-- memory each time a row is written, which made a record three times as dear.

-- The head of the event log, and what must be known of its past. One row.
CREATE TABLE log (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  id       TEXT    NOT NULL,           -- of this log; part of every event's id
  head     INTEGER NOT NULL DEFAULT 0, -- seq of the newest event
  pruned   INTEGER NOT NULL DEFAULT 0, -- seq of the newest event that is no longer kept
  alive_at INTEGER NOT NULL            -- when a windsock last had this store open
) STRICT;

CREATE TABLE deployments (
  id          TEXT    PRIMARY KEY,
  name        TEXT    NOT NULL,
  provider    TEXT    NOT NULL,
  provider_id TEXT    NOT NULL,
  pool        TEXT    NOT NULL,
  expected    TEXT    NOT NULL CHECK (expected = 'running' OR expected = 'stopped' OR expected = 'gone'),
  rule        TEXT    NOT NULL,
  quorum      INTEGER NOT NULL CHECK (quorum > 0),
  metadata    TEXT    NOT NULL,
  from_file   INTEGER NOT NULL CHECK (from_file = 0 OR from_file = 1), -- declared by the configuration file
  tally       TEXT    NOT NULL DEFAULT '{}', -- its members by expected/observed state, as JSON
  state       TEXT    NOT NULL CHECK (state = 'unknown' OR state = 'starting' OR state = 'running' OR state = 'degraded' OR state = 'stopping' OR state = 'stopped' OR state = 'suspended' OR state = 'failed' OR state = 'gone'),
  since       INTEGER NOT NULL DEFAULT 0,
  reason      TEXT    NOT NULL DEFAULT '',
  sources     TEXT    NOT NULL DEFAULT '[]',
  drift       INTEGER NOT NULL DEFAULT 0,
  stale       INTEGER NOT NULL DEFAULT 0,
  suspect     INTEGER NOT NULL DEFAULT 0,
  deadline_at INTEGER NOT NULL DEFAULT 0, -- when time alone may change the state
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deployments_by_provider_id ON deployments (provider_id) WHERE provider_id <> '';
CREATE INDEX deployments_by_deadline ON deployments (deadline_at) WHERE deadline_at > 0;

CREATE TABLE instances (
  id            TEXT    PRIMARY KEY,
  deployment_id TEXT    NOT NULL REFERENCES deployments (id),
  name          TEXT    NOT NULL,
  assembly      TEXT    NOT NULL,
  provider_id   TEXT    NOT NULL,
  address       TEXT    NOT NULL,
  expected      TEXT    NOT NULL CHECK (expected = 'running' OR expected = 'stopped' OR expected = 'gone'),
  metadata      TEXT    NOT NULL,
  probe         TEXT    NOT NULL,
  from_file     INTEGER NOT NULL CHECK (from_file = 0 OR from_file = 1),
  counts_as     TEXT    NOT NULL CHECK (counts_as = 'running' OR counts_as = 'stopped' OR counts_as = 'gone'), -- what its deployment expects of it
  state         TEXT    NOT NULL CHECK (state = 'unknown' OR state = 'starting' OR state = 'running' OR state = 'stopping' OR state = 'stopped' OR state = 'suspended' OR state = 'failed' OR state = 'gone'),
  since         INTEGER NOT NULL DEFAULT 0,
  reason        TEXT    NOT NULL DEFAULT '',
  sources       TEXT    NOT NULL DEFAULT '[]',
  drift         INTEGER NOT NULL DEFAULT 0,
  stale         INTEGER NOT NULL DEFAULT 0,
  suspect       INTEGER NOT NULL DEFAULT 0,
  deadline_at   INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX instances_by_deployment ON instances (deployment_id, id);
CREATE INDEX instances_down ON instances (deployment_id, id) WHERE (state = 'failed' OR state = 'stopped' OR state = 'suspended' OR state = 'gone');
CREATE INDEX instances_by_provider_id ON instances (provider_id) WHERE provider_id <> '';
CREATE INDEX instances_by_deadline ON instances (deadline_at) WHERE deadline_at > 0;
CREATE INDEX instances_by_probe ON instances (id) WHERE probe <> '';

-- The latest statement of each source about each subject.
CREATE TABLE evidence (
  kind        TEXT    NOT NULL CHECK (kind = 'deployment' OR kind = 'instance'),
  subject_id  TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  origin      TEXT    NOT NULL CHECK (origin = 'provider' OR origin = 'probe' OR origin = 'monitor'),
  state       TEXT    NOT NULL,
  since       INTEGER NOT NULL,
  observed_at INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  reason      TEXT    NOT NULL,
  raw         TEXT    NOT NULL,
  requested   INTEGER NOT NULL,
  pending     TEXT    NOT NULL,
  samples     INTEGER NOT NULL,
  blind_since INTEGER NOT NULL,
  blind_for   TEXT    NOT NULL,
  stale_at    INTEGER NOT NULL,
  PRIMARY KEY (kind, subject_id, source)
) STRICT, WITHOUT ROWID;

-- The log: append-only, in commit order.
CREATE TABLE events (
  seq           INTEGER PRIMARY KEY,
  at            INTEGER NOT NULL,
  type          TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  subject_id    TEXT    NOT NULL,
  deployment_id TEXT    NOT NULL,
  provider      TEXT    NOT NULL,
  pool          TEXT    NOT NULL,
  word          TEXT    NOT NULL,
  state         TEXT    NOT NULL,
  previous      TEXT    NOT NULL,
  expected      TEXT    NOT NULL,
  source        TEXT    NOT NULL,
  reason        TEXT    NOT NULL,
  detected_at   INTEGER NOT NULL,
  data          TEXT    NOT NULL
) STRICT;
CREATE INDEX events_by_deployment ON events (deployment_id, seq);

CREATE TABLE monitors (
  id          TEXT    PRIMARY KEY,
  name        TEXT    NOT NULL,
  scheme      TEXT    NOT NULL CHECK (scheme = 'http' OR scheme = 'https'),
  address     TEXT    NOT NULL,
  port        INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
  path        TEXT    NOT NULL,
  scope       TEXT    NOT NULL,
  detections  TEXT    NOT NULL,
  subjects    TEXT    NOT NULL,
  echo        INTEGER NOT NULL,
  secret      TEXT    NOT NULL,
  cursor      INTEGER NOT NULL, -- every event up to here was delivered or is none of its business
  attempts    INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL DEFAULT 0,
  success_at  INTEGER NOT NULL DEFAULT 0,
  last_error  TEXT    NOT NULL DEFAULT '',
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  UNIQUE (address, port, path, scope)
) STRICT, WITHOUT ROWID;

CREATE TABLE providers (
  id          TEXT    PRIMARY KEY,
  kind        TEXT    NOT NULL,
  complete_at INTEGER NOT NULL,
  watched     INTEGER NOT NULL,
  blind       INTEGER NOT NULL,
  last_error  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
