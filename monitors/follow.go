package monitors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"windsock"
)

// follow reads the log until ctx ends.
func (d *Deliverer) follow(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		d.beat.Store(&now)
		err := d.turn(ctx)
		if err == nil {
			err = d.advance(ctx)
		}
		if errors.Is(err, windsock.ErrPruned) {
			d.Logger.Warn("the log does not reach back to what was read last, going on where the monitors are now", "after", d.at.Load())
			d.turns.again(d.shares)
			err = nil
		}
		if ctx.Err() != nil {
			return
		}
		d.reading.note(err)
		if err != nil {
			sleep(ctx, breath)
		}
	}
}

// advance hands on the next page of the log, and when there is none waits for it.
func (d *Deliverer) advance(ctx context.Context) error {
	if len(d.shares) == 0 {
		d.at.Store(d.Log.Head()) // it concerns nobody
	}
	var page []windsock.Event
	if at := d.at.Load(); at < d.Log.Head() {
		var err error
		if page, err = d.Log.Events(ctx, at, pageSize, windsock.EventFilter{}); err != nil {
			return err
		}
	}
	for i := range page {
		e := &page[i]
		if e.Kind == windsock.KindMonitor {
			if err := d.admit(ctx, e); err != nil {
				return err
			}
		} else if err := d.skip(ctx, e); err != nil {
			return err
		}
		d.hand(e)
		d.at.Store(e.Seq) // only now: a monitor that is not waiting for anything is as far as this
	}
	d.sweep()
	if len(page) == pageSize {
		return nil
	}
	wait, cancel := d.turns.wait(ctx, time.Second)
	defer cancel()
	if err := d.Log.Wait(wait, d.at.Load()); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// hand gives an event to the monitors that it concerns.
func (d *Deliverer) hand(e *windsock.Event) {
	var n *notice
	for _, scope := range windsock.ScopesOf(e) {
		for _, m := range d.index[scope] {
			if n == nil {
				n = &notice{Event: *e} // a copy, or it would hold the whole page in memory
			}
			m.mu.Lock()
			m.offer(n)
			d.wake(m)
			m.mu.Unlock()
		}
	}
}

// admit follows what the log says of the monitors themselves.
func (d *Deliverer) admit(ctx context.Context, e *windsock.Event) error {
	s := d.shares[windsock.DelivererUnit(e.SubjectID)]
	if s == nil || e.Seq <= s.loaded {
		return nil
	}
	switch e.Type {
	case windsock.MonitorAdded:
		target, err := d.Log.Target(ctx, e.SubjectID)
		if errors.Is(err, windsock.ErrNotFound) {
			return nil // it was removed since, as the log will say
		}
		if err != nil {
			return fmt.Errorf("monitor %q: %w", e.SubjectID, err)
		}
		d.add(&target, s)
	case windsock.MonitorRemoved, windsock.MonitorExpired:
		d.remove(e.SubjectID)
	case windsock.MonitorPaused, windsock.MonitorResumed, windsock.MonitorReplayed:
		return d.renew(ctx, e.SubjectID, func(m *monitor, t *windsock.Target) { m.steer(t, d.at.Load()) })
	case windsock.MonitorVerified:
		return d.renew(ctx, e.SubjectID, (*monitor).verified)
	}
	return nil
}

// renew has a monitor follow what is now stored of it, of which the log says that it is
// something else.
func (d *Deliverer) renew(ctx context.Context, id string, follow func(m *monitor, t *windsock.Target)) error {
	m := d.byID[id]
	if m == nil {
		return nil
	}
	target, err := d.Log.Target(ctx, id)
	if errors.Is(err, windsock.ErrNotFound) {
		return nil // it was removed since
	}
	if err != nil {
		return fmt.Errorf("monitor %q: %w", id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	follow(m, &target)
	d.saver.mark(m)
	d.wake(m)
	return nil
}

// add takes a monitor in, or its new wishes.
func (d *Deliverer) add(t *windsock.Target, s *share) {
	m := d.byID[t.ID]
	if m == nil {
		m = newMonitor(t, s, d.begin(t, s), d.wake)
		d.mu.Lock()
		d.byID[t.ID] = m
		d.mu.Unlock()
	} else {
		d.unlist(m)
	}
	d.index[t.Scope] = append(d.index[t.Scope], m)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.target != t {
		m.reload(t, d.at.Load())
		d.saver.mark(m)
	}
	d.wake(m)
}

// begin returns up to where a monitor that is taken in reads for itself. What waits when
// the process starts is not brought by the reader if it is coalesced.
func (d *Deliverer) begin(t *windsock.Target, s *share) int64 {
	if t.Backlog == windsock.Latest || t.Progress.Cursor < t.Progress.LatestTo {
		return max(d.at.Load(), s.loaded)
	}
	return d.at.Load()
}

// remove drops a monitor with all that waits for it, and ends its requests.
func (d *Deliverer) remove(id string) {
	m := d.byID[id]
	if m == nil {
		return
	}
	d.unlist(m)
	d.mu.Lock()
	delete(d.byID, id)
	d.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave()
}

func (d *Deliverer) unlist(m *monitor) {
	scope := m.target.Scope
	d.index[scope] = slices.DeleteFunc(d.index[scope], func(other *monitor) bool { return other == m })
	if len(d.index[scope]) == 0 {
		delete(d.index, scope)
	}
}

// sweep has the cursors of monitors saved that had nothing to do for so many events
// that a start after a crash would read too much again, or for so long that they hold
// what is old in the log.
func (d *Deliverer) sweep() {
	at, now := d.at.Load(), time.Now()
	hourly := now.Sub(d.sweptAt).Abs() >= idleAge
	if at-d.swept < idleLag && !hourly {
		return
	}
	d.swept = at
	if hourly {
		d.sweptAt = now
	}
	for _, m := range d.byID {
		m.mu.Lock()
		if behind := at - m.cursor; !m.waits() && (behind >= idleLag || hourly && behind > 0) {
			d.saver.mark(m)
		}
		m.mu.Unlock()
	}
}
