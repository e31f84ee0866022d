-- +goose Up

-- The schema of SQLite's migrations up to the same number, which say what each column is.
-- INTEGER there is BIGINT here. What is sorted or compared by < is of collation "C", so
-- that it is in the order of its bytes whatever the locale of the database.

CREATE TABLE log (
  one        BIGINT           PRIMARY KEY CHECK (one = 1),
  id         TEXT COLLATE "C" NOT NULL,
  head       BIGINT           NOT NULL DEFAULT 0,
  pruned     BIGINT           NOT NULL DEFAULT 0,
  alive_at   BIGINT           NOT NULL,
  signal_key TEXT             NOT NULL DEFAULT ''
);

CREATE TABLE deployments (
  id                TEXT COLLATE "C" PRIMARY KEY,
  name              TEXT COLLATE "C" NOT NULL,
  provider          TEXT             NOT NULL,
  provider_id       TEXT COLLATE "C" NOT NULL,
  pool              TEXT             NOT NULL,
  expected          TEXT             NOT NULL CHECK (expected = 'running' OR expected = 'stopped' OR expected = 'gone'),
  rule              TEXT             NOT NULL,
  quorum            BIGINT           NOT NULL CHECK (quorum > 0),
  metadata          TEXT             NOT NULL,
  from_file         BIGINT           NOT NULL CHECK (from_file = 0 OR from_file = 1),
  tally             TEXT             NOT NULL DEFAULT '{}',
  state             TEXT             NOT NULL CHECK (state = 'unknown' OR state = 'starting' OR state = 'running' OR state = 'degraded' OR state = 'stopping' OR state = 'stopped' OR state = 'suspended' OR state = 'failed' OR state = 'gone'),
  since             BIGINT           NOT NULL DEFAULT 0,
  reason            TEXT             NOT NULL DEFAULT '',
  sources           TEXT             NOT NULL DEFAULT '[]',
  drift             BIGINT           NOT NULL DEFAULT 0,
  stale             BIGINT           NOT NULL DEFAULT 0,
  suspect           BIGINT           NOT NULL DEFAULT 0,
  deadline_at       BIGINT           NOT NULL DEFAULT 0,
  created_at        BIGINT           NOT NULL,
  updated_at        BIGINT           NOT NULL,
  flap              TEXT             NOT NULL DEFAULT 'on' CHECK (flap = 'on' OR flap = 'off'),
  maintenance_until BIGINT           NOT NULL DEFAULT 0,
  edges             TEXT             NOT NULL DEFAULT '',
  unstable_until    BIGINT           NOT NULL DEFAULT 0,
  held              BIGINT           NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1),
  from_provider     BIGINT           NOT NULL DEFAULT 0 CHECK (from_provider = 0 OR from_provider = 1),
  components        TEXT             NOT NULL DEFAULT ''
);
CREATE INDEX deployments_by_provider_id ON deployments (provider_id) WHERE provider_id <> '';
CREATE INDEX deployments_by_deadline ON deployments (deadline_at) WHERE deadline_at > 0;
CREATE INDEX deployments_gone ON deployments (since) WHERE from_provider = 1 AND state = 'gone';

