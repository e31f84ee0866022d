-- +goose Up

ALTER TABLE leases DROP COLUMN expires_at;

ALTER TABLE replicas ADD COLUMN wants    TEXT   NOT NULL DEFAULT '[]';
ALTER TABLE replicas ADD COLUMN monitors BIGINT NOT NULL DEFAULT 0;
ALTER TABLE replicas ADD COLUMN probes   TEXT   NOT NULL DEFAULT '';

DELETE FROM providers WHERE id = 'static';
