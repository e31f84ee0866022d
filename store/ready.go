package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"

	"windsock"
)

// conduct is what has still to be looked at of the components within a transaction.
type conduct struct {
	rebound map[string]*deployment // which may have other instances for their servers
	turned  map[string]bool        // instances that run now (false), or are gone (true)
	next    []int64                // components whose turn it may be
	touched map[string]*deployment // whose components changed
	moved   map[string]bool        // instances which are to run something else
}

// turn notes that an instance of a deployment with components is in another state.
func (w *working) turn(i *instance, was, is windsock.State) {
	if was == windsock.Gone || is == windsock.Gone {
		w.rebind(i.of)
	}
	if is == windsock.Running || is == windsock.Gone {
		put(&w.turned, i.ID, is == windsock.Gone)
	}
}

// rebind notes that other instances may take the place of a deployment's servers.
func (w *working) rebind(d *deployment) {
	if d.phases != nil {
		put(&w.rebound, d.ID, d)
	}
}

func put[K comparable, T any](m *map[K]T, key K, v T) {
	if *m == nil {
		*m = map[K]T{}
	}
	(*m)[key] = v
}

// goOn has all components go on whose turn it is, and returns the deployments that are to
// be rolled up because of it.
func (w *working) goOn() []*deployment {
	if len(w.rebound)+len(w.turned)+len(w.next) > 0 {
		w.saveInstances() // from here on the database has them as they are
		for _, d := range sorted(w.rebound) {
			w.bind(d)
		}
		for _, id := range slices.Sorted(maps.Keys(w.turned)) {
			w.pass(id, w.turned[id])
		}
		w.rebound, w.turned = nil, nil
	}
	for len(w.next) > 0 && w.err == nil {
		n := min(len(w.next), stepBound)
		ids := w.next[:n]
		w.next = w.next[n:]
		w.stepAll(ids)
	}
	touched := sorted(w.touched)
	w.touched = nil
	return touched
}

// spread has those that wait for c, which is done now or is not any more, wait for one
// less or one more.
func (w *working) spread(c *component) {
	by := +1
	if c.State.Done() {
		by = -1
	}
	if c.Action != windsock.ActionDelete {
		w.wait(by, `id IN (SELECT after FROM component_edges WHERE before = ?) AND action <> 'DELETE'`, c.ID)
	}
	if c.of.deletes() {
		w.wait(by, `id IN (SELECT before FROM component_edges WHERE after = ?) AND action = 'DELETE'`, c.ID)
	}
}

func (w *working) wait(by int, cond string, args ...any) {
	var free []int64
	w.dirty = true
	w.rows(func(read func(...any) error) error {
		var id int64
		var turn bool
		err := read(&id, &turn)
		if turn {
			free = append(free, id)
		}
		return err
	}, `UPDATE components SET unmet = unmet + ? WHERE `+cond+` RETURNING id, unmet = 0 AND state = 'waiting'`, append([]any{by}, args...)...)
	slices.Sort(free)
	w.next = append(w.next, free...)
}

// deletes reports whether any component of d is to be deleted.
func (d *deployment) deletes() bool {
	for p := range d.phases {
		if p.Action == windsock.ActionDelete {
			return true
		}
	}
	return false
}

// try looks at the components that meet a condition and whose turn it may be.
func (w *working) try(cond string, args ...any) {
	w.rows(func(read func(...any) error) error {
		var id int64
		err := read(&id)
		w.next = append(w.next, id)
		return err
	}, `SELECT id FROM components WHERE state = 'waiting' AND unmet = 0 AND `+cond+` ORDER BY id`, args...)
}

// stepBound is for how many at once all is read that they refer to.
const stepBound = 100

// stepAll has those of some components go on, in this order, whose turn it is.
func (w *working) stepAll(ids []int64) {
	ready := map[int64]*component{}
	for _, c := range w.loadPlanned(inSet(`id`)+` AND state = 'waiting' AND unmet = 0`, set(ids)) {
		ready[c.ID] = c
	}
	lacking := w.lacking(ids)
	known, err := knownTo(w, slices.Collect(maps.Values(ready)), w.s.link("")) // before anybody asked at which address he can signal
	w.err = cmp.Or(w.err, err)
	for _, id := range ids {
		if c := ready[id]; c != nil && w.err == nil {
			delete(ready, id)
			w.step(c, lacking[id], known[c.DeploymentID])
		}
	}
}

// step makes a component available whose predecessors are complete, if its instances run;
// or complete, if there is nothing to do.
func (w *working) step(c *component, lacks bool, known windsock.Known) {
	put(&w.touched, c.DeploymentID, c.of)
	if c.Action == windsock.ActionDelete {
		w.stepDelete(c, known)
		return
	}
	if lacks && (c.Kind == windsock.KindCondition || slices.Contains(c.Actions, c.Action)) {
		return
	}
	if c.Kind == windsock.KindCondition {
		w.stepCondition(c)
		return
	}
	job, hash, err := w.jobOf(&c.plan, c.Action, known)
	if err != nil {
		w.change(c, change{on: windsock.OnFailure, reason: windsock.CutReason(err.Error())})
		return
	}
	c.Hash = hash
	switch {
	case c.Action == windsock.ActionUpdate && c.Hash == c.DoneHash:
		w.change(c, change{on: windsock.OnSuccess, quiet: true})
	case job == nil:
		w.change(c, change{on: windsock.OnSuccess, reason: idleReason})
	default:
		w.offer(c)
	}
}