CREATE TABLE instances (
  id                TEXT COLLATE "C" PRIMARY KEY,
  deployment_id     TEXT COLLATE "C" NOT NULL REFERENCES deployments (id),
  name              TEXT COLLATE "C" NOT NULL,
  assembly          TEXT COLLATE "C" NOT NULL,
  provider_id       TEXT COLLATE "C" NOT NULL,
  address           TEXT             NOT NULL,
  expected          TEXT             NOT NULL CHECK (expected = 'running' OR expected = 'stopped' OR expected = 'gone'),
  metadata          TEXT             NOT NULL,
  probe             TEXT             NOT NULL,
  from_file         BIGINT           NOT NULL CHECK (from_file = 0 OR from_file = 1),
  counts_as         TEXT             NOT NULL CHECK (counts_as = 'running' OR counts_as = 'stopped' OR counts_as = 'gone'),
  state             TEXT             NOT NULL CHECK (state = 'unknown' OR state = 'starting' OR state = 'running' OR state = 'stopping' OR state = 'stopped' OR state = 'suspended' OR state = 'failed' OR state = 'gone'),
  since             BIGINT           NOT NULL DEFAULT 0,
  reason            TEXT             NOT NULL DEFAULT '',
  sources           TEXT             NOT NULL DEFAULT '[]',
  drift             BIGINT           NOT NULL DEFAULT 0,
  stale             BIGINT           NOT NULL DEFAULT 0,
  suspect           BIGINT           NOT NULL DEFAULT 0,
  deadline_at       BIGINT           NOT NULL DEFAULT 0,
  created_at        BIGINT           NOT NULL,
  updated_at        BIGINT           NOT NULL,
  maintenance_until BIGINT           NOT NULL DEFAULT 0,
  edges             TEXT             NOT NULL DEFAULT '',
  unstable_until    BIGINT           NOT NULL DEFAULT 0,
  held              BIGINT           NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1),
  from_provider     BIGINT           NOT NULL DEFAULT 0 CHECK (from_provider = 0 OR from_provider = 1),
  work              BIGINT           NOT NULL DEFAULT 0
);
CREATE INDEX instances_by_deployment ON instances (deployment_id, id);
CREATE INDEX instances_down ON instances (deployment_id, id) WHERE (state = 'failed' OR state = 'stopped' OR state = 'suspended' OR state = 'gone');
CREATE INDEX instances_by_provider_id ON instances (provider_id) WHERE provider_id <> '';
CREATE INDEX instances_by_deadline ON instances (deadline_at) WHERE deadline_at > 0;
CREATE INDEX instances_by_probe ON instances (id) WHERE probe <> '';
CREATE INDEX instances_held ON instances (deployment_id) WHERE held = 1;
CREATE INDEX instances_gone ON instances (since) WHERE from_provider = 1 AND state = 'gone';
CREATE INDEX instances_by_assembly ON instances (deployment_id, assembly, id) WHERE assembly <> '';

CREATE TABLE evidence (
  kind        TEXT COLLATE "C" NOT NULL CHECK (kind = 'deployment' OR kind = 'instance'),
  subject_id  TEXT COLLATE "C" NOT NULL,
  source      TEXT COLLATE "C" NOT NULL,
  origin      TEXT             NOT NULL CHECK (origin = 'provider' OR origin = 'probe' OR origin = 'monitor'),
  state       TEXT             NOT NULL,
  since       BIGINT           NOT NULL,
  observed_at BIGINT           NOT NULL,
  received_at BIGINT           NOT NULL,
  expires_at  BIGINT           NOT NULL,
  reason      TEXT             NOT NULL,
  raw         TEXT             NOT NULL,
  requested   BIGINT           NOT NULL,
  pending     TEXT             NOT NULL,
  samples     BIGINT           NOT NULL,
  blind_since BIGINT           NOT NULL,
  blind_for   TEXT             NOT NULL,
  stale_at    BIGINT           NOT NULL,
  PRIMARY KEY (kind, subject_id, source)
);

CREATE TABLE events (
  seq           BIGINT           PRIMARY KEY,
  at            BIGINT           NOT NULL,
  type          TEXT             NOT NULL,
  kind          TEXT COLLATE "C" NOT NULL,
  subject_id    TEXT COLLATE "C" NOT NULL,
  deployment_id TEXT COLLATE "C" NOT NULL,
  provider      TEXT             NOT NULL,
  pool          TEXT             NOT NULL,
  word          TEXT             NOT NULL,
  state         TEXT             NOT NULL,
  previous      TEXT             NOT NULL,
  expected      TEXT             NOT NULL,
  source        TEXT COLLATE "C" NOT NULL,
  reason        TEXT             NOT NULL,
  detected_at   BIGINT           NOT NULL,
  data          TEXT             NOT NULL
);
CREATE INDEX events_by_deployment ON events (deployment_id, seq);

