package monitors

import (
	"time"

	"windsock"
)

// All methods here want the monitor's mu to be held.

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
