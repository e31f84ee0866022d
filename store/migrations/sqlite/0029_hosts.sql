-- +goose Up

ALTER TABLE deployments ADD COLUMN runs_on TEXT NOT NULL DEFAULT '[]'; -- ids of deployments, as JSON, as its provider shows; depends_on is the owner's

-- The machine an instance runs on, of its metadata: by it reports name all that is on one.
ALTER TABLE instances ADD COLUMN host TEXT NOT NULL DEFAULT '';
UPDATE instances SET host = coalesce(metadata ->> 'host', '') WHERE metadata LIKE '{%';
CREATE INDEX instances_by_host ON instances (host) WHERE host <> '';