CREATE TABLE monitors (
  id            TEXT COLLATE "C" PRIMARY KEY,
  name          TEXT COLLATE "C" NOT NULL,
  scheme        TEXT             NOT NULL CHECK (scheme = 'http' OR scheme = 'https'),
  address       TEXT             NOT NULL,
  port          BIGINT           NOT NULL CHECK (port BETWEEN 1 AND 65535),
  path          TEXT             NOT NULL,
  scope         TEXT             NOT NULL,
  detections    TEXT             NOT NULL,
  subjects      TEXT             NOT NULL,
  echo          BIGINT           NOT NULL,
  secret        TEXT             NOT NULL,
  cursor        BIGINT           NOT NULL,
  attempts      BIGINT           NOT NULL DEFAULT 0,
  next_try_at   BIGINT           NOT NULL DEFAULT 0,
  success_at    BIGINT           NOT NULL DEFAULT 0,
  last_error    TEXT             NOT NULL DEFAULT '',
  created_at    BIGINT           NOT NULL,
  updated_at    BIGINT           NOT NULL,
  parallel      BIGINT           NOT NULL DEFAULT 16 CHECK (parallel BETWEEN 1 AND 64),
  round         BIGINT           NOT NULL DEFAULT 0,
  ahead         TEXT             NOT NULL DEFAULT '',
  failures      BIGINT           NOT NULL DEFAULT 0,
  failing_since BIGINT           NOT NULL DEFAULT 0,
  paused        TEXT             NOT NULL DEFAULT '' CHECK (paused = '' OR paused = 'operator' OR paused = 'failures' OR paused = 'gone'),
  old_secret    TEXT             NOT NULL DEFAULT '',
  old_until     BIGINT           NOT NULL DEFAULT 0,
  bearer        TEXT             NOT NULL DEFAULT '',
  headers       TEXT             NOT NULL DEFAULT '{}',
  ca            TEXT             NOT NULL DEFAULT '',
  client_cert   TEXT             NOT NULL DEFAULT '',
  client_key    TEXT             NOT NULL DEFAULT '',
  format        TEXT             NOT NULL DEFAULT 'seed' CHECK (format = 'seed' OR format = 'batch'),
  backlog       TEXT             NOT NULL DEFAULT 'every' CHECK (backlog = 'every' OR backlog = 'latest'),
  latest_to     BIGINT           NOT NULL DEFAULT 0,
  replay        TEXT             NOT NULL DEFAULT '',
  omitted       BIGINT           NOT NULL DEFAULT 0,
  wished_seq    BIGINT           NOT NULL DEFAULT 0,
  ttl           BIGINT           NOT NULL DEFAULT 0 CHECK (ttl >= 0),
  expires_at    BIGINT           NOT NULL DEFAULT 0,
  lease_at      BIGINT           NOT NULL DEFAULT 0,
  verify        BIGINT           NOT NULL DEFAULT 0 CHECK (verify = 0 OR verify = 1),
  verified_at   BIGINT           NOT NULL DEFAULT 0,
  origin        TEXT             NOT NULL DEFAULT '',
  rate          BIGINT           NOT NULL DEFAULT 0 CHECK (rate >= 0),
  UNIQUE (address, port, path, scope)
);
CREATE INDEX monitors_by_old_until ON monitors (old_until) WHERE old_until > 0;
CREATE INDEX monitors_by_lease ON monitors (lease_at) WHERE lease_at > 0;

CREATE TABLE providers (
  id          TEXT COLLATE "C" PRIMARY KEY,
  kind        TEXT COLLATE "C" NOT NULL,
  complete_at BIGINT           NOT NULL,
  watched     BIGINT           NOT NULL,
  blind       BIGINT           NOT NULL,
  last_error  TEXT             NOT NULL,
  every       BIGINT           NOT NULL DEFAULT 0,
  took        BIGINT           NOT NULL DEFAULT 0,
  deployments BIGINT           NOT NULL DEFAULT 0,
  instances   BIGINT           NOT NULL DEFAULT 0,
  lost_at     BIGINT           NOT NULL DEFAULT 0,
  lost        BIGINT           NOT NULL DEFAULT 0 CHECK (lost = 0 OR lost = 1)
);
CREATE INDEX providers_by_lost_at ON providers (lost_at) WHERE lost_at > 0 AND lost = 0;

