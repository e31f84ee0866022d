-- +goose Up

-- How long a monitor stays registered unless it is added again.
ALTER TABLE monitors ADD COLUMN ttl INTEGER NOT NULL DEFAULT 0;        -- microseconds
ALTER TABLE monitors ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE monitors ADD COLUMN lease_at INTEGER NOT NULL DEFAULT 0;   -- when its end is announced; after that, its end
CREATE INDEX monitors_by_lease ON monitors (lease_at) WHERE lease_at > 0;
