package store

import (
	"context"
	"encoding/json"
	"fmt"

	"windsock"
)

// PutInstance declares an instance, or declares it anew, and reports whether it is a new
// one. Its deployment must have been declared before.
func (s *Store) PutInstance(ctx context.Context, spec windsock.InstanceSpec, c windsock.Cond) (i windsock.Instance, created bool, err error) {
	if err := spec.Complete(); err != nil {
		return i, false, err
	}
	err = s.do(ctx, func(t *tx) error {
		old, exists, err := t.instance(spec.ID)
		if err != nil {
			return err
		}
		if err := c.Check(exists, old); err != nil {
			return err
		}
		created = !exists
		if i, err = t.putInstance(spec, old, exists); err == nil {
			t.keep(`instances`, spec.ID)
		}
		return err
	})
	return i, created, err
}

// PatchInstance has change alter what is declared of an instance. The id stays.
func (s *Store) PatchInstance(ctx context.Context, id string, c windsock.Cond, change func(*windsock.InstanceSpec) error) (i windsock.Instance, err error) {
	err = s.do(ctx, func(t *tx) error {
		old, err := viewInstance(t, id, ourID, theirID)
		if err != nil {
			return err
		}
		if err := c.Check(true, old); err != nil {
			return err
		}
		spec := old.InstanceSpec
		spec.Metadata = metadataOf(jsonText(spec.Metadata)) // the caller's own, and so the probe
		spec.Probe = probeOf(jsonText(spec.Probe))
		if err := change(&spec); err != nil {
			return err
		}
		spec.ID = old.ID
		if err := spec.Complete(); err != nil {
			return err
		}
		i, err = t.putInstance(spec, old, true)
		return err
	})
	return i, err
}

// DeleteInstance takes an instance out of the model.
func (s *Store) DeleteInstance(ctx context.Context, id string, c windsock.Cond) error {
	return s.do(ctx, func(t *tx) error {
		old, err := viewInstance(t, id, ourID, theirID)
		if err != nil {
			return err
		}
		if err := c.Check(true, old); err != nil {
			return err
		}
		t.removeInstance(old.ID)
		return t.err
	})
}

// declareInstance writes what is declared, if it is not what was. The caller judges and
// flushes.
func (w *working) declareInstance(spec windsock.InstanceSpec, old *windsock.InstanceSpec, fromFile bool) error {
	if old != nil && jsonText(spec) == jsonText(*old) {
		if fromFile {
			w.exec(`UPDATE instances SET from_file = 1 WHERE id = ? AND from_file = 0`, spec.ID)
		}
		return w.err
	}
	w.loadDeployments([]string{spec.DeploymentID})
	if old != nil {
		w.loadInstances([]string{spec.ID})
	}
	if w.err != nil {
		return w.err
	}
	d, i := w.deployments[spec.DeploymentID], w.instances[spec.ID]
	if d == nil {
		return windsock.Invalid("deployment_id", "there is no deployment %q", spec.DeploymentID)
	}
	w.exec(`INSERT INTO instances (id, deployment_id, name, assembly, provider_id, address, expected, maintenance_until, metadata, host, probe, from_file, counts_as, state, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET
			deployment_id = excluded.deployment_id, name = excluded.name, assembly = excluded.assembly, provider_id = excluded.provider_id,
			address = excluded.address, expected = excluded.expected, metadata = excluded.metadata, host = excluded.host, probe = excluded.probe,
			maintenance_until = excluded.maintenance_until,
			from_file = excluded.from_file | instances.from_file, updated_at = excluded.updated_at`,
		spec.ID, spec.DeploymentID, spec.Name, spec.Assembly, spec.ProviderID, spec.Address, string(spec.Expected), micros(spec.MaintenanceUntil), jsonText(spec.Metadata), spec.Metadata[windsock.HostKey], jsonText(spec.Probe),
		fromFile, string(spec.Expected), string(windsock.Unknown), w.micros, w.micros)
	switch {
	case i == nil:
		i = &instance{instanceRow: instanceRow{
			ID: spec.ID, DeploymentID: spec.DeploymentID, ProviderID: spec.ProviderID, Expected: string(spec.Expected), CountsAs: string(spec.Expected),
			observedRow: observedRow{State: string(windsock.Unknown), Sources: "[]"},
		}}
		w.instances[i.ID] = i
		w.instancesOf[i.ProviderID] = append(w.instancesOf[i.ProviderID], i)
		w.join(i, d)
		d.count(i.as(), +1)
	case i.of != d: // it moved
		w.rebind(i.of)
		i.of.count(i.as(), -1)
		w.join(i, d)
		d.count(i.as(), +1)
	}
	if old == nil || old.Assembly != spec.Assembly || old.DeploymentID != spec.DeploymentID {
		w.rebind(d)
	}
	i.Expected, i.DeploymentID, i.ProviderID, i.MaintenanceUntil = string(spec.Expected), spec.DeploymentID, spec.ProviderID, micros(spec.MaintenanceUntil)
	if old != nil && old.Probe != nil && spec.Probe == nil {
		w.forget(windsock.KindInstance, i.ID, &i.body, probeSource)
	}
	w.log(i.event(windsock.InstanceDeclared))
	return w.err
}

