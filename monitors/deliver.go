package monitors

import (
	"context"
	"errors"
	"time"

	"windsock"
)

// wake puts m in line for what it has to do; m.mu is held.
func (d *Deliverer) wake(m *monitor) {
	if d.due(m) {
		d.lineOf(m).add(m)
	}
}

// lineOf returns where m is to stand for a try; m.mu is held.
func (d *Deliverer) lineOf(m *monitor) *pool {
	if m.inDoubt() {
		return d.probes
	}
	return d.sends
}

// due sees to what m has to do next, and reports whether it is to stand in line for a
// try. m.mu is held.
func (d *Deliverer) due(m *monitor) bool {
	if m.out() {
		return false
	}
	if !m.filling && m.mustRead() {
		m.filling = true
		d.fills.add(m)
	}
	if m.inLine || !m.maySend() {
		return false
	}
	m.inLine = true
	return true
}

// deliver makes one try of the lane of m whose turn it is, or of a batch of them. It
// reports whether m is to stand in the same line again.
func (d *Deliverer) deliver(line *pool, m *monitor) bool {
	ctx, cancel := context.WithTimeout(m.share.calls, d.Timeout)
	defer cancel()
	era := d.era()
	m.mu.Lock()
	m.inLine = false
	if era == 0 || !m.share.term.Stands() { // it is lost, or soon ours again
		m.mu.Unlock()
		sleep(m.share.calls, breath/10)
		m.mu.Lock()
		defer m.mu.Unlock()
		return d.again(line, m)
	}
	if line != d.lineOf(m) {
		d.wake(m)
		m.mu.Unlock()
		return false
	}
	if !m.maySend() || m.flying > 0 && line.crowded() { // when one of its own has ended it comes back
		m.mu.Unlock()
		return false
	}
	m.share.flying.Add(1)
	defer m.share.flying.Done()
	if m.target.Pending() {
		return d.ask(ctx, line, m, cancel)
	}
	b, t, epoch := m.begin(cancel), m.target, m.epoch
	spare := m.record.credit.take(ofMonitor, time.Now())
	d.wake(m) // the next lane need not wait for this one
	if len(b.items) == 0 {
		d.next(ctx, m, b)
	}
	m.mu.Unlock()

	var got answer
	var try *windsock.Try
	begun := time.Now()
	if len(b.items) > 0 {
		got = d.call(ctx, t, b)
		try = b.try(&got, spare, begun)
	}
	now := time.Now()

	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(b)
	broken := got.meaning == away && (got.reply.withheld || errors.Is(ctx.Err(), context.Canceled) || d.era() != era) // it was we who ended it; that says nothing of the monitor
	if len(b.items) > 0 && !broken {
		d.Metrics.tried(got.meaning == taken, now.Sub(begun), b.items[0].Trace)
		d.saver.keep(m, try)
		d.settle(m, b, got, epoch, now, t == m.target)
		d.saver.mark(m)
	}
	for _, l := range b.lanes {
		m.rest(l)
	}
	return d.again(line, m)
}

// again reports whether m is to stand in this line again, or has it stand in the other.
// m.mu is held.
func (d *Deliverer) again(line *pool, m *monitor) bool {
	if line != d.lineOf(m) {
		d.wake(m)
		return false
	}
	return d.due(m)
}

// next has a batch of one lane carry what waits first in that, unless that turns out to
// be nothing. It is called with m.mu held and lets go of it to read the log.
func (d *Deliverer) next(ctx context.Context, m *monitor, b *batch) {
	l := b.lanes[0]
	if len(l.queue) == 0 {
		t, first, last := m.target, l.first, l.last
		m.mu.Unlock()
		queue, err := d.recall(ctx, t, l.subject, first, last)
		if errors.Is(err, windsock.ErrPruned) {
			if behind := d.catchUp(ctx, m); behind != nil {
				err = behind
			}
		}
		if ctx.Err() == nil {
			d.filling.note(err)
			if err != nil {
				sleep(ctx, breath)
			}
		}
		m.mu.Lock()
		if err != nil || t != m.target {
			return
		}
		if l.recalled(queue, last); len(queue) == 0 {
			d.saver.mark(m)
		}
	}
	b.carry()
}

// settle notes what came of a try that began in an epoch. A failure by wishes that m does
// not have any more says nothing of it.
func (d *Deliverer) settle(m *monitor, b *batch, got answer, epoch int, now time.Time, current bool) {
	was := m.paused
	seq := b.items[0].Seq
	switch {
	case got.meaning == taken || got.meaning == refused && len(b.items) == 1:
		d.divide(m, b, got, epoch, now, current)
	case !current:
	case got.meaning == refused:
		m.narrow(len(b.items) / 2)
		m.refused(got, epoch, now, d.Rand)
		d.Logger.Warn("batch refused, is halved", "monitor", m.id, "seq", seq, "events", len(b.items), "error", cut(got.failure, maxLogged))
	default:
		m.failed(got, epoch, now, d.Rand)
		if m.narrow(len(b.items)); m.attempts > 1 {
			m.narrow(len(b.items) / 2)
		}
		d.Logger.Warn("callback failed", "monitor", m.id, "seq", seq, "attempts", m.attempts, "next_try", m.nextTryAt, "error", cut(got.failure, maxLogged))
	}
	if m.paused != was {
		d.Logger.Warn("monitor paused or resumed", "monitor", m.id, "was", was, "paused", m.paused)
	}
}

// fill reads one page of the log for a monitor that lags. It reports whether there is
// more to read.
func (d *Deliverer) fill(ctx context.Context, m *monitor) bool {
	m.mu.Lock()
	t := m.target
	part, filling := m.toRead()
	_, page := m.room()
	m.mu.Unlock()
	events, err := d.Log.Events(ctx, part.after, page, windsock.EventFilter{Scope: t.Scope, Kind: part.of.Kind, Subject: part.of.ID, Brief: !filling})
	if errors.Is(err, windsock.ErrPruned) {
		err = d.catchUp(ctx, m)
		part = uncounted{} // nothing of it was read
		sleep(ctx, breath)
	}
	if ctx.Err() != nil {
		return false
	}
	d.filling.note(err)
	if err != nil {
		sleep(ctx, breath)
		return true
	}
	if len(events) == page {
		part.to = min(part.to, events[page-1].Seq)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case part.empty(), t != m.target: // what was read is not what it wants now
	case filling:
		m.fill(events, part.span)
	default:
		m.count(events, part)
	}
	m.filling = m.mustRead() && !m.out()
	d.wake(m)
	return m.filling
}
