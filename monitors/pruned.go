package monitors

import (
	"context"
	"errors"

	"windsock"
)

// What is old is deleted from the log. A monitor that was too far behind is moved past it
// there, in the store, and has to follow.

// skip has a monitor follow of which the log says that it lost events.
func (d *Deliverer) skip(ctx context.Context, e *windsock.Event) error {
	m := d.byID[e.SubjectID]
	if e.Type != windsock.LogGap || m == nil {
		return nil
	}
	return d.catchUp(ctx, m)
}

// catchUp has a monitor follow that was moved past what is no longer in the log, with
// its lanes: it becomes what is saved of it, and reads again what it was offered since.
func (d *Deliverer) catchUp(ctx context.Context, m *monitor) error {
	t, err := d.Log.Target(ctx, m.id)
	if errors.Is(err, windsock.ErrNotFound) {
		return nil // removed since, as the reader will hear
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone || t.Progress.Round == m.round && t.Progress.Cursor <= m.cursor {
		return nil
	}
	m.restore(&t, max(d.at.Load(), m.read, m.lagTo))
	d.wake(m)
	return nil
}
