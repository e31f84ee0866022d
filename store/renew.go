package store

import "windsock"

// startOver has a component begin as if it had never run.
func (w *working) startOver(c *component) {
	c.Action, c.DoneHash, c.Failures = windsock.ActionCreate, "", 0
	if c.Kind == windsock.KindCondition {
		c.Signals = 0
		w.exec(`DELETE FROM component_data WHERE component_id = ?`, c.ID)
	}
}

// again has a component be updated or, if it never was complete, go on with being created.
func (c *component) again() {
	c.Action, c.Failures = windsock.ActionUpdate, 0
	if c.DoneHash == "" {
		c.Action = windsock.ActionCreate
	}
}

// renew has components of a deployment wait again, of which how says so after it changed
// what they are to do. What was under way is void. Whoever was complete tells of it only if
// it does run again.
func (w *working) renew(d *deployment, cond string, args []any, how func(*component) bool) {
	put(&w.touched, d.ID, d)
	for _, c := range w.loadComponents(`deployment_id = ? AND `+cond+` ORDER BY id`, append([]any{d.ID}, args...)...) {
		was, action, on := c.State, c.Action, c.InstanceID
		if !how(c) {
			continue
		}
		c.State, _ = c.State.Next(windsock.OnRenewal)
		if was != c.State || action != c.Action {
			c.Since = w.micros
			c.DeadlineAt = 0
			if was.Offered() {
				c.Reason = "something else is to be done"
				w.move(on)
			} else {
				c.Reason = ""
			}
			if was != windsock.ComponentComplete {
				w.log(c.event(was))
			}
		}
		w.saveComponent(c)
	}
	w.recount(d)
	w.try(`deployment_id = ?`, d.ID)
}

// recount counts anew for which others each component of a deployment waits, and how many
// are in which phase.
func (w *working) recount(d *deployment) {
	w.exec(`UPDATE components SET unmet = `+unmet+` WHERE deployment_id = ?`, d.ID)
	d.phases, d.changed = windsock.ComponentTally{}, true
	w.rows(func(read func(...any) error) error {
		var p windsock.Phase
		var n int
		err := read((*string)(&p.Action), (*string)(&p.State), &n)
		d.phases[p] = n
		return err
	}, `SELECT action, state, count(*) FROM components WHERE deployment_id = ? GROUP BY action, state`, d.ID)
}

// unmet is how many others a component waits for. One that is to be deleted waits for those
// that come after it, be they deleted, too, or updated so as to do without it. The others
// wait for those that come before and stay.
const unmet = `CASE WHEN action = 'DELETE'
	THEN (SELECT count(*) FROM component_edges e JOIN components o ON o.id = e.after
		WHERE e.before = components.id AND o.state <> 'complete' AND o.state <> 'cancelled')
	ELSE (SELECT count(*) FROM component_edges e JOIN components o ON o.id = e.before
		WHERE e.after = components.id AND o.action <> 'DELETE' AND o.state <> 'complete' AND o.state <> 'cancelled') END`
