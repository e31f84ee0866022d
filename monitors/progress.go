package monitors

import (
	"maps"
	"time"

	"windsock"
)

// The methods here are for others than the Deliverer, and lock the monitor's mu themselves.

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