func (t *tx) putInstance(spec windsock.InstanceSpec, old windsock.Instance, exists bool) (i windsock.Instance, err error) {
	w := t.work()
	if err := w.declareInstance(spec, specOf(&old.InstanceSpec, exists), false); err != nil {
		return i, err
	}
	w.judgeAll()
	w.flush()
	return viewInstance(t, spec.ID, ourID)
}

// probeSource is the source of what an instance's probe says.
const probeSource = "probe"

func (t *tx) removeInstance(id string) {
	w := t.work()
	w.loadInstances([]string{id})
	i := w.instances[id]
	if i == nil {
		return
	}
	w.log(i.event(windsock.InstanceRemoved))
	i.of.count(i.as(), -1)
	i.CountsAs = "" // so that it is nobody's failing member any more
	t.exec(`DELETE FROM evidence WHERE kind = 'instance' AND subject_id = ?`, id)
	t.exec(`DELETE FROM instances WHERE id = ?`, id)
	w.rebind(i.of)
	if i.of.phases != nil {
		put(&w.turned, id, true)
	}
	w.wake(id)
	for _, d := range append(w.goOn(), i.of) {
		w.roll(d)
	}
	w.flush()
}

// ClearEvidence forgets what a source said of a subject: the operator's way back from a
// failure whose reporter is gone.
func (s *Store) ClearEvidence(ctx context.Context, subject windsock.Subject, source string) error {
	return s.do(ctx, func(t *tx) error {
		w := t.work()
		w.loadSubjects([]*op{{obs: []windsock.Observation{{Subject: subject}}}})
		if t.err != nil {
			return t.err
		}
		var b *body
		var id string
		if subject.Kind == windsock.KindInstance {
			i, err := w.findInstance("", subject.ID)
			if err != nil {
				return err
			}
			b, id = &i.body, i.ID
		} else {
			d, err := w.findDeployment("", subject.ID)
			if err != nil {
				return err
			}
			b, id = &d.body, d.ID
		}
		if !w.forget(subject.Kind, id, b, source) {
			return fmt.Errorf("evidence of %q about %s %q: %w", source, subject.Kind, subject.ID, windsock.ErrNotFound)
		}
		w.judgeAll()
		w.flush()
		return t.err
	})
}

// forget removes the evidence of a source, and reports whether there was any.
func (w *working) forget(kind windsock.Kind, id string, b *body, source string) bool {
	for at := range b.evidence {
		if b.evidence[at].Source == source {
			b.evidence = append(b.evidence[:at:at], b.evidence[at+1:]...)
			b.touched = append(b.touched[:at:at], b.touched[at+1:]...)
			w.exec(`DELETE FROM evidence WHERE kind = ? AND subject_id = ? AND source = ?`, kind, id, source)
			return true
		}
	}
	return false
}

type instanceView struct {
	instanceRow
	Name      string `db:"name"`
	Assembly  string `db:"assembly"`
	Address   string `db:"address"`
	Metadata  string `db:"metadata"`
	Probe     string `db:"probe"`
	Provider  string `db:"provider"`
	Pool      string `db:"pool"`
	CreatedAt int64  `db:"created_at"`
	UpdatedAt int64  `db:"updated_at"`
	SeenAt    int64  `db:"seen_at"`
}

