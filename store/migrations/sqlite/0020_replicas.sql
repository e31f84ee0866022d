-- +goose Up

-- The processes that have this database open.
CREATE TABLE replicas (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
  name       TEXT    NOT NULL,
  roles      TEXT    NOT NULL, -- as JSON
  address    TEXT    NOT NULL, -- that it answers on; '': not yet
  started_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL
) STRICT;

-- Who does what only one may do at a time.
CREATE TABLE leases (
  name       TEXT    PRIMARY KEY,
  holder     INTEGER NOT NULL, -- id of a replica; 0: nobody
  fence      INTEGER NOT NULL, -- counts the holders
  since      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL  -- unless it is renewed, which moves this
) STRICT, WITHOUT ROWID;

-- What one process asks another.
CREATE TABLE questions (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  name      TEXT    NOT NULL,           -- of the lease whose holder is asked
  body      TEXT    NOT NULL,
  until     INTEGER NOT NULL,           -- that long somebody waits for the answer
  taken     INTEGER NOT NULL DEFAULT 0, -- fence of the holder that works on it
  answer    TEXT    NOT NULL DEFAULT '' -- '': none yet
) STRICT;
