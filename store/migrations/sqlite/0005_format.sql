-- +goose Up

-- How a monitor is told: each event by a callback of its own, or many by one.
ALTER TABLE monitors ADD COLUMN format TEXT NOT NULL DEFAULT 'seed' CHECK (format = 'seed' OR format = 'batch');