// Why a component is complete that did not run.
const (
	idleReason = "there is nothing to run"
	goneReason = "its instance is gone"
)

// unsure stands for what is there while an update is under way, and when that failed.
const unsure = "unsure"

// offer begins another run of c.
func (w *working) offer(c *component) {
	c.Run++
	c.AvailableAt, c.StartedAt, c.FinishedAt, c.DeadlineAt = w.micros, 0, 0, w.micros+c.Timeout
	if c.DoneHash != "" {
		c.DoneHash = unsure
	}
	on := windsock.OnReady
	if c.Kind == windsock.KindCondition {
		on = windsock.OnOpen
	} else {
		c.Signals = 0
	}
	w.change(c, change{on: on, reason: c.Reason})
}

// stepDelete has c run once more before it goes, if it ever ran and its instance is there.
func (w *working) stepDelete(c *component, known windsock.Known) {
	state := w.instanceState(c.InstanceID)
	switch {
	case c.Kind == windsock.KindCondition, c.Run == 0, !slices.Contains(c.Actions, windsock.ActionDelete):
		w.change(c, change{on: windsock.OnSuccess, reason: idleReason})
		return
	case state == "", state == windsock.Gone:
		w.change(c, change{on: windsock.OnSuccess, reason: goneReason})
		return
	case state != windsock.Running:
		return
	}
	if _, err := w.s.resolve(c.Spec, c.Action, known); err != nil {
		w.change(c, change{on: windsock.OnFailure, reason: windsock.CutReason(err.Error())})
		return
	}
	c.DoneHash = "" // whatever becomes of it, what was there is not any more
	w.offer(c)
}

// stepCondition opens a condition, unless it has heard all that it waits for: what came
// before its turn counts, too.
func (w *working) stepCondition(c *component) {
	c.Hash = "heard"
	if c.Signals < c.Wanted {
		w.offer(c)
		return
	}
	w.change(c, change{on: windsock.OnSuccess, quiet: c.Action == windsock.ActionUpdate && c.DoneHash != ""})
}

// lacking are those components of which a server that they need is not there, or does not
// run.
func (w *working) lacking(ids []int64) map[int64]bool {
	lacking := map[int64]bool{}
	w.rows(func(read func(...any) error) error {
		var id int64
		err := read(&id)
		lacking[id] = true
		return err
	}, `SELECT n.component_id FROM component_needs n
		LEFT JOIN servers v ON v.deployment_id = n.deployment_id AND v.name = n.server
		LEFT JOIN instances i ON i.id = v.instance_id AND v.instance_id <> ''
		WHERE `+inSet(`n.component_id`)+` AND coalesce(i.state, '') <> 'running'`, set(ids))
	return lacking
}

// instanceState is the state of an instance; "": there is none.
func (w *working) instanceState(id string) (state windsock.State) {
	w.get(&state, `SELECT coalesce((SELECT state FROM instances WHERE id = ?), '')`, id)
	return state
}

// jobOf makes the job of a plan for an action; nil: there is nothing to run. The hash
// stands for what it does when it is created or updated: while that is the same, there is
// nothing to be updated.
func (w *working) jobOf(p *plan, action windsock.Action, known windsock.Known) (job *windsock.Job, hash string, err error) {
	sum := sha256.New()
	for _, a := range [...]windsock.Action{windsock.ActionCreate, windsock.ActionUpdate} {
		if slices.Contains(p.Actions, a) {
			j, failed := w.s.resolve(p.Spec, a, known)
			if a == action {
				job, err = &j, failed
			}
			sum.Write([]byte(jsonText(j)))
		}
		sum.Write([]byte{0})
	}
	return job, base64.RawStdEncoding.EncodeToString(sum.Sum(nil)[:18]), err
}

// saveMoved gives the instances that are to run something else another revision, and
// wakes those who wait for that.
func (w *working) saveMoved() {
	ids := slices.Sorted(maps.Keys(w.moved))
	for _, id := range ids {
		w.exec(`UPDATE instances SET work = CASE WHEN work >= ? THEN work + 1 ELSE ? END WHERE id = ?`, w.head, w.head, id)
	}
	w.moved = nil
	w.wake(ids...)
}

// move notes that an instance is to run something else.
func (w *working) move(instanceID string) {
	if instanceID != "" {
		put(&w.moved, instanceID, true)
	}
}

// wake wakes those who wait for what instances are to run, once all is committed.
func (t *tx) wake(ids ...string) {
	if len(ids) > 0 {
		t.after = append(t.after, func() { t.s.work.wake(ids...) })
	}
}
