package monitors

import (
	"container/heap"
	"context"
	"time"

	"windsock"
)

const (
	maxLanes    = 1000 // parked ones of one monitor; beyond, what it refuses holds up all that waits for it
	recallSize  = 16   // events that a parked lane takes from the log at once
	recallPages = 100  // what is coalesced it takes in so many pages
)

// A lane is what waits for one monitor about one subject. It goes out in the order of
// the log, one request at a time, while other lanes go on. There is one for each subject
// of which something waits in memory, and for each that is parked.
//
// A lane is parked when the monitor refused the first that waits in it. The rest of the
// monitor passes it: what it holds is a row and a part of the log, and nothing in memory
// until its time has come. It is parked until all of that was delivered.
type lane struct {
	subject windsock.Subject
	queue   []*entry // what waits in memory, oldest first
	first   int64    // the seq of the first that waits; of one that is parked, no later
	batch   *batch   // that is under way with the first of it,
	trying  int64    // up to this seq; 0: with none
	ready   bool     // it is among those that may be tried

	parked    bool
	last      int64     // the seq of the last that waits in the log
	oldestAt  time.Time // when the first that waits happened, if that is known
	attempts  int
	nextTryAt time.Time
	lastError string
	retry     *time.Timer
}

func (l *lane) busy() bool   { return l.batch != nil }
func (l *lane) closed() bool { return l.parked && l.first > l.last }

func (l *lane) push(e *entry) {
	if len(l.queue) == 0 {
		l.first = e.seq
	}
	l.queue = append(l.queue, e)
}

// pop takes what is delivered, up to seq, out.
func (l *lane) pop(seq int64) (popped []*entry) {
	n := 0
	for n < len(l.queue) && l.queue[n].Seq <= seq {
		n++
	}
	popped, l.queue = l.queue[:n], l.queue[n:]
	switch {
	case len(l.queue) > 0:
		l.first, l.oldestAt = l.queue[0].seq, l.queue[0].first().Time
	case l.parked:
		l.first = max(l.first, seq+1)
	}
	return popped
}

func (l *lane) stopRetry() {
	if l.retry != nil {
		l.retry.Stop()
		l.retry = nil
	}
}

// atOnce has the lane tried without a wait, as if never before.
func (l *lane) atOnce() {
	l.stopRetry()
	l.attempts, l.nextTryAt, l.lastError = 0, time.Time{}, ""
}

// lanes are those that may be tried, the one with the oldest event first.
type lanes []*lane

func (q lanes) Len() int           { return len(q) }
func (q lanes) Less(i, j int) bool { return q[i].first < q[j].first }
func (q lanes) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *lanes) Push(l any)        { *q = append(*q, l.(*lane)) }
func (q *lanes) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return l
}

// The methods from here on want the monitor's mu to be held.

// laneOf returns the lane of a subject, perhaps a new one.
func (m *monitor) laneOf(s windsock.Subject) *lane {
	l := m.lanes[s]
	if l == nil {
		if m.lanes == nil {
			m.lanes = map[windsock.Subject]*lane{}
		}
		l = &lane{subject: s}
		m.lanes[s] = l
	}
	return l
}

// rest puts a lane where it belongs while it is not tried: among those that may be, to
// wait for its time, or away.
func (m *monitor) rest(l *lane) {
	if m.gone || l.busy() || l.ready || m.lanes[l.subject] != l {
		return
	}
	if l.closed() {
		m.unpark(l)
	}
	m.merge(l)
	switch wait := time.Until(l.nextTryAt); {
	case !l.parked && len(l.queue) == 0:
		delete(m.lanes, l.subject)
	case l.parked && wait > 0:
		l.stopRetry()
		l.retry = time.AfterFunc(wait, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.rest(l)
			m.wake(m)
		})
	default:
		l.ready = true
		heap.Push(&m.ready, l)
	}
}

// begin takes out the lane that is to be tried next, and in a batch the others that are.
// One that is parked goes alone, not to put others at risk.
func (m *monitor) begin(cancel context.CancelFunc) *batch {
	l := heap.Pop(&m.ready).(*lane)
	b := &batch{target: m.target, lanes: []*lane{l}, most: m.most, attempt: 1 + m.attempts + l.attempts, cancel: cancel}
	l.ready, l.batch = false, b
	m.flying++
	m.spend()
	m.leftAt = time.Now()
	if m.inBatches() && !l.parked {
		m.gather(b)
	}
	return b
}

// end takes them back.
func (m *monitor) end(b *batch) {
	for _, l := range b.lanes {
		l.batch, l.trying = nil, 0
	}
	m.flying--
	m.aloft -= b.aloft
}

// mayPark reports whether a refusal is the lane's matter alone.
func (m *monitor) mayPark(l *lane) bool { return l.parked || m.parked < maxLanes }

// park has the rest of the monitor pass a lane, or keeps it parked, after its first event
// was refused.
func (m *monitor) park(l *lane, n *notice, failure string, now time.Time, rand func() float64) {
	if !l.parked {
		l.parked, l.first, l.last, l.oldestAt = true, n.first().Seq, n.Seq, n.first().Time
		m.parked++
		for _, e := range l.queue {
			l.last = max(l.last, e.Seq)
			e.notice = nil
			m.open--
		}
	}
	l.queue = nil
	l.attempts++
	l.nextTryAt = now.Add(backoff(l.attempts, rand))
	l.lastError = failure
	m.changed(l)
}

// behind notes that an event of a parked lane waits in the log.
func (l *lane) behind(n *notice) {
	if l.last < l.first {
		l.oldestAt = n.Time
	}
	l.last = max(l.last, n.Seq)
}

// unpark has a lane in which nothing waits be as all others. If the cursor is not past
// it yet, what was delivered of it must be remembered.
func (m *monitor) unpark(l *lane) {
	l.parked = false
	l.atOnce()
	m.parked--
	m.tell(l.subject, l.first-1)
	m.changed(l)
}

// changed has the row of a lane written, or removed, with the next progress.
func (m *monitor) changed(l *lane) {
	if m.rows == nil {
		m.rows = map[windsock.Subject]struct{}{}
	}
	m.rows[l.subject] = struct{}{}
}

// recalled takes in what was read from the log of a parked lane, which is complete up to
// the last that waited in it before that.
func (l *lane) recalled(queue []*entry, last int64) {
	l.queue = queue
	if len(queue) > 0 {
		l.first, l.oldestAt = queue[0].seq, queue[0].first().Time
	} else {
		l.first = max(l.first, last+1)
	}
}

// recall reads from the log what waits in a lane, from first to last, or the first of it.
func (d *Deliverer) recall(ctx context.Context, t *windsock.Target, s windsock.Subject, first, last int64) (queue []*entry, err error) {
	f := windsock.EventFilter{Scope: t.Scope, Kind: s.Kind, Subject: s.ID}
	size := recallSize
	for pages := 1; ; pages++ {
		events, err := d.Log.Events(ctx, first-1, size, f)
		if err != nil {
			return nil, err
		}
		for i := range events {
			e := &events[i]
			if first = e.Seq + 1; e.Seq > last {
				return queue, nil
			}
			if n := (&notice{Event: *e}); t.Wants(e) && !replace(t, queue, n) {
				queue = append(queue, &entry{n.Seq, n})
			}
		}
		if len(events) < size {
			return queue, nil
		}
		if len(queue) > 0 {
			if pages >= recallPages || !t.Coalesces(&queue[len(queue)-1].Event) {
				return queue, nil
			}
			size = pageSize
		}
	}
}