CREATE TABLE tries (
  id            BIGINT           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  monitor_id    TEXT COLLATE "C" NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  taken         BIGINT           NOT NULL CHECK (taken = 0 OR taken = 1),
  result        TEXT             NOT NULL CHECK (result = 'taken' OR result = 'refused' OR result = 'away' OR result = 'gone'),
  at            BIGINT           NOT NULL,
  seq           BIGINT           NOT NULL,
  last_seq      BIGINT           NOT NULL,
  events        BIGINT           NOT NULL,
  kind          TEXT COLLATE "C" NOT NULL,
  subject_id    TEXT COLLATE "C" NOT NULL,
  deployment_id TEXT COLLATE "C" NOT NULL,
  data          TEXT             NOT NULL
);
CREATE INDEX tries_by_monitor ON tries (monitor_id, taken, id);

CREATE TABLE passed (
  monitor_id TEXT COLLATE "C" NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  first_seq  BIGINT           NOT NULL,
  last_seq   BIGINT           NOT NULL,
  kind       TEXT COLLATE "C" NOT NULL,
  subject_id TEXT COLLATE "C" NOT NULL,
  ahead      TEXT             NOT NULL,
  why        TEXT             NOT NULL CHECK (why = 'registered' OR why = 'skipped' OR why = 'lost')
);
CREATE INDEX passed_by_monitor ON passed (monitor_id, last_seq);

CREATE TABLE spans (
  state  TEXT   PRIMARY KEY,
  micros BIGINT NOT NULL
);

CREATE TABLE deployables (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  name       TEXT COLLATE "C" NOT NULL,
  created_at BIGINT           NOT NULL,
  summary    TEXT             NOT NULL,
  source     TEXT COLLATE "C" NOT NULL,
  files      TEXT             NOT NULL
);

CREATE TABLE deployed (
  deployment_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES deployments (id) ON DELETE CASCADE,
  deployable    TEXT COLLATE "C" NOT NULL REFERENCES deployables (id),
  parameters    TEXT             NOT NULL,
  hidden        TEXT             NOT NULL,
  outputs       TEXT             NOT NULL
);
CREATE INDEX deployed_by_deployable ON deployed (deployable);

CREATE TABLE servers (
  deployment_id TEXT COLLATE "C" NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  name          TEXT COLLATE "C" NOT NULL,
  instance_id   TEXT COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (deployment_id, name)
);
CREATE INDEX servers_by_instance ON servers (instance_id) WHERE instance_id <> '';

CREATE TABLE components (
  id            BIGINT           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  uid           BYTEA            NOT NULL UNIQUE,
  deployment_id TEXT COLLATE "C" NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  name          TEXT COLLATE "C" NOT NULL,
  kind          TEXT COLLATE "C" NOT NULL CHECK (kind = 'software' OR kind = 'wait_condition'),
  instance      TEXT COLLATE "C" NOT NULL,
  instance_id   TEXT COLLATE "C" NOT NULL,
  handle        TEXT COLLATE "C" NOT NULL,
  hook          TEXT COLLATE "C" NOT NULL,
  wanted        BIGINT           NOT NULL,
  timeout       BIGINT           NOT NULL,
  retries       BIGINT           NOT NULL,
  silent        BIGINT           NOT NULL,
  planned       BIGINT           NOT NULL CHECK (planned = 0 OR planned = 1),
  action        TEXT             NOT NULL CHECK (action = 'CREATE' OR action = 'UPDATE' OR action = 'DELETE'),
  state         TEXT             NOT NULL CHECK (state = 'waiting' OR state = 'available' OR state = 'running' OR state = 'complete' OR state = 'failed' OR state = 'timed_out' OR state = 'cancelled'),
  since         BIGINT           NOT NULL,
  reason        TEXT             NOT NULL DEFAULT '',
  run           BIGINT           NOT NULL DEFAULT 0,
  failures      BIGINT           NOT NULL DEFAULT 0,
  unmet         BIGINT           NOT NULL,
  signals       BIGINT           NOT NULL DEFAULT 0,
  heard         BIGINT           NOT NULL DEFAULT 0,
  available_at  BIGINT           NOT NULL DEFAULT 0,
  started_at    BIGINT           NOT NULL DEFAULT 0,
  finished_at   BIGINT           NOT NULL DEFAULT 0,
  deadline_at   BIGINT           NOT NULL DEFAULT 0,
  hash          TEXT             NOT NULL DEFAULT '',
  done_hash     TEXT             NOT NULL DEFAULT '',
  UNIQUE (deployment_id, name)
);
CREATE INDEX components_by_server ON components (deployment_id, instance);
CREATE INDEX components_by_instance ON components (instance_id) WHERE instance_id <> '';
CREATE INDEX components_by_handle ON components (deployment_id, handle) WHERE handle <> '';
CREATE INDEX components_offered ON components (instance_id) WHERE (state = 'available' OR state = 'running');
CREATE INDEX components_failed ON components (deployment_id, name) WHERE (state = 'failed' OR state = 'timed_out');
CREATE INDEX components_by_deadline ON components (deadline_at) WHERE deadline_at > 0;
CREATE INDEX components_by_hook ON components (hook, state);