// instanceStale also has the instances of a provider that is lost, so that to lose it
// writes no row for each.
const instanceStale = `(v.stale <> 0 OR EXISTS (SELECT 1 FROM providers p WHERE p.id = d.provider AND p.lost <> 0))`

const instanceViews = `SELECT v.id, v.deployment_id, v.provider_id, v.expected, v.counts_as,
	v.state, v.since, v.reason, v.sources, v.drift, ` + instanceStale + ` AS stale, v.suspect, v.deadline_at, v.maintenance_until, v.edges, v.unstable_until, v.held, v.held_by, v.held_trace, v.told,
	v.name, v.assembly, v.address, v.metadata, v.probe, v.created_at, v.updated_at, d.provider, d.pool,
	coalesce((SELECT max(received_at) FROM evidence e WHERE e.kind = 'instance' AND e.subject_id = v.id), 0) AS seen_at
	FROM instances v JOIN deployments d ON d.id = v.deployment_id`

func (v *instanceView) instance() windsock.Instance {
	return windsock.Instance{
		InstanceSpec: windsock.InstanceSpec{
			ID: v.ID, DeploymentID: v.DeploymentID, Name: v.Name, Assembly: v.Assembly, ProviderID: v.ProviderID, Address: v.Address,
			Expected: windsock.State(v.Expected), Metadata: metadataOf(v.Metadata), Probe: probeOf(v.Probe),
			MaintenanceUntil: fromMicros(v.MaintenanceUntil),
		},
		Observed: v.observed(v.SeenAt, &v.heldRow),
		Provider: v.Provider, Pool: v.Pool, CreatedAt: fromMicros(v.CreatedAt), UpdatedAt: fromMicros(v.UpdatedAt),
	}
}

func probeOf(column string) *windsock.Probe {
	if column == "" {
		return nil
	}
	p := new(windsock.Probe)
	if err := json.Unmarshal([]byte(column), p); err != nil {
		panic(fmt.Sprintf("store: probe %q: %v", column, err)) // only ever written by us
	}
	return p
}

// Instances returns what f selects, without evidence.
func (s *Store) Instances(ctx context.Context, f windsock.Filter) ([]windsock.Instance, error) {
	q := selecting(instanceViews)
	q.where(`v.id > ?`, f.After)
	q.whereIf(f.State != "", `v.state = ?`, f.State)
	q.whereIf(f.Deployment != "", `v.deployment_id = ?`, f.Deployment)
	q.whereIf(f.Provider != "", `d.provider = ?`, f.Provider)
	q.whereIf(f.Pool != "", `d.pool = ?`, f.Pool)
	q.whereIf(f.Assembly != "", `v.assembly = ?`, f.Assembly)
	q.whereFlag(`v.drift <> 0`, f.Drift)
	q.whereFlag(instanceStale, f.Stale)
	q.whereAmiss(&f)
	var rows []instanceView
	if err := q.page(ctx, s.read, &rows, `v.id`, f.Limit); err != nil {
		return nil, err
	}
	list := make([]windsock.Instance, len(rows))
	for i := range rows {
		list[i] = rows[i].instance()
	}
	return list, nil
}

// Instance returns the instance with this id, ours or its provider's, with its evidence.
func (s *Store) Instance(ctx context.Context, id string) (windsock.Instance, error) {
	return viewInstance(reader{ctx, s.read}, id, ourID, theirID)
}

func viewInstance(r queryer, id string, columns ...string) (i windsock.Instance, err error) {
	var rows []instanceView
	if err := lookup(r, &rows, windsock.KindInstance, instanceViews, id, columns...); err != nil {
		return i, err
	}
	i = rows[0].instance()
	i.Evidence, err = viewEvidence(r, windsock.KindInstance, i.ID)
	return i, err
}

// instance is the instance with this id of ours as the transaction sees it, if there is
// one.
func (t *tx) instance(id string) (i windsock.Instance, exists bool, err error) {
	i, err = viewInstance(t, id, ourID)
	exists, err = present(err)
	return i, exists, err
}
