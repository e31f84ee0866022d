package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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

// left has e tell what state is over, and of a failure since when it was.
func (r *observedRow) left(e *windsock.Event) {
	e.Previous = windsock.State(r.State)
	if windsock.Heard(e.Previous) == windsock.FailDetected {
		e.PreviousSince = fromMicros(r.Since)
	}
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
	Depended   bool   `db:"depended"`   // others depend on it
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
		&r.ID, &r.Provider, &r.ProviderID, &r.Pool, &r.Expected, &r.Rule, &r.Quorum, &r.Metadata, &r.Tally, &r.Flap, &r.Components, &r.DependsOn, &r.RunsOn, &r.Depended,
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

const deploymentColumns = `id, provider, provider_id, pool, expected, rule, quorum, metadata, tally, flap, components, depends_on, runs_on, ` + depended + `,
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

// count moves members of d from one class to another.
func (d *deployment) count(m windsock.Member, n int) {
	d.tally[m] += n
	d.changed = true
}

// as is how the instance counts in its deployment.
func (i *instance) as() windsock.Member {
	return windsock.Member{Expected: windsock.State(i.CountsAs), State: windsock.State(i.State)}
}

// index returns where the evidence of source stands, or a new place for it.
func (b *body) index(source string) int {
	for i := range b.evidence {
		if b.evidence[i].Source == source {
			return i
		}
	}
	b.evidence = append(b.evidence, windsock.Evidence{})
	b.touched = append(b.touched, false)
	return len(b.evidence) - 1
}

// set puts what a verdict says into the row, and reports whether the state is another
// one, and whether the flags are.
func (r *observedRow) set(state windsock.State, reason string, v windsock.Verdict, expected string, now time.Time) (news, flags bool) {
	was := *r
	if news = string(state) != r.State; news {
		r.Since = micros(now)
	}
	r.State, r.Reason = string(state), reason
	r.Sources = "[]"
	if len(v.Sources) > 0 {
		data, _ := json.Marshal(v.Sources) // of strings it cannot fail
		r.Sources = string(data)
	}
	r.Stale, r.Suspect, r.DeadlineAt = v.Stale, v.Suspect, micros(v.Deadline)
	r.Drift = windsock.Drift(windsock.State(expected), state)
	return news, r.Stale != was.Stale || r.Suspect != was.Suspect
}

// judge merges the evidence of an instance anew, and logs what changed. Its deployment
// is to be rolled up after it. The cause is the source that just spoke, if one did, and
// looks is how long it takes for three of them.
func (w *working) judge(i *instance, cause string, looks time.Duration) (seq int64) {
	v := windsock.Merge(i.evidence, i.of.Quorum, w.now)
	as, was := i.as(), i.instanceRow
	news, flags := i.set(v.State, v.Reason, v, i.Expected, w.now)
	counts := windsock.AsMember(windsock.State(i.Expected), v)
	i.CountsAs = string(counts.Expected)
	if counts != as {
		i.of.count(as, -1)
		i.of.count(counts, +1)
	}
	var settled windsock.Word
	released := false
	if !news && i.waits() {
		settled, released = i.release(w.holdOf(i.of, i), v.State)
	}
	if news || released || flags { // mostly nothing is
		e := i.event(windsock.InstanceState)
		e.Source, e.Reason, e.DetectedAt = v.Source, v.Reason, v.DetectedAt
		switch {
		case news:
			i.credit(e, cause, w.by)
			e.Word = windsock.Heard(v.State)
			was.left(e)
			w.withhold(e, i.of, i, looks)
			if i.of.phases != nil {
				w.turn(i, e.Previous, v.State)
			}
		case released:
			e.Type, e.Word, e.Trace = windsock.InstanceSettled, settled, traceOf(was.HeldTrace)
		default:
			i.credit(e, cause, w.by)
			e.Type = windsock.InstanceFlags
		}
		if logged := w.log(e); news {
			seq = logged
		}
	}
	if i.waits() {
		i.DeadlineAt = i.wake(i.DeadlineAt, w.holdOf(i.of, i))
	}
	i.changed = i.changed || i.instanceRow != was
	return seq
}

// flaps reports whether callbacks wait while the deployment or an instance of it flaps.
func (d *deployment) flaps() bool { return d.Flap == "on" }

// credit names the cause as the event's source if it says what the event says, even when
// others who say the same have the last word: the change is its doing, and it need not
// be told. By is the principal that posted it.
func (b *body) credit(e *windsock.Event, cause, principal string) {
	for i := range b.evidence {
		if by := &b.evidence[i]; by.Source == cause && by.State == e.State {
			e.Source, e.DetectedAt, e.By = by.Source, by.ObservedAt, principal
			e.Reason = cmp.Or(by.Reason, e.Reason)
		}
	}
}

// roll rolls a deployment up anew, and logs what changed.
func (w *working) roll(d *deployment) (seq int64) {
	v := windsock.Merge(d.evidence, d.Quorum, w.now)
	state, reason := windsock.Rollup(v, windsock.State(d.Expected), d.tally, windsock.Rule(d.Rule))
	if d.phases != nil {
		state, reason = d.phases.Rollup(state, reason, windsock.State(d.Expected), func() string { return w.failure(d) })
	}
	e := d.event(windsock.DeploymentState)
	e.State, e.Source, e.Reason, e.DetectedAt = state, v.Source, reason, v.DetectedAt
	if state != v.State || reason != v.Reason { // its members decide
		e.Source, e.DetectedAt, v.Sources = windsock.RollupSource, w.now, nil
	}
	d.credit(e, d.cause, w.by)
	was := d.deploymentRow
	news, flags := d.set(state, reason, v, d.Expected, w.now)
	d.left = d.left || news
	e.Stale, e.Suspect = d.Stale, d.Suspect
	var settled windsock.Word
	released := false
	if !news && d.waits() {
		settled, released = d.release(w.holdOf(d, nil), state)
	}
	switch {
	case news:
		e.Word = windsock.Heard(state)
		was.left(e)
		w.withhold(e, d, nil, d.looks)
	case released:
		e.Type, e.Word, e.Unstable, e.Trace = windsock.DeploymentSettled, settled, false, traceOf(was.HeldTrace)
	case flags:
		e.Type = windsock.DeploymentFlags
	default:
		e = nil
	}
	if e != nil && cmp.Or(e.Word, e.Held) == windsock.FailDetected {
		e.Instances = w.failing(d)
	}
	if e != nil && news && d.Depended {
		w.upstream = append(w.upstream, d.ID)
		if cmp.Or(e.Word, e.Held) != windsock.StartDetected {
			e.Affected = w.dependents(d.ID)
		}
	}
	if e != nil {
		seq = w.log(e)
	}
	d.cause, d.looks = "", 0
	if d.waits() {
		d.DeadlineAt = d.wake(d.DeadlineAt, w.holdOf(d, nil))
	}
	d.changed = d.changed || d.deploymentRow != was
	if !news {
		return 0
	}
	return seq
}

// isDown is windsock.State.Down, as the index of those that are is defined.
const isDown = `(state = 'failed' OR state = 'stopped' OR state = 'suspended' OR state = 'gone')`

// failing names the members of d that are down and count, at most MaxNamed.
func (w *working) failing(d *deployment) []string {
	down := map[string]bool{}
	for _, i := range d.members {
		if i.isFailing(d) {
			down[i.ID] = true
		}
	}
	if all := failingOf(d.tally); len(down) < all && len(down) < windsock.MaxNamed {
		w.addFailing(d, down)
	}
	ids := slices.Sorted(maps.Keys(down))
	return ids[:min(len(ids), windsock.MaxNamed)]
}

// isFailing reports whether i is down as it now is, and counts as a member of d.
func (i *instance) isFailing(d *deployment) bool {
	as := i.as()
	return i.of == d && as.State.Down() && as.Expected == windsock.Running
}

// failingOf counts the members that are down and count.
func failingOf(t windsock.Tally) (n int) {
	for m, k := range t {
		if m.State.Down() && m.Expected == windsock.Running {
			n += k
		}
	}
	return n
}

// addFailing adds those that are not loaded. The loaded ones are passed over: the
// database does not have them as they now are.
func (w *working) addFailing(d *deployment, down map[string]bool) {
	var ids []string
	w.all(&ids, `SELECT id FROM instances
		WHERE deployment_id = ? AND `+isDown+` AND counts_as = 'running'
		ORDER BY id LIMIT ?`, d.ID, windsock.MaxNamed+len(d.members))
	for _, id := range ids {
		if w.instances[id] == nil {
			down[id] = true
		}
	}
}

func (i *instance) event(t windsock.EventType) *windsock.Event {
	e := i.of.event(t)
	e.Kind, e.SubjectID = windsock.KindInstance, i.ID
	e.State, e.Expected, e.Stale, e.Suspect = windsock.State(i.State), windsock.State(i.Expected), i.Stale, i.Suspect
	e.Unstable = i.UnstableUntil > 0
	return e
}

func (d *deployment) event(t windsock.EventType) *windsock.Event {
	e := &windsock.Event{
		Type: t, Kind: windsock.KindDeployment, SubjectID: d.ID,
		DeploymentID: d.ID, Provider: d.Provider, Pool: d.Pool,
		State: windsock.State(d.State), Expected: windsock.State(d.Expected),
	}
	e.Stale, e.Suspect, e.Unstable, e.Metadata = d.Stale, d.Suspect, d.UnstableUntil > 0, metadataOf(d.Metadata)
	return e
}

// flush writes what changed.
func (w *working) flush() {
	w.server.sets++
	w.saveMoved()
	w.saveInstances()
	w.saveDeployments()
	w.rouse(w.upstream...)
	w.upstream = nil
}

func (w *working) saveInstances() {
	for _, i := range sorted(w.instances) {
		w.saveEvidence(windsock.KindInstance, i.ID, &i.body)
	}
	for _, i := range sorted(w.instances) {
		if i.changed {
			w.put(`UPDATE instances SET counts_as = ?, state = ?, since = ?, reason = ?, sources = ?, drift = ?, stale = ?, suspect = ?, deadline_at = ?,
				edges = ?, unstable_until = ?, held = ?, held_by = ?, held_trace = ?, told = ? WHERE id = ?`,
				i.CountsAs, i.State, i.Since, i.Reason, i.Sources, i.Drift, i.Stale, i.Suspect, i.DeadlineAt,
				i.Edges, i.UnstableUntil, i.Held, i.HeldBy, i.HeldTrace, i.Told, i.ID)
			w.due(i.DeadlineAt)
			i.changed = false
		}
	}
}

func (w *working) saveDeployments() {
	var left []string
	for id, d := range w.deployments {
		if d.left {
			left = append(left, id)
			d.left = false
		}
	}
	w.endSpans(left)
	for _, d := range sorted(w.deployments) {
		w.saveEvidence(windsock.KindDeployment, d.ID, &d.body)
	}
	for _, d := range sorted(w.deployments) {
		if d.changed {
			w.put(`UPDATE deployments SET tally = ?, components = ?, state = ?, since = ?, reason = ?, sources = ?, drift = ?, stale = ?, suspect = ?, deadline_at = ?,
				edges = ?, unstable_until = ?, held = ?, held_by = ?, held_trace = ?, told = ? WHERE id = ?`,
				tallyText(d.tally), phasesText(d.phases), d.State, d.Since, d.Reason, d.Sources, d.Drift, d.Stale, d.Suspect, d.DeadlineAt,
				d.Edges, d.UnstableUntil, d.Held, d.HeldBy, d.HeldTrace, d.Told, d.ID)
			w.due(d.DeadlineAt)
			d.changed = false
		}
	}
}

func (w *working) saveEvidence(kind windsock.Kind, id string, b *body) {
	for i, e := range b.evidence {
		if !b.touched[i] {
			continue
		}
		b.touched[i] = false
		w.put(`INSERT INTO evidence (kind, subject_id, `+evidenceColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (kind, subject_id, source) DO UPDATE SET
				origin = excluded.origin, state = excluded.state, since = excluded.since, observed_at = excluded.observed_at,
				received_at = excluded.received_at, expires_at = excluded.expires_at, reason = excluded.reason, raw = excluded.raw,
				requested = excluded.requested, pending = excluded.pending, samples = excluded.samples,
				blind_since = excluded.blind_since, blind_for = excluded.blind_for, stale_at = excluded.stale_at`,
			string(kind), id, e.Source, string(e.Origin), string(e.State), micros(e.Since), micros(e.ObservedAt), micros(e.ReceivedAt), micros(e.ExpiresAt),
			e.Reason, e.Raw, e.Requested, string(e.Pending), e.Samples, micros(e.BlindSince), e.BlindFor, micros(e.StaleAt))
	}
}

