-- +goose Up

-- What is not just running: so that those are found among many that are.
CREATE INDEX instances_amiss ON instances (id) WHERE state <> 'running' OR drift <> 0;
CREATE INDEX deployments_amiss ON deployments (id) WHERE state <> 'running' OR drift <> 0;
CREATE INDEX deployments_empty ON deployments (since) WHERE from_provider = 1 AND from_file = 0 AND state = 'unknown';
