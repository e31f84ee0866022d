package store

import (
	"context"
	"encoding/json"
	"slices"

	"windsock"
)

// PutDeployment declares a deployment, or declares it anew, and reports whether it is a
// new one. It returns ErrPrecondition when what is there does not meet c.
func (s *Store) PutDeployment(ctx context.Context, spec windsock.DeploymentSpec, c windsock.Cond) (d windsock.Deployment, created bool, err error) {
	if err := spec.Complete(); err != nil {
		return d, false, err
	}
	err = s.doPlanned(ctx, func(t *tx) error {
		old, exists, err := t.deployment(spec.ID)
		if err != nil {
			return err
		}
		if err := c.Check(exists, old); err != nil {
			return err
		}
		created = !exists
		if d, err = t.putDeployment(spec, old, exists); err == nil {
			t.keep(`deployments`, spec.ID)
		}
		return err
	})
	return d, created, err
}

func (t *tx) putDeployment(spec windsock.DeploymentSpec, old windsock.Deployment, exists bool) (windsock.Deployment, error) {
	w := t.work()
	if err := w.declareDeployment(spec, specOf(&old.DeploymentSpec, exists), false); err != nil {
		return windsock.Deployment{}, err
	}
	if !slices.Equal(spec.DependsOn, old.DependsOn) {
		if err := t.depend(spec.ID, spec.DependsOn, old.RunsOn); err != nil {
			return windsock.Deployment{}, err
		}
	}
	w.judgeAll()
	w.flush()
	return viewDeployment(t, spec.ID, ourID)
}

// specOf is what was declared before, if anything was.
func specOf[T any](old *T, exists bool) *T {
	if !exists {
		return nil
	}
	return old
}

// PatchDeployment has change alter what is declared of a deployment, and may call it
// again. The id stays.
func (s *Store) PatchDeployment(ctx context.Context, id string, c windsock.Cond, change func(*windsock.DeploymentSpec) error) (d windsock.Deployment, err error) {
	err = s.doPlanned(ctx, func(t *tx) error {
		old, err := viewDeployment(t, id, ourID, theirID)
		if err != nil {
			return err
		}
		if err := c.Check(true, old); err != nil {
			return err
		}
		spec := old.DeploymentSpec
		spec.Metadata = metadataOf(jsonText(spec.Metadata)) // the caller's own
		spec.Parameters = parametersOf(jsonText(spec.Parameters))
		if err := change(&spec); err != nil {
			return err
		}
		spec.ID = old.ID
		if err := spec.Complete(); err != nil {
			return err
		}
		d, err = t.putDeployment(spec, old, true)
		return err
	})
	return d, err
}

// DeleteDeployment takes a deployment and its instances out of the model.
func (s *Store) DeleteDeployment(ctx context.Context, id string, c windsock.Cond) error {
	return s.do(ctx, func(t *tx) error {
		old, err := viewDeployment(t, id, ourID, theirID)
		if err != nil {
			return err
		}
		if err := c.Check(true, old); err != nil {
			return err
		}
		t.removeDeployment(old.ID)
		return t.err
	})
}

