package monitors

import (
	"context"
	"errors"

	"windsock"
)

// What is old is deleted from the log. A monitor that was too far behind is moved past it
// there, in the store, and has to follow.

// skip has a monitor follow of which the log says that it lost events.
func (d *Deliverer) skip(e *windsock.Event) {
	m := d.byID[e.SubjectID]
	if e.Type != windsock.LogGap || m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.LastSeq > m.cursor {
		m.moveOn(e.LastSeq)
		d.wake(m)
	}
}

// catchUp has a monitor follow that wanted to read what is no longer in the log.
func (d *Deliverer) catchUp(ctx context.Context, m *monitor) error {
	t, err := d.Log.Target(ctx, m.id)
	if errors.Is(err, windsock.ErrNotFound) {
		return nil // removed since, as the reader will hear
	}
	if err == nil {
		m.mu.Lock()
		m.moveOn(t.Cursor)
		m.mu.Unlock()
	}
	return err
}

// moveOn passes over all events up to seq. What waits behind them is read again: of those
// passed over nobody knows how many were counted. m.mu is held.
func (m *monitor) moveOn(seq int64) {
	t := *m.target
	m.target = &t // another one, so that what is being read is not taken in
	end := max(m.lagTo, m.uncounted.to)
	if n := len(m.queue); n > 0 {
		end = max(end, m.queue[n-1].Seq)
	}
	m.cursor = max(m.cursor, seq)
	m.rewind(end)
}

// keepOnly drops the monitors that are not among targets: the log no longer says that
// they were removed.
func (d *Deliverer) keepOnly(targets []windsock.Target) {
	there := make(map[string]bool, len(targets))
	for i := range targets {
		there[targets[i].ID] = true
	}
	for id := range d.byID {
		if !there[id] {
			d.remove(id)
		}
	}
}
