package store

import (
	"slices"
	"time"

	"windsock"
)

// A deployment is a row of its table, with what its state follows from.
type deployment struct {
	deploymentRow
	body                            // evidence about the deployment itself
	members []*instance             // those of its members that are loaded
	tally   windsock.Tally          // of all its members
	phases  windsock.ComponentTally // of its components; nil: it has no deployable
	cause   string                  // the source that just spoke about the deployment itself, if one did
	looks   time.Duration           // that whoever just spoke of it or its members takes for three looks
	left    bool                    // the state that the database has
}

// An instance is a row of its table, with its evidence.
type instance struct {
	instanceRow
	body
	of *deployment
}

// body is what deployments and instances have in common while they are worked on.
type body struct {
	evidence []windsock.Evidence
	touched  []bool // which evidence must be written
	changed  bool   // the observed part of the row must be written
}

type observedRow struct {
	State      string `db:"state"`
	Since      int64  `db:"since"`
	Reason     string `db:"reason"`
	Sources    string `db:"sources"`
	Drift      bool   `db:"drift"`
	Stale      bool   `db:"stale"`
	Suspect    bool   `db:"suspect"`
	DeadlineAt int64  `db:"deadline_at"`
}

type deploymentRow struct {
	ID         string `db:"id"`
	Provider   string `db:"provider"`
	ProviderID string `db:"provider_id"`
	Pool       string `db:"pool"`
	Expected   string `db:"expected"`
	Rule       string `db:"rule"`
	Quorum     int    `db:"quorum"`
	Metadata   string `db:"metadata"`
	Tally      string `db:"tally"`
	Flap       string `db:"flap"`
	Components string `db:"components"`
	DependsOn  string `db:"depends_on"` // as its owner declares
	RunsOn     string `db:"runs_on"`    // as its provider shows
	CreatedAt  int64  `db:"created_at"`
	Depended   bool   `db:"depended"` // others depend on it
	observedRow
	heldRow
}

type instanceRow struct {
	ID           string `db:"id"`
	DeploymentID string `db:"deployment_id"`
	ProviderID   string `db:"provider_id"`
	Expected     string `db:"expected"`
	CountsAs     string `db:"counts_as"`
	observedRow
	heldRow
}

// fields are those of deploymentColumns.
func (r *deploymentRow) fields() []any {
	return append([]any{
		&r.ID, &r.Provider, &r.ProviderID, &r.Pool, &r.Expected, &r.Rule, &r.Quorum, &r.Metadata, &r.Tally, &r.Flap, &r.Components, &r.DependsOn, &r.RunsOn, &r.CreatedAt, &r.Depended,
		&r.State, &r.Since, &r.Reason, &r.Sources, &r.Drift, &r.Stale, &r.Suspect, &r.DeadlineAt,
	}, r.heldRow.fields()...)
}

// fields are those of instanceColumns.
func (r *instanceRow) fields() []any {
	return append([]any{
		&r.ID, &r.DeploymentID, &r.ProviderID, &r.Expected, &r.CountsAs,
		&r.State, &r.Since, &r.Reason, &r.Sources, &r.Drift, &r.Stale, &r.Suspect, &r.DeadlineAt,
	}, r.heldRow.fields()...)
}

type evidenceRow struct {
	SubjectID  string `db:"subject_id"`
	Source     string `db:"source"`
	Origin     string `db:"origin"`
	State      string `db:"state"`
	Since      int64  `db:"since"`
	ObservedAt int64  `db:"observed_at"`
	ReceivedAt int64  `db:"received_at"`
	ExpiresAt  int64  `db:"expires_at"`
	Reason     string `db:"reason"`
	Raw        string `db:"raw"`
	Requested  bool   `db:"requested"`
	Pending    string `db:"pending"`
	Samples    int    `db:"samples"`
	BlindSince int64  `db:"blind_since"`
	BlindFor   string `db:"blind_for"`
	StaleAt    int64  `db:"stale_at"`
}

// fields are the subject's id and those of evidenceColumns.
func (r *evidenceRow) fields() []any {
	return []any{
		&r.SubjectID, &r.Source, &r.Origin, &r.State, &r.Since, &r.ObservedAt, &r.ReceivedAt, &r.ExpiresAt, &r.Reason, &r.Raw,
		&r.Requested, &r.Pending, &r.Samples, &r.BlindSince, &r.BlindFor, &r.StaleAt,
	}
}

func (r *evidenceRow) evidence() windsock.Evidence {
	return windsock.Evidence{
		Source: r.Source, Origin: windsock.Origin(r.Origin), State: windsock.State(r.State),
		Since: fromMicros(r.Since), ObservedAt: fromMicros(r.ObservedAt), ReceivedAt: fromMicros(r.ReceivedAt),
		ExpiresAt: fromMicros(r.ExpiresAt), Reason: r.Reason, Raw: r.Raw, Requested: r.Requested,
		Pending: windsock.State(r.Pending), Samples: r.Samples,
		BlindSince: fromMicros(r.BlindSince), BlindFor: r.BlindFor, StaleAt: fromMicros(r.StaleAt),
	}
}