// declareDeployment writes what is declared, if it is not what was. The caller judges
// and flushes.
func (w *working) declareDeployment(spec windsock.DeploymentSpec, old *windsock.DeploymentSpec, fromFile bool) error {
	members := spec.Members
	spec.Members = nil // they are instances
	if old != nil && jsonText(spec) == jsonText(*old) {
		if fromFile {
			w.exec(`UPDATE deployments SET from_file = 1 WHERE id = ? AND from_file = 0`, spec.ID)
		}
		return w.place(spec.ID, members)
	}
	w.exec(`INSERT INTO deployments (id, name, provider, provider_id, pool, expected, rule, quorum, flap, maintenance_until, depends_on, metadata, from_file, state, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET
			name = excluded.name, provider = excluded.provider, provider_id = excluded.provider_id, pool = excluded.pool,
			expected = excluded.expected, rule = excluded.rule, quorum = excluded.quorum, metadata = excluded.metadata,
			flap = excluded.flap, maintenance_until = excluded.maintenance_until, depends_on = excluded.depends_on,
			from_file = excluded.from_file | deployments.from_file, updated_at = excluded.updated_at`,
		spec.ID, spec.Name, spec.Provider, spec.ProviderID, spec.Pool, string(spec.Expected), string(spec.Rule), spec.Quorum, spec.Flap, micros(spec.MaintenanceUntil), dependsText(spec.DependsOn), jsonText(spec.Metadata),
		fromFile, string(windsock.Unknown), w.micros, w.micros)
	w.loadDeployments([]string{spec.ID})
	if w.err != nil {
		return w.err
	}
	d := w.deployments[spec.ID]
	d.Pool, d.Metadata = spec.Pool, jsonText(spec.Metadata) // it may have been loaded before
	d.Flap, d.MaintenanceUntil, d.DependsOn = spec.Flap, micros(spec.MaintenanceUntil), dependsText(spec.DependsOn)
	w.loadParents([]string{spec.ID})
	if old != nil && (!spec.MaintenanceUntil.Equal(old.MaintenanceUntil) || !slices.Equal(spec.DependsOn, old.DependsOn)) { // what was held may be told now, or later
		var held []string
		w.all(&held, `SELECT id FROM instances WHERE deployment_id = ? AND held = 1`, spec.ID)
		w.loadInstances(held)
	}
	w.log(d.event(windsock.DeploymentDeclared))
	if old != nil && spec.Quorum != old.Quorum { // it may be met now, or no longer
		var reported []string
		w.all(&reported, `SELECT DISTINCT i.id FROM instances i JOIN evidence e ON e.kind = 'instance' AND e.subject_id = i.id
			WHERE i.deployment_id = ? AND e.state = 'failed'`, spec.ID)
		w.loadInstances(reported)
	}
	if err := w.deploy(d, spec, old); err != nil {
		return err
	}
	return w.place(spec.ID, members)
}

func (t *tx) removeDeployment(id string) {
	w := t.work()
	w.loadDeployments([]string{id})
	var members []string
	w.all(&members, `SELECT id FROM instances WHERE deployment_id = ? ORDER BY id`, id)
	for chunk := range slices.Chunk(members, chunkSize) {
		w.loadInstances(chunk)
	}
	if t.err != nil {
		return
	}
	d := w.deployments[id]
	for _, m := range members {
		w.log(w.instances[m].event(windsock.InstanceRemoved))
	}
	w.log(d.event(windsock.DeploymentRemoved))
	t.exec(`DELETE FROM evidence WHERE kind = 'instance' AND subject_id IN (SELECT id FROM instances WHERE deployment_id = ?)`, id)
	t.exec(`DELETE FROM evidence WHERE kind = 'deployment' AND subject_id = ?`, id)
	t.exec(`DELETE FROM instances WHERE deployment_id = ?`, id)
	t.endSpans([]string{id})
	t.forsake(id)
	t.exec(`DELETE FROM deployments WHERE id = ?`, id)
	t.wake(members...)
}

// judgeAll judges every loaded instance anew and rolls up every loaded deployment.
func (w *working) judgeAll() {
	if w.err != nil {
		return // not all is loaded
	}
	for _, i := range sorted(w.instances) {
		w.judge(i, "", 0)
	}
	w.goOn()
	for _, d := range sorted(w.deployments) {
		w.roll(d)
	}
}

type deploymentView struct {
	deploymentRow
	Deployable string `db:"deployable"`
	Parameters string `db:"parameters"`
	Hidden     string `db:"hidden"`
	Name       string `db:"name"`
	UpdatedAt  int64  `db:"updated_at"`
	SeenAt     int64  `db:"seen_at"`
}

// deploymentStale also has the deployments of a provider that is lost.
const deploymentStale = `(v.stale <> 0 OR EXISTS (SELECT 1 FROM providers p WHERE p.id = v.provider AND p.lost <> 0))`

const deploymentViews = `SELECT id, provider, provider_id, pool, expected, rule, quorum, metadata, tally, flap, components, depends_on, runs_on,
	state, since, reason, sources, drift, ` + deploymentStale + ` AS stale, suspect, deadline_at, ` + heldColumns + `, name, created_at, updated_at,
	coalesce((SELECT max(received_at) FROM evidence e WHERE e.kind = 'deployment' AND e.subject_id = v.id), 0) AS seen_at,
	coalesce(m.deployable, '') AS deployable, coalesce(m.parameters, '') AS parameters, coalesce(m.hidden, '') AS hidden
	FROM deployments v LEFT JOIN deployed m ON m.deployment_id = v.id`

