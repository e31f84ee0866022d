-- +goose Up

-- Of signal tokens, in base64, where there is no file beside the database: on PostgreSQL.
ALTER TABLE log ADD COLUMN signal_key TEXT NOT NULL DEFAULT '';
