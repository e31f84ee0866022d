package monitors

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"windsock"
)

const (
	maxBatch   = 500                   // events in one request,
	maxBytes   = 1 << 20               // and what they may be together, unless it is one
	maxLinger  = 50 * time.Millisecond // from one batch to the next that is not full
	batchQueue = 8 * maxBatch          // as queueSize, of a monitor that is told in batches
	batchFill  = 2 * maxBatch          // as fillSize
)

// A batch is what one request carries: one event in the format seed, several in the
// format batch, in the order of the log. Of each of its lanes it has the first that wait.
type batch struct {
	target  *windsock.Target // what the monitor was when it began
	items   []item
	lanes   []*lane
	most    int // events that it might have
	aloft   int // events of the monitor's queue in it
	attempt int // which try of its first lane, or of the monitor, it is; from 1 on
	cancel  context.CancelFunc
}

type item struct {
	*notice
	lane *lane
}

// carry takes the first that wait in the one lane of the batch; one that was refused
// alone.
func (b *batch) carry() {
	l, most := b.lanes[0], b.most
	if l.attempts > 0 {
		most = 1
	}
	for _, e := range l.queue[:min(len(l.queue), most)] {
		b.add(e, l)
	}
}

func (b *batch) add(e *entry, l *lane) {
	b.items = append(b.items, item{e.notice, l})
	l.trying = e.Seq
}

// gather has a batch take what comes next in the queue, of all lanes that may be tried.
func (m *monitor) gather(b *batch) {
	for _, e := range m.queue {
		if len(b.items) == b.most {
			break
		}
		if e.notice == nil {
			continue
		}
		l := m.lanes[e.subject()]
		if l.batch == nil {
			l.ready, l.batch = false, b
			b.lanes = append(b.lanes, l)
		}
		if l.batch == b {
			b.add(e, l)
		}
	}
	b.aloft = len(b.items)
	m.aloft += b.aloft
	m.ready = slices.DeleteFunc(m.ready, (*lane).busy)
	heap.Init(&m.ready)
}

// inBatches reports whether the monitor is told in batches.
func (m *monitor) inBatches() bool { return m.target.Format == windsock.Batch }

// room returns how many events may wait in memory, and how many are read at once.
func (m *monitor) room() (queue, page int) {
	if m.inBatches() {
		return batchQueue, batchFill
	}
	return queueSize, fillSize
}

// unbounded has the next batch be as large as any may.
func (m *monitor) unbounded() {
	m.most = 1
	if m.inBatches() {
		m.most = maxBatch
	}
}

// full reports whether the next batch will be as large as it may.
func (m *monitor) full() bool { return m.open-m.aloft >= m.most }

// lingers returns how long to wait for more. A monitor that was idle is told at once; one
// that is not has its events collected, and full batches at once.
func (m *monitor) lingers() time.Duration {
	if !m.inBatches() || m.full() || len(m.ready) == 0 || m.ready[0].parked {
		return 0
	}
	return time.Until(m.leftAt.Add(maxLinger))
}

// grow has the next batch be larger, after one that went through.
func (m *monitor) grow(b *batch) {
	if m.inBatches() && b.most == m.most {
		m.most = min(2*m.most, maxBatch)
	}
}

// narrow has the next batch hold at most so many events. While batches are not as large
// as they may be, one is under way at a time, so that halves are halves of what failed.
func (m *monitor) narrow(most int) { m.most = max(min(m.most, most), 1) }

