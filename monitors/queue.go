package monitors

import (
	"maps"

	"windsock"
)

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

// The methods from here on want the monitor's mu to be held.

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
