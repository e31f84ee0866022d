package monitors

import (
	"slices"

	"windsock"
)

// Of a subject of which several events wait, a monitor may want to hear the newest alone.
// Then what waits is at most two notices of a subject, one of which is being tried; the
// queue holds the place of the first event of each.

// latestSize is how many subjects may wait in memory for a monitor that hears of each the
// newest event, and a page of the log more. They are more than otherwise: while some of
// a long backlog find no room, others go out before the newest of them was read.
const latestSize = 1024

// hasRoom reports whether the monitor may take in another event, and so need not lag.
func (m *monitor) hasRoom() bool {
	if m.coalesces() {
		return len(m.queue) <= latestSize
	}
	most, _ := m.room()
	return len(m.queue) < most
}

// coalesces reports whether what the monitor reads next is coalesced.
func (m *monitor) coalesces() bool {
	return m.target.Backlog == windsock.Latest || m.read < m.target.Progress.LatestTo
}

// holds reports whether the monitor reads on before it is sent anything: what waited when
// it began to read, so that all of that is coalesced.
func (m *monitor) holds() bool { return m.coalesces() && m.read < m.holdTo && m.mustFill() }

// replace has the last of queue and n told as one, if they may be.
func replace(t *windsock.Target, queue []*entry, n *notice) bool {
	if len(queue) == 0 {
		return false
	}
	last := queue[len(queue)-1]
	if !t.Coalesces(&last.Event) || !t.Coalesces(&n.Event) {
		return false
	}
	last.notice = &notice{ // another one: others may be told the same
		Event:  windsock.Coalesce(last.Event, n.Event),
		oldest: last.first(), stands: last.events() + n.events(),
	}
	return true
}

// untried returns what waits in l and is not being tried.
func (l *lane) untried() []*entry {
	for i, e := range l.queue {
		if e.Seq > l.trying {
			return l.queue[i:]
		}
	}
	return nil
}

// merge makes one of what waits in l, as far as it is told as one: while the first was
// being tried the others could not take its place.
func (m *monitor) merge(l *lane) {
	for !l.parked && len(l.queue) > 1 && replace(m.target, l.queue[:1], l.queue[1].notice) {
		l.queue[1].notice = nil
		m.open--
		l.queue = slices.Delete(l.queue, 1, 2)
	}
}

// first returns the first event that the notice is told for.
func (n *notice) first() *windsock.Event {
	if n.oldest != nil {
		return n.oldest
	}
	return &n.Event
}

// events returns for how many events it is told.
func (n *notice) events() int64 { return max(n.stands, 1) }
