-- +goose Up

-- What a CHECK allows cannot be changed, so the column is another one.
ALTER TABLE monitors ADD COLUMN told TEXT NOT NULL DEFAULT 'seed'
  CHECK (told = 'seed' OR told = 'batch' OR told = 'alertmanager' OR told = 'cloudevents' OR told = 'slack');
UPDATE monitors SET told = format;
ALTER TABLE monitors DROP COLUMN format;
ALTER TABLE monitors RENAME COLUMN told TO format;
