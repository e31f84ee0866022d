package store

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"windsock"
)

// left has e tell what state is over, and of a failure since when it was.
func (r *observedRow) left(e *windsock.Event) {
	e.Previous = windsock.State(r.State)
	if windsock.Heard(e.Previous) == windsock.FailDetected {
		e.PreviousSince = fromMicros(r.Since)
	}
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
