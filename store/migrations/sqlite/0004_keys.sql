-- +goose Up

-- How a monitor knows who calls it, beside its secret.
ALTER TABLE monitors ADD COLUMN old_secret TEXT NOT NULL DEFAULT '';     -- signs beside the secret
ALTER TABLE monitors ADD COLUMN old_until INTEGER NOT NULL DEFAULT 0;    -- until then; after that it is erased
ALTER TABLE monitors ADD COLUMN bearer TEXT NOT NULL DEFAULT '';
ALTER TABLE monitors ADD COLUMN headers TEXT NOT NULL DEFAULT '{}';      -- names and values, as JSON
ALTER TABLE monitors ADD COLUMN ca TEXT NOT NULL DEFAULT '';             -- PEM, as are these:
ALTER TABLE monitors ADD COLUMN client_cert TEXT NOT NULL DEFAULT '';
ALTER TABLE monitors ADD COLUMN client_key TEXT NOT NULL DEFAULT '';
CREATE INDEX monitors_by_old_until ON monitors (old_until) WHERE old_until > 0;
