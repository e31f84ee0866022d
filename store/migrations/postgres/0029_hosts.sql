-- +goose Up

ALTER TABLE deployments ADD COLUMN runs_on TEXT NOT NULL DEFAULT '[]';
ALTER TABLE instances ADD COLUMN host TEXT NOT NULL DEFAULT '';
UPDATE instances SET host = coalesce(CAST(metadata AS json) ->> 'host', '') WHERE metadata LIKE '{%';
CREATE INDEX instances_by_host ON instances (host) WHERE host <> '';
