-- +goose Up

ALTER TABLE monitors DROP CONSTRAINT monitors_format_check;
ALTER TABLE monitors ADD CONSTRAINT monitors_format_check
  CHECK (format = 'seed' OR format = 'batch' OR format = 'alertmanager' OR format = 'cloudevents' OR format = 'slack');
