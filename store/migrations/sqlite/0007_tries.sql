-- +goose Up

-- Requests to monitors: those that failed, and some of the others.
CREATE TABLE tries (
  id            INTEGER PRIMARY KEY,
  monitor_id    TEXT    NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  taken         INTEGER NOT NULL CHECK (taken = 0 OR taken = 1),
  result        TEXT    NOT NULL CHECK (result = 'taken' OR result = 'refused' OR result = 'away' OR result = 'gone'),
  at            INTEGER NOT NULL,
  seq           INTEGER NOT NULL, -- of the first event in it,
  last_seq      INTEGER NOT NULL, -- and of the last
  events        INTEGER NOT NULL,
  kind          TEXT    NOT NULL,
  subject_id    TEXT    NOT NULL,
  deployment_id TEXT    NOT NULL,
  data          TEXT    NOT NULL
) STRICT;
CREATE INDEX tries_by_monitor ON tries (monitor_id, taken, id);

ALTER TABLE monitors ADD COLUMN omitted INTEGER NOT NULL DEFAULT 0;    -- tries that are not kept
ALTER TABLE monitors ADD COLUMN wished_seq INTEGER NOT NULL DEFAULT 0; -- up to here others of its wishes held

-- Parts of the log that a monitor was moved past, and why: what waited there it does not
-- hear. That is all between two events, but for what it heard ahead of the cursor; or, of a
-- lane, what is about one subject.
CREATE TABLE passed (
  monitor_id TEXT    NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  first_seq  INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL,
  kind       TEXT    NOT NULL,
  subject_id TEXT    NOT NULL,
  ahead      TEXT    NOT NULL, -- as in monitors
  why        TEXT    NOT NULL CHECK (why = 'registered' OR why = 'skipped' OR why = 'lost')
) STRICT;
CREATE INDEX passed_by_monitor ON passed (monitor_id, last_seq);

-- What is known of the monitors that there are.
INSERT INTO passed (monitor_id, first_seq, last_seq, kind, subject_id, ahead, why)
  SELECT m.id, 1, e.seq, '', '', '', 'registered' FROM events e JOIN monitors m ON m.id = e.subject_id
  WHERE e.type = 'monitor.added' AND e.at = m.created_at;
UPDATE monitors SET wished_seq = (SELECT head FROM log) WHERE updated_at <> created_at;
