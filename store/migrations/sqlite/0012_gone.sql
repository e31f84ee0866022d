-- +goose Up

-- A provider showed it, and no owner declared it: it leaves the model when it is gone.
ALTER TABLE deployments ADD COLUMN from_provider INTEGER NOT NULL DEFAULT 0 CHECK (from_provider = 0 OR from_provider = 1);
ALTER TABLE instances ADD COLUMN from_provider INTEGER NOT NULL DEFAULT 0 CHECK (from_provider = 0 OR from_provider = 1);
CREATE INDEX deployments_gone ON deployments (since) WHERE from_provider = 1 AND state = 'gone';
CREATE INDEX instances_gone ON instances (since) WHERE from_provider = 1 AND state = 'gone';
