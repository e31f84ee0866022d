-- +goose Up

CREATE INDEX instances_by_address ON instances (address) WHERE address <> '';
CREATE INDEX instances_by_name ON instances (name) WHERE name <> '';
CREATE INDEX deployments_by_name ON deployments (name) WHERE name <> '';

CREATE TABLE unmatched (
  report   TEXT COLLATE "C" NOT NULL,
  kind     TEXT COLLATE "C" NOT NULL CHECK (kind = 'deployment' OR kind = 'instance'),
  subject  TEXT COLLATE "C" NOT NULL,
  why      TEXT             NOT NULL,
  word     TEXT             NOT NULL,
  reason   TEXT             NOT NULL,
  count    BIGINT           NOT NULL,
  first_at BIGINT           NOT NULL,
  last_at  BIGINT           NOT NULL,
  PRIMARY KEY (report, kind, subject)
);
CREATE INDEX unmatched_by_time ON unmatched (last_at);