// The columns of a view by which it is looked up.
const (
	ourID   = `v.id`
	theirID = `v.provider_id`
)

func (v *deploymentView) deployment() windsock.Deployment {
	return windsock.Deployment{
		DeploymentSpec: windsock.DeploymentSpec{
			ID: v.ID, Name: v.Name, Provider: v.Provider, ProviderID: v.ProviderID, Pool: v.Pool,
			Expected: windsock.State(v.Expected), Rule: windsock.Rule(v.Rule), Quorum: v.Quorum, Metadata: metadataOf(v.Metadata),
			Flap: v.Flap, MaintenanceUntil: fromMicros(v.MaintenanceUntil), DependsOn: dependsOn(v.DependsOn),
			Deployable: v.Deployable, Parameters: shownParameters(v.Parameters, v.Hidden),
		},
		Observed:  v.observed(v.SeenAt, &v.heldRow),
		RunsOn:    dependsOn(v.RunsOn),
		Instances: byState(tallyOf(v.Tally)),
		CreatedAt: fromMicros(v.CreatedAt), UpdatedAt: fromMicros(v.UpdatedAt),
	}
}

func (r *observedRow) observed(seenAt int64, h *heldRow) windsock.Observed {
	o := windsock.Observed{
		State: windsock.State(r.State), Since: fromMicros(r.Since), SeenAt: fromMicros(seenAt), Reason: r.Reason,
		Sources: []string{}, Drift: r.Drift, Stale: r.Stale, Suspect: r.Suspect,
		Unstable: h.UnstableUntil > 0, Held: h.Held, HeldBy: h.HeldBy,
	}
	if err := json.Unmarshal([]byte(r.Sources), &o.Sources); err != nil {
		panic("store: sources " + r.Sources) // only ever written by us
	}
	return o
}

// Deployments returns what f selects, without evidence.
func (s *Store) Deployments(ctx context.Context, f windsock.Filter) ([]windsock.Deployment, error) {
	q := selecting(deploymentViews)
	q.where(`id > ?`, f.After)
	q.whereIf(f.State != "", `state = ?`, f.State)
	q.whereIf(f.Provider != "", `provider = ?`, f.Provider)
	q.whereIf(f.Pool != "", `pool = ?`, f.Pool)
	q.whereFlag(`drift <> 0`, f.Drift)
	q.whereFlag(deploymentStale, f.Stale)
	q.whereAmiss(&f)
	var rows []deploymentView
	if err := q.page(ctx, s.read, &rows, `id`, f.Limit); err != nil {
		return nil, err
	}
	list := make([]windsock.Deployment, len(rows))
	for i := range rows {
		list[i] = rows[i].deployment()
	}
	return list, nil
}

// byState counts members by their observed state alone.
func byState(t windsock.Tally) map[windsock.State]int {
	counts := make(map[windsock.State]int, len(t))
	for m, n := range t {
		counts[m.State] += n
	}
	return counts
}

// Deployment returns the deployment with this id, ours or its provider's, with the
// evidence about itself.
func (s *Store) Deployment(ctx context.Context, id string) (windsock.Deployment, error) {
	return viewDeployment(reader{ctx, s.read}, id, ourID, theirID)
}

func viewDeployment(r queryer, id string, columns ...string) (d windsock.Deployment, err error) {
	var rows []deploymentView
	if err := lookup(r, &rows, windsock.KindDeployment, deploymentViews, id, columns...); err != nil {
		return d, err
	}
	d = rows[0].deployment()
	d.Evidence, err = viewEvidence(r, windsock.KindDeployment, d.ID)
	return d, err
}

// deployment is the deployment with this id of ours as the transaction sees it, if there
// is one.
func (t *tx) deployment(id string) (d windsock.Deployment, exists bool, err error) {
	d, err = viewDeployment(t, id, ourID)
	exists, err = present(err)
	return d, exists, err
}
