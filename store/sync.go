package store

import (
	"context"

	"windsock"
)

// Declare makes what the configuration file declares so, in one transaction: what it
// declared before and does no longer is taken out of the model. Everything is kept as
// it was when one of them cannot be.
func (s *Store) Declare(ctx context.Context, deployments []windsock.DeploymentSpec, instances []windsock.InstanceSpec) error {
	return s.do(ctx, func(t *tx) error {
		kept := map[windsock.Subject]bool{}
		for _, spec := range deployments {
			if err := spec.Complete(); err != nil {
				return err
			}
			kept[windsock.Subject{Kind: windsock.KindDeployment, ID: spec.ID}] = true
			old, exists, err := t.deployment(spec.ID)
			if err != nil {
				return err
			}
			t.declareDeployment(spec, old.DeploymentSpec, exists, true)
		}
		for _, spec := range instances {
			if err := spec.Complete(); err != nil {
				return err
			}
			kept[windsock.Subject{Kind: windsock.KindInstance, ID: spec.ID}] = true
			old, exists, err := t.instance(spec.ID)
			if err != nil {
				return err
			}
			if err := t.declareInstance(spec, old.InstanceSpec, exists, true); err != nil {
				return err
			}
		}
		var ids []string
		t.all(&ids, `SELECT id FROM instances WHERE from_file <> 0`)
		for _, id := range ids {
			if !kept[windsock.Subject{Kind: windsock.KindInstance, ID: id}] {
				t.removeInstance(id)
			}
		}
		ids = nil
		t.all(&ids, `SELECT id FROM deployments WHERE from_file <> 0`)
		for _, id := range ids {
			if !kept[windsock.Subject{Kind: windsock.KindDeployment, ID: id}] {
				t.removeDeployment(id)
			}
		}
		return t.err
	})
}
