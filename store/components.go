package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"windsock"
)

// A component is a row of its table.
type component struct {
	ID           int64                   `db:"id"`
	UID          []byte                  `db:"uid"`
	DeploymentID string                  `db:"deployment_id"`
	Name         string                  `db:"name"`
	Kind         windsock.ComponentKind  `db:"kind"`
	Instance     string                  `db:"instance"`
	InstanceID   string                  `db:"instance_id"`
	Handle       string                  `db:"handle"`
	Hook         string                  `db:"hook"`
	Wanted       int                     `db:"wanted"`
	Timeout      int64                   `db:"timeout"`
	Retries      int                     `db:"retries"`
	Silent       bool                    `db:"silent"`
	Planned      bool                    `db:"planned"`
	Action       windsock.Action         `db:"action"`
	State        windsock.ComponentState `db:"state"`
	Since        int64                   `db:"since"`
	Reason       string                  `db:"reason"`
	Run          int                     `db:"run"`
	Failures     int                     `db:"failures"`
	Unmet        int                     `db:"unmet"`
	Signals      int                     `db:"signals"`
	Heard        int                     `db:"heard"`
	AvailableAt  int64                   `db:"available_at"`
	StartedAt    int64                   `db:"started_at"`
	FinishedAt   int64                   `db:"finished_at"`
	DeadlineAt   int64                   `db:"deadline_at"`
	Hash         string                  `db:"hash"`
	DoneHash     string                  `db:"done_hash"`

	plan // if it was read with it
	of   *deployment
	over bool // its row is deleted
}

// A plan is the part of a planned component that does not change with its state.
type plan struct {
	Actions listOf[windsock.Action] `db:"actions"`
	Outputs listOf[windsock.Output] `db:"outputs"`
	Refers  listOf[string]          `db:"refers"`
	Spec    []byte                  `db:"spec"`
}

// listOf is a list that is kept as JSON.
type listOf[T any] []T

// Scan implements sql.Scanner.
func (l *listOf[T]) Scan(column any) error {
	text, _ := column.(string)
	return json.Unmarshal([]byte(text), l)
}

const componentColumns = `id, uid, deployment_id, name, kind, instance, instance_id, handle, hook, wanted, timeout, retries, silent, planned,
	action, state, since, reason, run, failures, unmet, signals, heard, available_at, started_at, finished_at, deadline_at, hash, done_hash`

// fields are those of componentColumns.
func (c *component) fields() []any {
	return []any{
		&c.ID, &c.UID, &c.DeploymentID, &c.Name, (*string)(&c.Kind), &c.Instance, &c.InstanceID, &c.Handle, &c.Hook, &c.Wanted, &c.Timeout, &c.Retries, &c.Silent, &c.Planned,
		(*string)(&c.Action), (*string)(&c.State), &c.Since, &c.Reason, &c.Run, &c.Failures, &c.Unmet, &c.Signals, &c.Heard, &c.AvailableAt, &c.StartedAt, &c.FinishedAt, &c.DeadlineAt, &c.Hash, &c.DoneHash,
	}
}

// Components with their plans.
const (
	plannedComponents = `components JOIN component_plans ON component_id = id`
	planColumns       = `actions, outputs, refers, spec`
)

// isDone and isOffered are windsock.ComponentState.Done and Offered.
const (
	isDone    = `(state = 'complete' OR state = 'cancelled')`
	isOffered = `(state = 'available' OR state = 'running')`
)

// loadComponents reads the components that meet a condition, and their deployments.
func (w *working) loadComponents(cond string, args ...any) []*component {
	var found []*component
	w.rows(func(read func(...any) error) error {
		c := new(component)
		err := read(c.fields()...)
		found = append(found, w.theOne(c))
		return err
	}, `SELECT `+componentColumns+` FROM components WHERE `+cond, args...)
	return w.withDeployments(found)
}

// loadPlanned does so with their plans.
func (w *working) loadPlanned(cond string, args ...any) []*component {
	var found []*component
	w.rows(func(read func(...any) error) error {
		c := new(component)
		err := read(append(c.fields(), &c.Actions, &c.Outputs, &c.Refers, &c.Spec)...)
		found = append(found, w.theOne(c))
		return err
	}, `SELECT `+componentColumns+`, `+planColumns+` FROM `+plannedComponents+` WHERE `+cond, args...)
	return w.withDeployments(found)
}

// theOne is what stands for a component in all of the transaction, as it was just read.
func (w *working) theOne(c *component) *component {
	one := w.components[c.ID]
	if one == nil {
		w.components[c.ID] = c
		return c
	}
	if c.Spec == nil {
		c.plan = one.plan
	}
	*one = *c
	return one
}

func (w *working) withDeployments(found []*component) []*component {
	var of []string
	for _, c := range found {
		if len(of) == 0 || of[len(of)-1] != c.DeploymentID {
			of = append(of, c.DeploymentID)
		}
	}
	w.loadDeployments(of)
	if w.err != nil {
		return nil
	}
	for _, c := range found {
		c.of = w.deployments[c.DeploymentID]
	}
	return found
}

// loadComponent reads the one that does, or returns nil.
func (w *working) loadComponent(cond string, args ...any) *component {
	if found := w.loadComponents(cond, args...); len(found) > 0 {
		return found[0]
	}
	return nil
}

// A change is what happens to a component.
type change struct {
	on     windsock.Occasion
	reason string
	quiet  bool // it is not worth an event
}

