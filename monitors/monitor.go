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

// An entry is an event in the queue of a monitor; without the notice once it is done with.
// If later ones took the place of the event, it is there for all of them.
type entry struct {
	seq int64
	*notice
}

// A span is the part of the log after one seq, up to another.
type span struct{ after, to int64 }

func (s span) empty() bool { return s.after >= s.to }

// uncounted is a part of the log, of one subject or, if that is zero, of all.
type uncounted struct {
	span
	of windsock.Subject
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

// rewind makes the monitor read again for itself what it was not told up to at.
func (m *monitor) rewind(at int64) {
	m.queue, m.open, m.ready = nil, 0, nil
	m.unbounded()
	m.read, m.lagTo, m.holdTo = m.skip(m.cursor), at, at
	m.countAnew(at)
	for _, l := range m.lanes {
		l.queue, l.ready = nil, false
		m.rest(l)
	}
}

// skip returns up to where the monitor has nothing to read after a seq.
func (m *monitor) skip(seq int64) int64 {
	seq, _ = m.target.Progress.Window.Next(seq)
	return seq
}

// countAnew has what waits up to at counted.
func (m *monitor) countAnew(at int64) {
	m.backlog, m.uncounted, m.early = 0, nil, nil
	m.counted, m.countedTo = maps.Clone(m.told), at
	m.recount(uncounted{span: span{m.skip(m.cursor), at}})
	for s, l := range m.lanes {
		if l.parked {
			m.recount(uncounted{span{l.first - 1, m.cursor}, s})
			if m.counted == nil {
				m.counted = map[windsock.Subject]int64{}
			}
			m.counted[s] = max(m.counted[s], l.first-1)
		}
	}
}

func (m *monitor) recount(u uncounted) {
	if !u.empty() {
		m.uncounted = append(m.uncounted, u)
	}
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

// offer takes an event in if the monitor wants it. The reader offers every event of its
// scope, in order; it may go back, for the sake of others, and bring them again.
func (m *monitor) offer(n *notice) {
	if n.Seq <= max(m.cursor, m.countedTo, m.read, m.lagTo) || !m.target.Wants(&n.Event) {
		return
	}
	m.backlog++
	if m.lags() || !m.hasRoom() {
		m.lagTo = n.Seq
		if m.delivered(n) {
			m.overtook(n)
		}
		return
	}
	m.take(n)
	m.read = n.Seq
	if len(m.queue) <= 1 {
		m.pass()
	}
}

// take puts an event behind what waits already.
func (m *monitor) take(n *notice) {
	s := n.subject()
	l := m.lanes[s]
	switch {
	case m.delivered(n):
		delete(m.early, n.Seq)
		if m.counts(n) {
			m.backlog--
		}
	case l != nil && l.parked:
		l.behind(n)
		m.rest(l)
	default:
		if l = m.laneOf(s); replace(m.target, l.untried(), n) {
			return
		}
		e := &entry{n.Seq, n}
		m.queue = append(m.queue, e)
		m.open++
		l.push(e)
		m.rest(l)
	}
}

// delivered reports whether an event that comes by was delivered before.
func (m *monitor) delivered(n *notice) bool {
	s := n.subject()
	l := m.lanes[s]
	return n.Seq <= m.told[s] || l != nil && l.parked && n.Seq < l.first
}

// counts reports whether an event is in backlog, unless it is of a part that is uncounted.
func (m *monitor) counts(n *notice) bool {
	return n.Seq > m.countedTo || n.Seq > m.counted[n.subject()]
}

// overtook notes that an event was delivered that has still to be read.
func (m *monitor) overtook(n *notice) {
	if m.early == nil {
		m.early = map[int64]struct{}{}
	}
	m.early[n.Seq] = struct{}{}
}

func (m *monitor) lags() bool  { return m.read < m.lagTo }
func (m *monitor) waits() bool { return len(m.queue) > 0 || m.lags() }

func (m *monitor) mustFill() bool {
	if m.coalesces() {
		return m.lags() && m.hasRoom()
	}
	most, page := m.room()
	return m.lags() && m.open <= most-2*page && len(m.queue) <= most-page
}

func (m *monitor) mustRead() bool { return m.mustFill() || len(m.uncounted) > 0 }

// toRead returns the part of the log that the monitor has to read next: to fill its
// queue, which comes first, or to count what waits.
func (m *monitor) toRead() (part uncounted, filling bool) {
	if m.mustFill() || len(m.uncounted) == 0 {
		return uncounted{span: span{m.read, m.lagTo}}, true
	}
	return m.uncounted[0], false
}

// fill takes in the events of the monitor's scope in part.
func (m *monitor) fill(events []windsock.Event, part span) {
	for i := range events {
		e := &events[i]
		if e.Seq > m.read && e.Seq <= part.to && m.target.Wants(e) {
			m.take(&notice{Event: *e})
		}
	}
	m.read = m.skip(max(m.read, part.to))
	m.pass()
}

// count counts the events in part, the first that was uncounted.
func (m *monitor) count(events []windsock.Event, part uncounted) {
	if now := m.uncounted; len(now) == 0 || now[0].after != part.after || now[0].of != part.of {
		return // they are counted anew
	}
	ofLane := part.of != windsock.Subject{}
	for i := range events {
		e := &events[i]
		if e.Seq > part.to || !m.target.Wants(e) || !ofLane && e.Seq <= m.counted[subjectOf(e)] {
			continue
		}
		m.backlog++
		if l := m.lanes[part.of]; ofLane && l != nil && l.oldestAt.IsZero() {
			l.oldestAt = e.Time
		}
	}
	m.uncounted[0].after = m.skip(part.to)
	if m.uncounted[0].empty() {
		m.uncounted = m.uncounted[1:]
	}
}

// pass moves the cursor past all that is done with.
func (m *monitor) pass() {
	for len(m.queue) > 0 && m.queue[0].notice == nil {
		m.queue = m.queue[1:]
	}
	if len(m.queue) > 0 {
		m.cursor = max(m.cursor, m.queue[0].seq-1)
		m.oldestAt = m.queue[0].first().Time
	} else {
		m.queue = nil // an idle monitor holds no memory
		m.cursor = max(m.cursor, m.read)
	}
	m.forget()
	if m.counted != nil && len(m.uncounted) == 0 && m.read >= m.countedTo {
		m.counted = nil
	}
}

// forget drops what the cursor has passed of that which was told.
func (m *monitor) forget() {
	maps.DeleteFunc(m.told, func(_ windsock.Subject, seq int64) bool { return seq <= m.cursor })
}

// tell notes up to where the events of a subject were delivered.
func (m *monitor) tell(s windsock.Subject, seq int64) {
	if seq <= max(m.cursor, m.told[s]) {
		return
	}
	if m.told == nil {
		m.told = map[windsock.Subject]int64{}
	}
	m.told[s] = seq
}

// maySend reports whether something is to be sent right now. If it is only too early, it
// will be woken in time.
func (m *monitor) maySend() bool {
	if m.out() || !m.target.Pending() && (len(m.ready) == 0 || m.holds()) || m.flying >= m.limit() {
		return false
	}
	wait := max(time.Until(m.nextTryAt), m.lingers())
	if wait > 0 && m.retry == nil {
		m.retry = time.AfterFunc(wait, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.retry = nil
			m.wake(m)
		})
	}
	return wait <= 0 && m.mayTurn()
}

// limit returns how many requests may be under way. One that does not answer is probed,
// with the oldest event.
func (m *monitor) limit() int {
	switch {
	case m.paused == windsock.PausedByOperator, m.asked():
		return 0
	case m.inDoubt(), m.target.Pending(), m.inBatches() && m.most < maxBatch:
		return 1
	}
	return m.target.Parallel
}

// inDoubt reports whether it did not answer last.
func (m *monitor) inDoubt() bool { return m.paused != "" || m.attempts > 0 }

// took notes that n was delivered with a batch, the first that waited in a lane.
func (m *monitor) took(b *batch, l *lane, n *notice) {
	if m.target.Progress.Window != nil && m.target.Progress.Round != b.target.Progress.Round {
		return // it was asked for again, perhaps with others, since this try began
	}
	popped := l.pop(n.Seq)
	wanted := m.target.Wants(&n.Event)
	switch {
	case l.parked && n.events() > 1 && (m.target != b.target || n.Seq > m.read):
		m.countAnew(max(m.read, m.lagTo)) // which of them were counted is not known
	case wanted && n.Seq > m.read && m.counts(n):
		m.overtook(n)
	case wanted && n.Seq <= m.read && l.parked:
		m.backlog -= n.events()
	}
	if l.parked {
		l.atOnce()
		m.changed(l)
		return
	}
	for _, e := range popped {
		m.backlog -= e.events()
		e.notice = nil
		m.open--
	}
	m.tell(l.subject, n.Seq)
}

// succeeded notes that something was delivered by a try that began in an epoch.
func (m *monitor) succeeded(epoch int, now time.Time) {
	m.pass()
	m.successAt = plain(now)
	m.failures, m.failingSince = 0, time.Time{}
	if epoch != m.epoch {
		return // it failed after this try began
	}
	m.attempts, m.nextTryAt, m.lastError = 0, time.Time{}, ""
	if m.paused != "" && m.paused != windsock.PausedByOperator {
		m.paused, m.unsaid = "", true
	}
}

// refused notes that the monitor is there and does not want what it was sent.
func (m *monitor) refused(got answer, epoch int, now time.Time, rand func() float64) {
	m.pass()
	m.blame(got, now)
	switch {
	case epoch != m.epoch:
	case m.paused != "":
		m.nextTryAt = now.Add(backoff(len(steps), rand))
		m.lastError = got.failure
	case m.parked < maxLanes:
		m.attempts, m.nextTryAt, m.lastError = 0, time.Time{}, ""
	}
}

// failed notes a try that says that the monitor is not there, or wants nothing now. All
// that fail together are one failure.
func (m *monitor) failed(got answer, epoch int, now time.Time, rand func() float64) {
	if epoch != m.epoch {
		if asked := now.Add(got.retryAfter); got.retryAfter > 0 && asked.After(m.nextTryAt) {
			m.nextTryAt = asked
		}
		return
	}
	m.epoch++
	m.attempts++
	m.lastError = got.failure
	m.blame(got, now)
	wait := backoff(m.attempts, rand)
	if m.paused != "" {
		wait = backoff(len(steps), rand)
	}
	if got.retryAfter > 0 {
		wait = got.retryAfter
	}
	m.nextTryAt = now.Add(wait)
}

// blame counts a failure, and pauses the monitor if it is one too many.
func (m *monitor) blame(got answer, now time.Time) {
	if m.failures == 0 {
		m.failingSince = plain(now)
	}
	m.failures++
	switch {
	case m.paused != "":
	case got.meaning == gone:
		m.paused, m.unsaid = windsock.PausedByGone, true
	case m.failures >= pauseBeyond && now.Sub(m.failingSince) >= pauseAfter:
		m.paused, m.unsaid = windsock.PausedByFailures, true
	}
}

// The methods from here on are for others than the Deliverer and lock mu themselves.

// progress returns what is to be saved, unless the monitor was removed. The reader has
// come to at. Lanes are in it that changed since it was last asked.
func (m *monitor) progress(at int64) (windsock.Progress, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.waits() {
		m.cursor = max(m.cursor, at)
		m.forget()
	}
	p := windsock.Progress{
		MonitorID: m.id, Round: m.round, Cursor: m.cursor, Ahead: maps.Clone(m.told),
		Attempts: m.attempts, NextTryAt: plain(m.nextTryAt), LastError: m.lastError,
		SuccessAt: m.successAt, Failures: m.failures, FailingSince: m.failingSince, Window: m.window(),
	}
	for s := range m.rows {
		if l := m.lanes[s]; l != nil && l.parked {
			p.Lanes = append(p.Lanes, windsock.Lane{
				Subject: s, FirstSeq: l.first, Attempts: l.attempts, NextTryAt: plain(l.nextTryAt), LastError: l.lastError,
			})
		} else {
			p.Cleared = append(p.Cleared, s)
		}
	}
	m.rows = nil
	p.Tries, p.Omitted = m.record.take()
	return p, !m.gone
}

// unsaved takes back the lanes and tries of a progress that could not be saved.
func (m *monitor) unsaved(p *windsock.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.putBack(p.Tries, p.Omitted)
	if p.Round != m.round {
		return
	}
	for _, l := range p.Lanes {
		p.Cleared = append(p.Cleared, l.Subject)
	}
	for _, s := range p.Cleared {
		m.changed(&lane{subject: s})
	}
}

// news returns what the log has still to say of its pauses.
func (m *monitor) news() (now windsock.Pause, why string, unsaid bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paused, m.lastError, m.unsaid && !m.gone
}

// said notes that the log says it.
func (m *monitor) said(what windsock.Pause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused == what {
		m.unsaid = false
	}
}

// delivery returns how it goes.
func (m *monitor) delivery() windsock.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := windsock.Delivery{
		State: "idle", PausedBy: m.paused,
		Backlog:  max(m.backlog-int64(len(m.early)), int64(m.open+m.parked)), // while some are uncounted those delivered may be more than those counted
		Parked:   m.parked,
		Attempts: m.attempts, NextTryAt: plain(m.nextTryAt), LastError: m.lastError,
		SuccessAt: m.successAt,
	}
	if m.waits() {
		d.State, d.OldestAt = "delivering", m.oldestAt
	}
	var next *lane
	for _, l := range m.lanes {
		if !l.parked {
			continue
		}
		if next == nil || l.nextTryAt.Before(next.nextTryAt) {
			next = l
		}
		if !l.oldestAt.IsZero() && (d.OldestAt.IsZero() || l.oldestAt.Before(d.OldestAt)) {
			d.OldestAt = l.oldestAt
		}
	}
	if next != nil && m.attempts == 0 && m.paused == "" {
		d.Attempts, d.NextTryAt, d.LastError = next.attempts, plain(next.nextTryAt), next.lastError
	}
	switch {
	case m.paused != "":
		d.State = "paused"
		if m.paused == windsock.PausedByOperator {
			d.NextTryAt = time.Time{}
		}
	case m.target.Pending():
		d.State = "pending"
	case m.attempts > 0 || next != nil && !m.waits():
		d.State = "retrying"
	}
	return d
}

// plain returns a time as it is kept: the same before and after a restart.
func plain(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// subjectOf returns what an event is about.
func subjectOf(e *windsock.Event) windsock.Subject {
	return windsock.Subject{Kind: e.Kind, ID: e.SubjectID}
}