// divide tells what was taken of a batch from what was not: of each subject all before the
// first that was refused. That parks its lane, as a callback does that is refused alone.
func (d *Deliverer) divide(m *monitor, b *batch, got answer, epoch int, now time.Time, current bool) {
	if got.meaning == refused {
		got.failed = map[string]string{b.items[0].ID: got.failure}
	}
	took := 0
	held := map[*lane]bool{}
	var first, over item // that were refused; over: and there are too many lanes already
	for _, it := range b.items {
		why, failed := got.failed[it.ID]
		switch {
		case held[it.lane]:
			continue
		case !failed:
			m.took(b, it.lane, it.notice)
			d.Metrics.told(&it.Event, now)
			took++
			continue
		case !current:
		case m.mayPark(it.lane):
			m.park(it.lane, it.notice, why, now, d.Rand)
			if first.lane == nil {
				first = it
			}
		case over.lane == nil:
			over = it
		}
		held[it.lane] = true
	}
	if took > 0 {
		if b.attempt > 1 {
			d.Logger.Info("callbacks go through again", "monitor", m.id, "seq", b.items[0].Seq, "after", b.attempt-1)
		}
		m.succeeded(epoch, now)
		m.grow(b)
	}
	if l := first.lane; l != nil {
		got.failure = got.failed[first.ID]
		if took == 0 {
			m.refused(got, epoch, now, d.Rand)
		}
		d.Logger.Warn("callback refused", "monitor", m.id, "seq", first.Seq, "attempts", l.attempts, "next_try", l.nextTryAt, "error", cut(got.failure, maxLogged))
	}
	if over.lane != nil {
		got.failure = got.failed[over.ID]
		m.failed(got, epoch, now, d.Rand)
		d.Logger.Warn("callback failed", "monitor", m.id, "seq", over.Seq, "attempts", m.attempts, "next_try", m.nextTryAt, "error", cut(got.failure, maxLogged))
	}
}

// encode makes the headers and the body of a list of events. They depend on the events
// alone, so that the same, tried again, is the same for the monitor. What is too much is
// left for another batch.
func (b *batch) encode(version string) (http.Header, []byte) {
	body := make([]byte, 0, 512*len(b.items))
	ids := sha256.New()
	for i, it := range b.items {
		it.once.Do(it.encode)
		id, _ := json.Marshal(it.ID) // text: it cannot fail
		before := len(body)
		body = append(body, `,{"id":`...)
		body = append(body, id...)
		if b.target.Progress.Window.Repeats(&it.Event) {
			body = append(body, `,"replay":true`...)
		}
		body = append(body, ',')
		body = append(body, it.body[1:]...)
		if len(body) >= maxBytes && i > 0 {
			b.items, body = b.items[:i], body[:before]
			break
		}
		ids.Write(id)
	}
	body[0] = '['
	return plainHeader("batch_"+hex.EncodeToString(ids.Sum(nil)[:16]), version), append(body, ']')
}

// failures returns which events of the batch an answer names as those that were not
// taken, and why; or why the whole batch counts as refused.
func (d *Deliverer) failures(t *windsock.Target, b *batch, got *reply) (failed map[string]string, failure string) {
	named, err := failedOf(got.body)
	if err != nil {
		return nil, fmt.Sprintf("HTTP %d, but %v", got.status, err)
	}
	for i := range b.items {
		id := b.items[i].ID
		if reason, is := named[id]; is {
			if failed == nil {
				failed = map[string]string{}
			}
			failed[id] = clean(strings.TrimSuffix(fmt.Sprintf("HTTP %d, but it failed: %s", got.status, reason), ": "), t)
		}
	}
	if len(failed) < len(named) {
		d.Logger.Warn("an answer names events that were not sent", "monitor", t.ID, "named", len(named), "sent", len(failed))
	}
	return failed, ""
}

// A failedEvent is one that an answer names: its id, or an object with that and why.
type failedEvent struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// UnmarshalJSON reads either.
func (f *failedEvent) UnmarshalJSON(data []byte) error {
	type object failedEvent
	if json.Unmarshal(data, &f.ID) != nil {
		if err := json.Unmarshal(data, (*object)(f)); err != nil {
			return err
		}
	}
	if f.ID == "" {
		return errors.New("without an id")
	}
	return nil
}

// failedOf returns the ids that an answer to a batch names, with the reasons. One that
// cannot be understood is an error: to take it for none would lose events.
func failedOf(body []byte) (map[string]string, error) {
	var said struct {
		Failed json.RawMessage `json:"failed"`
	}
	if len(body) >= maxAnswer {
		return nil, errors.New("the answer is too long to be read")
	}
	if json.Unmarshal(body, &said) != nil || said.Failed == nil {
		return nil, nil // as that of any other callback
	}
	var list []failedEvent
	if json.Unmarshal(said.Failed, &list) != nil {
		return nil, errors.New("failed is no list of ids")
	}
	failed := make(map[string]string, len(list))
	for _, f := range list {
		failed[f.ID] = f.Reason
	}
	return failed, nil
}
