package monitors

import (
	"context"
	"maps"
	"sync"
	"time"

	"windsock"
)

const (
	queueSize   = 256            // events that may wait in memory for one monitor, with those that others overtook
	pauseAfter  = 24 * time.Hour // of failures without a success,
	pauseBeyond = 20             // if they were that many
)

// A monitor is one that is called back: what waits for it, and how it goes. When
// something is done for it is the Deliverer's business.
//
// What waits is in the queue, up to read. Beyond that, up to lagTo, it is only counted:
// the monitor lags, and reads it for itself once its queue has room. What is in the queue
// is also in the lane of its subject, from where it goes out, the oldest first. So the
// queue tells how far the cursor may go: up to the first that is still open.
type monitor struct {
	id   string
	wake func(*monitor) // called with mu held when a wait is over

	share *share // that it is of

	mu     sync.Mutex
	target *windsock.Target // another one after each reload
	gone   bool             // it was removed
	round  int64            // of what is saved

	cursor int64                      // every event up to here was delivered, is in a parked lane, or is none of its business
	told   map[windsock.Subject]int64 // beyond the cursor: up to where the events of a subject were delivered
	queue  []*entry                   // oldest first
	open   int                        // entries of it that still wait
	aloft  int                        // of these, how many are in batches under way
	read   int64                      // every event up to here is in the queue, in a lane or behind it
	lagTo  int64                      // above read: it lags, up to here
	holdTo int64                      // up to here it reads before it is sent what is coalesced

	lanes  map[windsock.Subject]*lane
	ready  lanes                         // those that may be tried
	parked int                           // lanes that are
	flying int                           // batches under way
	most   int                           // events that the next batch may hold
	leftAt time.Time                     // when the last one left
	rows   map[windsock.Subject]struct{} // of lanes, that are not saved as they are now

	backlog   int64                      // events that wait, but for those in
	uncounted []uncounted                // these parts of the log,
	early     map[int64]struct{}         // with these that do not, as is found when they are read
	counted   map[windsock.Subject]int64 // up to where the events of a subject, if no later than countedTo, are not in backlog
	countedTo int64

	attempts     int       // in vain, since it last answered
	epoch        int       // which of them; tries under way together fail together
	nextTryAt    time.Time // before that nothing is sent
	lastError    string
	successAt    time.Time
	oldestAt     time.Time // when the first in the queue happened
	failures     int       // of any kind, since the last success
	failingSince time.Time
	paused       windsock.Pause
	unsaid       bool // that it is paused, or is no longer, is not in the log yet

	asking  context.CancelFunc // of the handshake under way
	granted *windsock.Target   // whose grant the log has still to tell of
	turnAt  time.Time          // before that the rate that it allows leaves no room
	turn    *time.Timer        // ends the wait until turnAt

	inLine  bool        // it stands in line for a try
	record  record      // of tries, that is not saved yet
	retry   *time.Timer // ends the wait until nextTryAt
	filling bool        // it stands in line to read the log, or is at it
}

// newMonitor returns a monitor as it was left. The reader has come to at and will not
// bring what was before.
func newMonitor(t *windsock.Target, s *share, at int64, wake func(*monitor)) *monitor {
	m := &monitor{id: t.ID, share: s, wake: wake}
	m.restore(t, at)
	m.spend() // the process before may just have
	return m
}

// The methods from here on want mu to be held.

// restore makes the monitor what is saved of it. Tries under way go on; what comes of
// them is no longer its business, unless they succeed.
func (m *monitor) restore(t *windsock.Target, at int64) {
	p := &t.Progress
	now := time.Now()
	m.target, m.round = t, p.Round
	m.cursor, m.told = p.Cursor, maps.Clone(p.Ahead)
	seen := p.FailingSince
	if p.SuccessAt.After(seen) {
		seen = p.SuccessAt
	}
	m.attempts, m.nextTryAt, m.lastError = p.Attempts, soon(p.NextTryAt, seen, now), p.LastError
	m.successAt, m.failures, m.failingSince, m.paused = p.SuccessAt, p.Failures, p.FailingSince, p.Paused
	m.stopRetry()
	m.rows, m.parked = nil, 0
	for _, l := range m.lanes {
		l.atOnce()
		l.parked = false
	}
	for _, saved := range p.Lanes {
		l := m.laneOf(saved.Subject)
		l.parked, l.first, l.last = true, saved.FirstSeq, max(saved.FirstSeq, p.Cursor)
		l.attempts, l.nextTryAt, l.lastError = saved.Attempts, soon(saved.NextTryAt, seen, now), saved.LastError
		m.parked++
	}
	m.rewind(at)
}

// soon returns when to try, as it was saved: by our clock, and with no wait that is
// longer than any, whatever the clock of the machine did meanwhile. If it had shown seen
// and that is still to come, it was set back.
func soon(saved, seen, now time.Time) time.Time {
	if saved.IsZero() {
		return saved
	}
	since := now
	if seen.After(now) {
		since = seen
	}
	return now.Add(min(saved.Sub(since), maxWait))
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
	for _, l := range m.lanes {
		if l.parked {
			l.atOnce()
			m.changed(l)
		}
	}
	m.rewind(at)
}

// steer follows what the log says of its pauses.
func (m *monitor) steer(t *windsock.Target, at int64) {
	was, now := m.paused, t.Progress.Paused
	switch {
	case t.Progress.Round != m.round:
		m.unsaid = false
		m.restore(t, at)
	case m.unsaid && now != windsock.PausedByOperator:
		// what it has to say of itself is newer
	default:
		m.paused, m.unsaid = now, false
		if was != "" && now == "" || t.Progress.LatestTo != m.target.Progress.LatestTo {
			m.failures, m.failingSince = 0, time.Time{}
			m.reload(t, at)
		}
	}
}

func (m *monitor) stopRetry() {
	if m.retry != nil {
		m.retry.Stop()
		m.retry = nil
	}
	if m.turn != nil {
		m.turn.Stop()
		m.turn = nil
	}
}

// halt ends its waits.
func (m *monitor) halt() {
	m.stopRetry()
	for _, l := range m.lanes {
		l.stopRetry()
	}
}

// leave ends all that goes on for a monitor that was removed.
func (m *monitor) leave() {
	m.gone = true
	m.queue, m.ready = nil, nil
	m.halt()
	if m.asking != nil {
		m.asking()
	}
	for _, l := range m.lanes {
		if l.busy() {
			l.batch.cancel()
		}
	}
}

// out reports whether nothing is to be done for it any more, as it was removed or is to be
// another process's.
func (m *monitor) out() bool { return m.gone || m.share.leaving.Load() }

// subjectOf returns what an event is about.
func subjectOf(e *windsock.Event) windsock.Subject {
	return windsock.Subject{Kind: e.Kind, ID: e.SubjectID}
}
