-- +goose Up

-- Why callbacks wait. Times are microseconds since 1970, as everywhere.
ALTER TABLE deployments ADD COLUMN flap TEXT NOT NULL DEFAULT 'on' CHECK (flap = 'on' OR flap = 'off');
ALTER TABLE deployments ADD COLUMN maintenance_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deployments ADD COLUMN edges TEXT NOT NULL DEFAULT '';              -- the latest, of the window, with commas between them
ALTER TABLE deployments ADD COLUMN unstable_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deployments ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1); -- something waits
ALTER TABLE instances ADD COLUMN maintenance_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instances ADD COLUMN edges TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN unstable_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instances ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1);
CREATE INDEX instances_held ON instances (deployment_id) WHERE held = 1;