// tallyOf reads the column that tallyText writes: {"running/failed":1,"running/running":9}.
// Each change of a member takes both, and encoding/json a multiple of the time.
func tallyOf(column string) windsock.Tally {
	t := make(windsock.Tally, 4)
	for count := range strings.SplitSeq(strings.Trim(column, "{}"), ",") {
		states, number, some := strings.Cut(count, ":")
		if !some {
			break // there is none
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("store: tally %q: %v", column, err)) // only ever written by us
		}
		expected, state, _ := strings.Cut(strings.Trim(states, `"`), "/")
		t[windsock.Member{Expected: windsock.State(expected), State: windsock.State(state)}] = n
	}
	return t
}

func tallyText(t windsock.Tally) string {
	counts := make([]string, 0, len(t))
	for m, n := range t {
		if n != 0 {
			counts = append(counts, `"`+string(m.Expected)+"/"+string(m.State)+`":`+strconv.Itoa(n))
		}
	}
	slices.Sort(counts)
	return "{" + strings.Join(counts, ",") + "}"
}

// metadataOf reads the column; what is not there is nothing.
func metadataOf(column string) (m map[string]string) {
	if column == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(column), &m); err != nil {
		panic(fmt.Sprintf("store: metadata %q: %v", column, err)) // only ever written by us
	}
	return m
}
