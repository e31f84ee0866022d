package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"windsock"
)

// maxRanges is how many parts of the log, apart from each other, one monitor may be told
// again at a time.
const maxRanges = 100

// ReplayMonitor has a monitor told again what want selects of that which it was told, and
// returns what that is; if dry, it changes nothing. It returns ErrNotFound for an event
// that there is not, and ErrPruned when some of the range are no longer kept.
func (s *Store) ReplayMonitor(ctx context.Context, id string, want windsock.ReplaySpec, dry bool) (r windsock.Replayed, err error) {
	target, err := s.Target(ctx, id)
	if err != nil {
		return r, err
	}
	part, err := s.rangeOf(ctx, want)
	if err != nil {
		return r, err
	}
	part.Last = min(part.Last, target.Progress.Reach())
	for after := part.First - 1; after < part.Last; after += countStep { // it takes long, and so is done before
		n, err := concerning(reader{ctx, s.read}, &target.Monitor, after, min(part.Last, after+countStep), windsock.Subject{})
		if err != nil {
			return r, err
		}
		r = r.And(n)
	}
	if dry || r.Count == 0 {
		return r, nil
	}
	return r, s.do(ctx, func(t *tx) error { return t.replay(id, part) })
}

// replay moves the cursor of a monitor back, in another round, so that what the deliverer
// saves meanwhile does not undo it.
func (t *tx) replay(id string, part windsock.Range) error {
	target, err := viewMonitor(t, id)
	if err != nil {
		return err
	}
	var pruned int64
	if t.get(&pruned, `SELECT pruned FROM log`); part.First <= pruned {
		return tooOld(pruned)
	}
	next := target.Progress.Again(part)
	if len(next.Window.Ranges) > maxRanges {
		return fmt.Errorf("%d ranges are told again to monitor %q already, %w", maxRanges, id, windsock.ErrTooMany)
	}
	t.exec(`UPDATE monitors SET cursor = ?, ahead = '', round = ?, replay = ? WHERE id = ?`, next.Cursor, next.Round, windowText(next.Window), id)
	t.exec(`DELETE FROM lanes WHERE monitor_id = ? AND first_seq > ?`, id, next.Cursor+1)
	t.tellAgain(id, part)
	t.log(&windsock.Event{
		Type: windsock.MonitorReplayed, Kind: windsock.KindMonitor, SubjectID: id,
		Reason: fmt.Sprintf("by an operator, to hear events %d to %d again", part.First, part.Last),
	})
	return t.err
}

func tooOld(pruned int64) error {
	return fmt.Errorf("the oldest event is %d, those before it are %w", pruned+1, windsock.ErrPruned)
}

// rangeOf returns the part of the log that want selects.
func (s *Store) rangeOf(ctx context.Context, want windsock.ReplaySpec) (r windsock.Range, err error) {
	l, err := s.extent(ctx)
	if err != nil {
		return r, err
	}
	switch {
	case want.Event != "":
		seq, ok := s.seqOf(want.Event)
		if !ok || seq > l.Head {
			return r, fmt.Errorf("event %q: %w", windsock.Clip(want.Event), windsock.ErrNotFound)
		}
		r = windsock.Range{First: seq, Last: seq}
	case !want.Since.IsZero():
		if r.First, err = s.firstSince(ctx, l, want.Since); err != nil {
			return r, err
		}
		if r.Last = l.Head; !want.Until.IsZero() {
			r.Last, err = s.firstSince(ctx, l, want.Until.Add(time.Microsecond))
			r.Last--
		}
		if l.Pruned > 0 && r.First == l.Pruned+1 && r.First <= l.Head {
			r.First = l.Pruned // some that are not kept any more may be as new
		}
	default:
		r = want.Range
	}
	if err == nil && r.First <= l.Pruned {
		err = tooOld(l.Pruned)
	}
	return r, err
}

// seqOf returns the seq that an event is named by, or that is part of its id.
func (s *Store) seqOf(event string) (seq int64, ok bool) {
	seq, log, err := windsock.ParseEvent(event)
	return seq, err == nil && (log == "" || log == s.logID)
}

// firstSince returns the seq of the first event that is kept and happened at a time or
// later; the head's, and one, if there is none.
func (s *Store) firstSince(ctx context.Context, l extent, at time.Time) (seq int64, err error) {
	n := sort.Search(int(l.Head-l.Pruned), func(i int) bool { // times rise with seq, but for a clock that was set back
		var when int64
		if err == nil {
			err = s.read.GetContext(ctx, &when, `SELECT at FROM events WHERE seq = ?`, l.Pruned+1+int64(i))
		}
		return when >= micros(at)
	})
	return l.Pruned + 1 + int64(n), unavailable(err)
}

// window is a windsock.Window as it is kept.
type window struct {
	Ranges []windsock.Range `json:"ranges"`
	Told   int64            `json:"told"`
	Except []place          `json:"except,omitempty"`
}

func windowText(w *windsock.Window) string {
	return jsonText(window{w.Ranges, w.Told, placesOf(w.Except)})
}

func readWindow(text string) *windsock.Window {
	if text == "" {
		return nil
	}
	var w window
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		panic(fmt.Sprintf("store: replay %q: %v", text, err)) // only ever written by us
	}
	return &windsock.Window{Ranges: w.Ranges, Told: w.Told, Except: fromPlaces(w.Except)}
}
