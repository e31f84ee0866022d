-- +goose Up

-- What it hears of a subject of which several events wait, and up to which seq that is
-- the newest alone whatever it wants.
ALTER TABLE monitors ADD COLUMN backlog TEXT NOT NULL DEFAULT 'every' CHECK (backlog = 'every' OR backlog = 'latest');
ALTER TABLE monitors ADD COLUMN latest_to INTEGER NOT NULL DEFAULT 0;

-- What it is told again, the cursor having been moved back, as JSON; '' for nothing.
ALTER TABLE monitors ADD COLUMN replay TEXT NOT NULL DEFAULT '';
