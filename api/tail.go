package api

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"windsock"
)

// A tail is the newest part of the log as streams send it: read and written out once for
// all of them that want to hear everything.
type tail struct {
	mu    sync.Mutex
	after int64 // it has all events after this one,
	upTo  int64 // up to this one
	ends  []end // of each, in order
	text  []byte
	open  atomic.Int64 // streams that read it
}

// An end is where the text of an event ends. The text is only ever appended to, and when
// it is cut another one is begun, so that streams can send parts of it as they are.
type end struct {
	seq int64
	at  int
}

const (
	tailBytes  = 1 << 20          // of text it keeps at least, once it has as many
	tailBehind = 10_000           // events it reads at most to come up with the log
	turn       = time.Millisecond // what each stream adds to the time between two sends of one
)

// pace is how long a stream is to look away after it sent something. Together they send
// a thousand times a second, however many they are.
func (t *tail) pace() time.Duration {
	return max(settle, time.Duration(t.open.Load())*turn)
}

// since returns what there is to send after an event, and the seq of the last of it. It is
// not ok when the tail does not reach back so far.
func (t *tail) since(ctx context.Context, log Log, after int64) (text []byte, upTo int64, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.read(ctx, log); err != nil {
		return nil, after, false, err
	}
	if after < t.after {
		return nil, after, false, nil
	}
	i, _ := slices.BinarySearchFunc(t.ends, after+1, func(e end, seq int64) int { return int(e.seq - seq) })
	from := 0
	if i > 0 {
		from = t.ends[i-1].at
	}
	return t.text[from:len(t.text):len(t.text)], max(after, t.upTo), true, nil
}

// read comes up with the log, or begins anew at its end.
func (t *tail) read(ctx context.Context, log Log) error {
	head := log.Head()
	if head-t.upTo > tailBehind {
		t.begin(head)
	}
	var frame bytes.Buffer
	for t.upTo < head {
		found, err := log.Events(ctx, t.upTo, windsock.MaxPage, windsock.EventFilter{})
		if errors.Is(err, windsock.ErrPruned) {
			t.begin(head)
			return nil
		}
		if err != nil {
			return err
		}
		for i := range found {
			frame.Reset()
			if err := writeEvent(&frame, &found[i]); err != nil {
				return err
			}
			t.text = append(t.text, frame.Bytes()...)
			t.ends = append(t.ends, end{found[i].Seq, len(t.text)})
			t.upTo = found[i].Seq
		}
		if len(found) < windsock.MaxPage {
			t.upTo = max(t.upTo, head)
		}
		t.cut()
	}
	return nil
}

func (t *tail) begin(at int64) {
	t.after, t.upTo, t.ends, t.text = at, at, nil, nil
}

// cut forgets the older half of what is more than enough.
func (t *tail) cut() {
	if len(t.text) < 2*tailBytes {
		return
	}
	i, _ := slices.BinarySearchFunc(t.ends, len(t.text)-tailBytes, func(e end, at int) int { return e.at - at })
	gone := t.ends[i]
	t.after, t.text, t.ends = gone.seq, slices.Clone(t.text[gone.at:]), slices.Clone(t.ends[i+1:])
	for j := range t.ends {
		t.ends[j].at -= gone.at
	}
}