// A working holds what a transaction works on: each deployment and instance once, read
// in sets, and written back by flush.
type working struct {
	*tx
	deployments   map[string]*deployment
	instances     map[string]*instance
	deploymentsOf map[string][]*deployment // by their provider's id
	instancesOf   map[string][]*instance
	components    map[int64]*component       // written back at once
	parents       map[string]windsock.Parent // as they were read
	upstream      []string                   // deployments on which others depend, with another state now

	by    string         // who reports what is worked on, if he had to say who he is
	scope windsock.Scope // on what he may
	conduct
}

func (t *tx) work() *working {
	return &working{
		tx: t, deployments: map[string]*deployment{}, instances: map[string]*instance{},
		deploymentsOf: map[string][]*deployment{}, instancesOf: map[string][]*instance{},
		components: map[int64]*component{}, parents: map[string]windsock.Parent{},
	}
}

const deploymentColumns = `id, provider, provider_id, pool, expected, rule, quorum, metadata, tally, flap, components, depends_on, runs_on, created_at, ` + depended + `,
	state, since, reason, sources, drift, stale, suspect, deadline_at, ` + heldColumns

const instanceColumns = `id, deployment_id, provider_id, expected, counts_as,
	state, since, reason, sources, drift, stale, suspect, deadline_at, ` + heldColumns

// loadInstances reads the instances with these ids, and their deployments.
func (w *working) loadInstances(ids []string) {
	w.addInstances(missing(ids, w.instances), `id`)
}

// addInstances reads the instances whose column is among values.
func (w *working) addInstances(values []string, column string) {
	if len(values) == 0 {
		return
	}
	var of, fresh []string
	var row instanceRow
	fields := row.fields()
	w.rows(func(read func(...any) error) error {
		err := read(fields...)
		if err == nil && w.instances[row.ID] == nil {
			i := &instance{instanceRow: row}
			fresh = append(fresh, i.ID)
			of = append(of, i.DeploymentID)
			w.instances[i.ID] = i
			w.instancesOf[i.ProviderID] = append(w.instancesOf[i.ProviderID], i)
		}
		return err
	}, `SELECT `+instanceColumns+` FROM instances WHERE `+inSet(column)+` AND `+column+` <> ''`, set(values))
	w.loadDeployments(of)
	if w.err != nil {
		return
	}
	for _, id := range fresh {
		i := w.instances[id]
		w.join(i, w.deployments[i.DeploymentID])
	}
	w.loadEvidence(windsock.KindInstance, fresh, func(id string) *body { return &w.instances[id].body })
}

// join makes i a member of d, for this transaction.
func (w *working) join(i *instance, d *deployment) {
	i.of = d
	d.members = append(d.members, i)
}

// loadDeployments reads the deployments with these ids.
func (w *working) loadDeployments(ids []string) {
	w.addDeployments(missing(ids, w.deployments), `id`)
}

// addDeployments reads the deployments whose column is among values.
func (w *working) addDeployments(values []string, column string) {
	if len(values) == 0 {
		return
	}
	var fresh []string
	var row deploymentRow
	fields := row.fields()
	w.rows(func(read func(...any) error) error {
		err := read(fields...)
		if err == nil && w.deployments[row.ID] == nil {
			d := &deployment{deploymentRow: row, tally: tallyOf(row.Tally), phases: phasesOf(row.Components)}
			fresh = append(fresh, d.ID)
			w.deployments[d.ID] = d
			w.deploymentsOf[d.ProviderID] = append(w.deploymentsOf[d.ProviderID], d)
		}
		return err
	}, `SELECT `+deploymentColumns+` FROM deployments WHERE `+inSet(column)+` AND `+column+` <> ''`, set(values))
	w.loadEvidence(windsock.KindDeployment, fresh, func(id string) *body { return &w.deployments[id].body })
	w.loadParents(fresh)
}

func (w *working) loadEvidence(kind windsock.Kind, ids []string, of func(id string) *body) {
	if len(ids) == 0 {
		return
	}
	var row evidenceRow
	fields := row.fields()
	w.rows(func(read func(...any) error) error {
		err := read(fields...)
		if err == nil {
			b := of(row.SubjectID)
			b.evidence = append(b.evidence, row.evidence())
			b.touched = append(b.touched, false)
		}
		return err
	}, `SELECT subject_id, `+evidenceColumns+` FROM evidence
		WHERE kind = ? AND `+inSet(`subject_id`)+` ORDER BY subject_id, source`, string(kind), set(ids))
}

const evidenceColumns = `source, origin, state, since, observed_at, received_at, expires_at, reason, raw, requested,
	pending, samples, blind_since, blind_for, stale_at`

// missing returns the ids that are not loaded, each once.
func missing[T any](ids []string, loaded map[string]*T) []string {
	return unique(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return loaded[id] != nil }))
}

func unique(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}