// change takes a component from one state to another, logs that and has those that wait
// for it go on. What else changed of the component is written, too.
func (w *working) change(c *component, ch change) {
	next, ok := c.State.Next(ch.on)
	if !ok {
		if w.err == nil {
			w.err = fmt.Errorf("component %q is %s: there is no %s", c.Name, c.State, ch.on)
		}
		return
	}
	was := c.State
	c.State, c.Reason, c.Since = next, ch.reason, w.micros
	if next.Final() && !ch.quiet {
		c.FinishedAt = w.micros
	}
	if !next.Offered() {
		c.DeadlineAt = 0
	}
	c.of.countComponent(c.phase(was), -1)
	c.of.countComponent(c.phase(next), +1)
	if next == windsock.ComponentComplete {
		c.DoneHash = c.Hash
		if c.Action == windsock.ActionDelete {
			c.DoneHash = ""
		}
	}
	if !ch.quiet {
		w.log(c.event(was))
	}
	w.saveComponent(c)
	if was.Offered() != next.Offered() || next == windsock.ComponentAvailable {
		w.move(c.InstanceID)
	}
	if was.Done() != next.Done() {
		w.spread(c)
	}
	w.tellTime(c, was)
	if c.State.Done() && c.Action == windsock.ActionDelete && !c.Planned {
		c.of.countComponent(c.phase(next), -1)
		c.over = true
		w.exec(`DELETE FROM components WHERE id = ?`, c.ID)
	}
}

func (c *component) phase(s windsock.ComponentState) windsock.Phase {
	return windsock.Phase{Action: c.Action, State: s}
}

func (d *deployment) countComponent(p windsock.Phase, n int) {
	if d.phases[p] += n; d.phases[p] == 0 {
		delete(d.phases, p)
	}
	d.changed = true
}

// event is the one that the component is in another state.
func (c *component) event(was windsock.ComponentState) *windsock.Event {
	e := c.of.event(windsock.ComponentChanged)
	e.Kind, e.SubjectID, e.State, e.Expected = windsock.KindComponent, c.DeploymentID+"/"+c.Name, "", ""
	e.Stale, e.Suspect, e.Unstable = false, false, false
	e.Reason = c.Reason
	e.Component = &windsock.ComponentChange{Name: c.Name, State: c.State, Previous: was, Action: c.Action, InstanceID: c.InstanceID, Run: c.Run}
	return e
}

// saveComponent writes what may change without another plan, but for unmet, which is
// written by spread and recount alone.
func (w *working) saveComponent(c *component) {
	w.exec(`UPDATE components SET instance_id = ?, action = ?, state = ?, since = ?, reason = ?, run = ?, failures = ?, signals = ?, heard = ?,
		available_at = ?, started_at = ?, finished_at = ?, deadline_at = ?, hash = ?, done_hash = ? WHERE id = ?`,
		c.InstanceID, string(c.Action), string(c.State), c.Since, c.Reason, c.Run, c.Failures, c.Signals, c.Heard,
		c.AvailableAt, c.StartedAt, c.FinishedAt, c.DeadlineAt, c.Hash, c.DoneHash, c.ID)
	w.due(c.DeadlineAt)
}

// failure tells of the first component of d that failed.
func (w *working) failure(d *deployment) string {
	c := w.loadComponent(`deployment_id = ? AND (state = 'failed' OR state = 'timed_out') ORDER BY name LIMIT 1`, d.ID)
	if c == nil {
		return "a component failed"
	}
	shown := c.component()
	return shown.Failure()
}

func (c *component) component() windsock.Component {
	return windsock.Component{
		DeploymentID: c.DeploymentID, Name: c.Name, Kind: c.Kind, Instance: c.Instance, InstanceID: c.InstanceID, Group: c.Hook,
		Action: c.Action, State: c.State, Since: fromMicros(c.Since), Reason: c.Reason, Run: c.Run, After: []string{},
		Signals: c.Signals, Want: c.Wanted,
		AvailableAt: fromMicros(c.AvailableAt), StartedAt: fromMicros(c.StartedAt), FinishedAt: fromMicros(c.FinishedAt), DeadlineAt: fromMicros(c.DeadlineAt),
	}
}

// phasesOf reads the column that phasesText writes.
func phasesOf(column string) windsock.ComponentTally {
	if column == "" {
		return nil
	}
	var counts []struct {
		Action windsock.Action
		State  windsock.ComponentState
		N      int
	}
	if err := json.Unmarshal([]byte(column), &counts); err != nil {
		panic(fmt.Sprintf("store: components %q: %v", column, err)) // only ever written by us
	}
	t := windsock.ComponentTally{}
	for _, c := range counts {
		t[windsock.Phase{Action: c.Action, State: c.State}] = c.N
	}
	return t
}

// phasesText is in one order, so that equal ones are equal texts.
func phasesText(t windsock.ComponentTally) string {
	if t == nil {
		return ""
	}
	type count struct {
		windsock.Phase
		N int
	}
	counts := make([]count, 0, len(t))
	for _, a := range [...]windsock.Action{windsock.ActionCreate, windsock.ActionUpdate, windsock.ActionDelete} {
		for _, s := range windsock.ComponentStates {
			p := windsock.Phase{Action: a, State: s}
			if n := t[p]; n != 0 {
				counts = append(counts, count{p, n})
			}
		}
	}
	return jsonText(slices.Clip(counts))
}