CREATE TABLE component_plans (
  component_id BIGINT PRIMARY KEY REFERENCES components (id) ON DELETE CASCADE,
  actions      TEXT   NOT NULL,
  outputs      TEXT   NOT NULL,
  refers       TEXT   NOT NULL,
  spec         BYTEA  NOT NULL
);

CREATE TABLE component_edges (
  before BIGINT NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  after  BIGINT NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  PRIMARY KEY (before, after)
);
CREATE INDEX component_edges_by_after ON component_edges (after, before);

CREATE TABLE component_needs (
  component_id  BIGINT           NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  deployment_id TEXT COLLATE "C" NOT NULL,
  server        TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (component_id, server)
);
CREATE INDEX component_needs_by_server ON component_needs (deployment_id, server, component_id);

CREATE TABLE component_outputs (
  component_id BIGINT           NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  name         TEXT COLLATE "C" NOT NULL,
  value        TEXT             NOT NULL,
  PRIMARY KEY (component_id, name)
);

CREATE TABLE component_data (
  component_id BIGINT           NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  sender       TEXT COLLATE "C" NOT NULL,
  data         TEXT             NOT NULL,
  PRIMARY KEY (component_id, sender)
);

CREATE TABLE component_signals (
  component_id BIGINT           NOT NULL REFERENCES components (id) ON DELETE CASCADE,
  n            BIGINT           NOT NULL,
  at           BIGINT           NOT NULL,
  run          BIGINT           NOT NULL,
  sender       TEXT COLLATE "C" NOT NULL,
  status       TEXT             NOT NULL,
  reason       TEXT             NOT NULL,
  late         BIGINT           NOT NULL,
  PRIMARY KEY (component_id, n)
);

CREATE TABLE instance_tokens (
  instance_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES instances (id) ON DELETE CASCADE,
  hash        BYTEA            NOT NULL
);

CREATE TABLE lanes (
  monitor_id  TEXT COLLATE "C" NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  kind        TEXT COLLATE "C" NOT NULL CHECK (kind = 'deployment' OR kind = 'instance' OR kind = 'component' OR kind = 'provider' OR kind = 'monitor' OR kind = 'log'),
  subject_id  TEXT COLLATE "C" NOT NULL,
  first_seq   BIGINT           NOT NULL,
  attempts    BIGINT           NOT NULL,
  next_try_at BIGINT           NOT NULL,
  last_error  TEXT             NOT NULL,
  PRIMARY KEY (monitor_id, kind, subject_id)
);

CREATE TABLE replicas (
  id         BIGINT           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  name       TEXT COLLATE "C" NOT NULL,
  roles      TEXT             NOT NULL,
  address    TEXT             NOT NULL,
  started_at BIGINT           NOT NULL,
  seen_at    BIGINT           NOT NULL
);

CREATE TABLE leases (
  name       TEXT COLLATE "C" PRIMARY KEY,
  holder     BIGINT           NOT NULL,
  fence      BIGINT           NOT NULL,
  since      BIGINT           NOT NULL,
  expires_at BIGINT           NOT NULL
);

CREATE TABLE questions (
  id     BIGINT           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  name   TEXT COLLATE "C" NOT NULL,
  body   TEXT             NOT NULL,
  until  BIGINT           NOT NULL,
  taken  BIGINT           NOT NULL DEFAULT 0,
  answer TEXT             NOT NULL DEFAULT ''
);
