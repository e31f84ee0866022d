-- +goose Up

ALTER TABLE deployments ADD COLUMN held_trace TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN held_trace TEXT NOT NULL DEFAULT '';
