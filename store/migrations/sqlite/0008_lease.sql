-- +goose Up

-- How long a monitor stays registered unless it is added again.
ALTER TABLE monitors ADD COLUMN ttl INTEGER NOT NULL DEFAULT 0 CHECK (ttl >= 0); -- microseconds
ALTER TABLE monitors ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE monitors ADD COLUMN lease_at INTEGER NOT NULL DEFAULT 0; -- when its end is announced; after that, its end
CREATE INDEX monitors_by_lease ON monitors (lease_at) WHERE lease_at > 0;

-- Whether a monitor is called only once it allowed that, and what it allowed.
ALTER TABLE monitors ADD COLUMN verify INTEGER NOT NULL DEFAULT 0 CHECK (verify = 0 OR verify = 1);
ALTER TABLE monitors ADD COLUMN verified_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE monitors ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- as which it may be called
ALTER TABLE monitors ADD COLUMN rate INTEGER NOT NULL DEFAULT 0 CHECK (rate >= 0); -- requests a minute; 0: as many as we like
