package store

import (
	"context"
	"slices"

	"windsock"
)

// Declare makes what the configuration file declares so, in one transaction: what it
// declared before and does no longer is taken out of the model. Everything is kept as
// it was when one of them cannot be.
func (s *Store) Declare(ctx context.Context, deployments []windsock.DeploymentSpec, instances []windsock.InstanceSpec) error {
	for i := range deployments {
		if err := deployments[i].Complete(); err != nil {
			return err
		}
	}
	for i := range instances {
		if err := instances[i].Complete(); err != nil {
			return err
		}
	}
	return s.do(ctx, func(t *tx) error {
		for part := range slices.Chunk(deployments, chunkSize) {
			if err := t.declareDeployments(part); err != nil {
				return err
			}
		}
		for part := range slices.Chunk(instances, chunkSize) {
			if err := t.declareInstances(part); err != nil {
				return err
			}
		}
		for _, id := range noLonger(t, `instances`, instances, func(s *windsock.InstanceSpec) string { return s.ID }) {
			t.removeInstance(id)
		}
		for _, id := range noLonger(t, `deployments`, deployments, func(s *windsock.DeploymentSpec) string { return s.ID }) {
			t.removeDeployment(id)
		}
		for part := range slices.Chunk(deployments, chunkSize) { // they may be declared in any order
			if err := t.dependAll(part); err != nil {
				return err
			}
		}
		return t.err
	})
}

func (t *tx) declareDeployments(specs []windsock.DeploymentSpec) error {
	ids := make([]string, len(specs))
	for i := range specs {
		ids[i] = specs[i].ID
	}
	var rows []deploymentView
	t.all(&rows, deploymentViews+` WHERE `+inSet(ourID), set(ids))
	old := make(map[string]*windsock.DeploymentSpec, len(rows))
	for i := range rows {
		d := rows[i].deployment()
		old[d.ID] = &d.DeploymentSpec
	}
	w := t.work()
	for _, spec := range specs {
		if err := w.declareDeployment(spec, old[spec.ID], true); err != nil {
			return err
		}
	}
	w.judgeAll()
	w.flush()
	return t.err
}

func (t *tx) declareInstances(specs []windsock.InstanceSpec) error {
	ids := make([]string, len(specs))
	for i := range specs {
		ids[i] = specs[i].ID
	}
	var rows []instanceView
	t.all(&rows, instanceViews+` WHERE `+inSet(ourID), set(ids))
	old := make(map[string]*windsock.InstanceSpec, len(rows))
	for i := range rows {
		v := rows[i].instance()
		old[v.ID] = &v.InstanceSpec
	}
	w := t.work()
	for _, spec := range specs {
		if err := w.declareInstance(spec, old[spec.ID], true); err != nil {
			return err
		}
	}
	w.judgeAll()
	w.flush()
	return t.err
}

// noLonger returns the ids that the file declared before and that are not among specs.
func noLonger[T any](t *tx, table string, specs []T, id func(*T) string) []string {
	var ids []string
	t.all(&ids, `SELECT id FROM `+table+` WHERE from_file <> 0 ORDER BY id`)
	kept := make(map[string]bool, len(specs))
	for i := range specs {
		kept[id(&specs[i])] = true
	}
	return slices.DeleteFunc(ids, func(id string) bool { return kept[id] })
}
