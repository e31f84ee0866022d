package store

import (
	"context"
	"time"
)

// goneFor is how long what a provider showed stays in the model when it is gone, so that
// people who come to look find it. The log tells of it for longer.
const goneFor = 24 * time.Hour

// sweepGone takes some of what has been gone for long out of the model, and of the
// deployments that were only described and have had no members for as long. It reports
// whether there is more.
func (s *Store) sweepGone(ctx context.Context) (more bool, err error) {
	err = s.do(ctx, func(t *tx) error {
		const long = ` WHERE from_provider = 1 AND state = 'gone' AND since <= ?`
		before := micros(t.now.Add(-goneFor))
		var instances, deployments, emptied []string
		t.all(&instances, `SELECT id FROM instances`+long+` LIMIT ?`, before, pruneStep)
		for _, id := range instances {
			t.removeInstance(id)
		}
		t.all(&deployments, `SELECT id FROM deployments`+long+` AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.deployment_id = deployments.id) LIMIT ?`, before, pruneStep)
		t.all(&emptied, `SELECT id FROM deployments d WHERE from_provider = 1 AND from_file = 0 AND state = 'unknown' AND since <= ? AND updated_at <= ?
			AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.deployment_id = d.id)
			AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.kind = 'deployment' AND e.subject_id = d.id) LIMIT ?`, before, before, pruneStep)
		for _, id := range append(deployments, emptied...) {
			t.removeDeployment(id)
		}
		more = len(instances) == pruneStep || len(deployments) == pruneStep || len(emptied) == pruneStep
		return t.err
	})
	return more, err
}

// keep notes that an owner declared a subject, so that it stays when it is gone.
func (t *tx) keep(table, id string) {
	var swept bool
	t.get(&swept, `SELECT from_provider FROM `+table+` WHERE id = ?`, id)
	if swept {
		t.exec(`UPDATE `+table+` SET from_provider = 0 WHERE id = ?`, id)
	}
}
