-- +goose Up

-- Tokens of callers.
CREATE TABLE tokens (
  id           TEXT    PRIMARY KEY,
  name         TEXT    NOT NULL UNIQUE,
  hash         BLOB    NOT NULL UNIQUE, -- SHA-256
  role         TEXT    NOT NULL CHECK (role = 'read' OR role = 'report' OR role = 'admin'),
  scope        TEXT    NOT NULL,
  monitor_id   TEXT    NOT NULL, -- '': it is no monitor's
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL, -- 0: never
  last_used_at INTEGER NOT NULL  -- 0: never
) STRICT, WITHOUT ROWID;

-- What callers who had to say who they are did over HTTP, but for what they reported.
CREATE TABLE acts (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  name    TEXT    NOT NULL,
  method  TEXT    NOT NULL,
  route   TEXT    NOT NULL,
  subject TEXT    NOT NULL,
  status  INTEGER NOT NULL, -- 200: it was done
  address TEXT    NOT NULL
) STRICT;
