package store

import (
	"context"

	"windsock"
)

// describe declares what a provider shows, if that is new or another than before. It
// returns the deployments whose members are others now.
func (w *working) describe(obs *windsock.Observation) ([]*deployment, error) {
	as := *obs.As
	as.Fit()
	if obs.Subject.Kind == windsock.KindDeployment {
		return w.describeDeployment(obs, as)
	}
	return w.describeInstance(obs, as)
}

func (w *working) describeDeployment(obs *windsock.Observation, as windsock.Description) ([]*deployment, error) {
	spec := windsock.DeploymentSpec{ID: w.idFor(obs), Provider: obs.Provider, ProviderID: obs.Subject.ID}
	var old *windsock.DeploymentSpec
	if d, err := w.deploymentOf(obs.Provider, obs.Subject.ID); err == nil {
		view, err := viewDeployment(w, d.ID, ourID)
		if err != nil {
			return nil, err
		}
		old, spec = &view.DeploymentSpec, view.DeploymentSpec
	}
	spec.Name, spec.Pool, spec.Metadata = as.Name, as.Pool, as.Metadata
	if err := spec.Complete(); err != nil {
		return nil, err
	}
	if err := w.declareDeployment(spec, old, false); err != nil {
		return nil, err
	}
	if old == nil {
		w.exec(`UPDATE deployments SET from_provider = 1 WHERE id = ?`, spec.ID)
	}
	if as.RunsOn == nil || w.err != nil {
		return nil, w.err
	}
	return nil, w.runOn(obs.Provider, w.deployments[spec.ID], as.RunsOn)
}

func (w *working) describeInstance(obs *windsock.Observation, as windsock.Description) ([]*deployment, error) {
	d, err := w.deploymentOf(obs.Provider, as.Deployment)
	if err != nil {
		return nil, err
	}
	spec := windsock.InstanceSpec{ID: w.idFor(obs), ProviderID: obs.Subject.ID}
	concerned := []*deployment{d}
	var old *windsock.InstanceSpec
	if i, err := w.instanceOf(obs.Provider, obs.Subject.ID); err == nil {
		view, err := viewInstance(w, i.ID, ourID)
		if err != nil {
			return nil, err
		}
		old, spec = &view.InstanceSpec, view.InstanceSpec
		concerned = append(concerned, i.of)
	}
	spec.DeploymentID, spec.Name, spec.Assembly, spec.Address, spec.Metadata = d.ID, as.Name, as.Assembly, as.Address, as.Metadata
	if err := spec.Complete(); err != nil {
		return nil, err
	}
	if err := w.declareInstance(spec, old, false); err != nil {
		return nil, err
	}
	if old == nil {
		w.exec(`UPDATE instances SET from_provider = 1 WHERE id = ?`, spec.ID)
	}
	return concerned, w.err
}

// idFor returns the id that what a provider shows gets from us: the provider's own,
// unless something else has that already.
func (w *working) idFor(obs *windsock.Observation) string {
	id := obs.Subject.ID
	if w.instances[id] != nil && obs.Subject.Kind == windsock.KindInstance || w.deployments[id] != nil && obs.Subject.Kind == windsock.KindDeployment {
		return obs.Provider + "." + id
	}
	return id
}

// deploymentOf returns the loaded deployment that has this id with a provider; with any,
// if none is given.
func (w *working) deploymentOf(provider, id string) (*deployment, error) {
	var found []*deployment
	for _, d := range w.deploymentsOf[id] {
		if provider == "" || d.Provider == provider {
			found = append(found, d)
		}
	}
	return only(windsock.KindDeployment, id, found)
}

// instanceOf is the same for instances.
func (w *working) instanceOf(provider, id string) (*instance, error) {
	var found []*instance
	for _, i := range w.instancesOf[id] {
		if provider == "" || i.of.Provider == provider {
			found = append(found, i)
		}
	}
	return only(windsock.KindInstance, id, found)
}

// Known lists up to limit subjects of a kind that a provider showed and that are not gone,
// by the provider's ids, after that one.
func (s *Store) Known(ctx context.Context, provider string, kind windsock.Kind, after string, limit int) (ids []string, err error) {
	table := `deployments`
	if kind == windsock.KindInstance {
		table = `instances`
	}
	// CROSS has SQLite go by the provider's ids, and not through the evidence of all for each page.
	q := selecting(`SELECT v.provider_id FROM ` + table + ` v CROSS JOIN evidence e`)
	q.where(`e.kind = ? AND e.subject_id = v.id`, string(kind))
	q.where(`e.source = ? AND e.state <> 'gone' AND v.provider_id > ? AND v.provider_id <> ''`, windsock.ProviderSource(provider), after)
	return ids, q.page(ctx, s.read, &ids, `v.provider_id`, limit)
}
