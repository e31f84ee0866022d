-- +goose Up

-- A process renews all that it holds by one sign of life: replicas.seen_at.
ALTER TABLE leases DROP COLUMN expires_at;

ALTER TABLE replicas ADD COLUMN wants    TEXT    NOT NULL DEFAULT '[]'; -- units, and groups of units, that it takes part in, as JSON
ALTER TABLE replicas ADD COLUMN monitors INTEGER NOT NULL DEFAULT 0;    -- that it calls back
ALTER TABLE replicas ADD COLUMN probes   TEXT    NOT NULL DEFAULT '';   -- how its looks by probes go, as JSON; '': it makes none

-- That was of the one who made them all.
DELETE FROM providers WHERE id = 'static';
