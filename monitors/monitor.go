package monitors

import (
	"context"
	"slices"
	"sync"
	"time"

	"windsock"
)

// queueSize is how many events may wait in memory for one monitor.
const queueSize = 256

// A monitor is one that is called back: what waits for it, and how it goes. When
// something is done for it is the Deliverer's business.
//
// What waits is in the queue, up to read. Beyond that, up to lagTo, it is only counted:
// the monitor lags, and reads it for itself once its queue is empty. All that waits goes
// out one at a time in the order of the log, which keeps the order for each subject.
type monitor struct {
	id string

	mu     sync.Mutex
	target *windsock.Target // another one after each reload
	gone   bool             // it was removed

	cursor    int64     // every event up to here was delivered or is none of its business
	queue     []*notice // oldest first; the first may be under way
	read      int64     // every event up to here is in the queue or behind it
	lagTo     int64     // above read: it lags, up to here
	backlog   int64     // events that wait, queued or not, but for those in
	uncounted span      // this part of the log
	oldestAt  time.Time // when the first that waits happened

	attempts  int // of the first that waits, in vain
	nextTryAt time.Time
	lastError string
	successAt time.Time

	sending bool               // it stands in line for a try, is at it, or waits for the time of its next
	retry   *time.Timer        // the end of that wait
	cancel  context.CancelFunc // of the try under way
	filling bool               // it stands in line to read the log, or is at it
}

// A span is the part of the log after one seq, up to another.
type span struct{ after, to int64 }

func (s span) empty() bool { return s.after >= s.to }

// newMonitor returns a monitor as it was left. The reader has come to at and will not
// bring what was before.
func newMonitor(t *windsock.Target, at int64) *monitor {
	m := &monitor{
		id: t.ID, target: t,
		cursor: t.Cursor, read: t.Cursor,
		attempts: t.Delivery.Attempts, nextTryAt: t.Delivery.NextTryAt,
		lastError: t.Delivery.LastError, successAt: t.Delivery.SuccessAt,
	}
	m.rewind(at)
	return m
}

// The methods from here on want mu to be held.

// rewind makes the monitor read again for itself what it was not told up to at.
func (m *monitor) rewind(at int64) {
	m.queue, m.backlog = nil, 0
	m.read, m.lagTo = m.cursor, at
	m.uncounted = span{m.cursor, at}
}

// reload gives the monitor new wishes. They hold for all that it was not told yet, as
// they would after a restart; and it is tried again at once, since the wishes may be
// what was wrong.
func (m *monitor) reload(t *windsock.Target, at int64) {
	m.cursor = max(m.cursor, t.Cursor) // it may have been left behind
	if !m.waits() {
		m.cursor = max(m.cursor, at)
	}
	m.target = t
	m.attempts, m.nextTryAt, m.lastError = 0, time.Time{}, ""
	m.stopRetry()
	m.rewind(at)
}

func (m *monitor) stopRetry() {
	if m.retry != nil && m.retry.Stop() {
		m.sending = false
	}
}

// leave ends all that goes on for a monitor that was removed.
func (m *monitor) leave() {
	m.gone = true
	m.queue = nil
	m.stopRetry()
	if m.cancel != nil {
		m.cancel()
	}
}

// offer takes an event in if the monitor wants it. The reader offers every event of its
// scope once, in order.
func (m *monitor) offer(n *notice) {
	switch {
	case n.Seq <= m.cursor || !m.target.Wants(&n.Event):
		return
	case m.lags() || len(m.queue) >= queueSize:
		m.lagTo = n.Seq
	default:
		m.queue = append(m.queue, n)
		m.read = n.Seq
		m.look()
	}
	m.backlog++
}

func (m *monitor) lags() bool     { return m.read < m.lagTo }
func (m *monitor) waits() bool    { return len(m.queue) > 0 || m.lags() }
func (m *monitor) mustFill() bool { return len(m.queue) == 0 && m.lags() }
func (m *monitor) mustRead() bool { return m.mustFill() || !m.uncounted.empty() }

// toRead returns the part of the log that the monitor has to read next: to fill its
// queue, which comes first, or to count what waits.
func (m *monitor) toRead() (part span, filling bool) {
	if m.mustFill() {
		return span{m.read, m.lagTo}, true
	}
	return m.uncounted, false
}

// fill takes in the events of the monitor's scope in part.
func (m *monitor) fill(events []windsock.Event, part span) {
	for i := range events {
		e := &events[i]
		if e.Seq > m.read && e.Seq <= part.to && m.target.Wants(e) {
			m.queue = append(m.queue, &notice{Event: *e})
		}
	}
	m.read = max(m.read, part.to)
	m.look()
}

// count counts the events of the monitor's scope in part.
func (m *monitor) count(events []windsock.Event, part span) {
	for i := range events {
		if e := &events[i]; e.Seq <= part.to && m.target.Wants(e) {
			m.backlog++
		}
	}
	m.uncounted.after = part.to
}

// look notes since when the monitor waits. Between two fills of its queue that stays as
// it was.
func (m *monitor) look() {
	if len(m.queue) > 0 {
		m.oldestAt = m.queue[0].Time
	}
}

// succeeded notes that n was delivered, by what the wishes then were.
func (m *monitor) succeeded(n *notice, t *windsock.Target, now time.Time) {
	if n.Seq > m.cursor && (t == m.target || slices.Contains(windsock.ScopesOf(&n.Event), m.target.Scope) && m.target.Wants(&n.Event)) {
		m.backlog--
	}
	m.cursor = max(m.cursor, n.Seq)
	m.read = max(m.read, n.Seq)
	for len(m.queue) > 0 && m.queue[0].Seq <= n.Seq {
		m.queue[0] = nil
		m.queue = m.queue[1:]
	}
	if len(m.queue) == 0 {
		m.queue = nil // an idle monitor holds no memory
	}
	m.look()
	m.attempts, m.nextTryAt, m.lastError = 0, time.Time{}, ""
	m.successAt = plain(now)
}

// failed notes a try in vain.
func (m *monitor) failed(got answer, now time.Time, rand func() float64) {
	m.attempts++
	wait := backoff(m.attempts, rand)
	if got.retryAfter > 0 {
		wait = got.retryAfter
	}
	m.nextTryAt = now.Add(wait)
	m.lastError = got.failure
}

// The methods from here on are for others than the Deliverer and lock mu themselves.

// progress returns what is to be saved, unless the monitor was removed. The reader has
// come to at.
func (m *monitor) progress(at int64) (windsock.Progress, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.waits() {
		m.cursor = max(m.cursor, at)
	}
	return windsock.Progress{
		MonitorID: m.id, Cursor: m.cursor,
		Attempts: m.attempts, NextTryAt: plain(m.nextTryAt),
		SuccessAt: m.successAt, LastError: m.lastError,
	}, !m.gone
}

// delivery returns how it goes.
func (m *monitor) delivery() windsock.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := windsock.Delivery{
		State:     "idle",
		Backlog:   max(m.backlog, int64(len(m.queue))), // while some are uncounted those delivered may be more than those counted
		Attempts:  m.attempts,
		NextTryAt: plain(m.nextTryAt),
		LastError: m.lastError,
		SuccessAt: m.successAt,
	}
	if m.waits() {
		d.State, d.OldestAt = "delivering", m.oldestAt
		if m.attempts > 0 {
			d.State = "retrying"
		}
	}
	return d
}

// plain returns a time as it is kept: the same before and after a restart.
func plain(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
