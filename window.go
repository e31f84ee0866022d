package windsock

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A Range is a part of the log: the events from one seq to another.
type Range struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// A Window is what a monitor is told again. Its cursor was moved back for that: of what
// it had been told it passes over all that lies in none of the ranges. What it had not
// been told it is told as ever. No window is a nil one.
type Window struct {
	Ranges []Range           // ascending, and none touches the next
	Told   int64             // every event up to here had been told to it,
	Except map[Subject]int64 // but of these subjects those up to another seq
}

// Repeats reports whether e is one that is told again.
func (w *Window) Repeats(e *Event) bool { return w != nil && w.told(e) && w.holds(e.Seq) }

// Passes reports whether e is one that the monitor was told and need not hear again.
func (w *Window) Passes(e *Event) bool { return w != nil && w.told(e) && !w.holds(e.Seq) }

func (w *Window) told(e *Event) bool { return e.Seq <= w.toldOf(Subject{e.Kind, e.SubjectID}) }

func (w *Window) toldOf(s Subject) int64 {
	if seq, ok := w.Except[s]; ok {
		return seq
	}
	return w.Told
}

func (w *Window) holds(seq int64) bool {
	return slices.ContainsFunc(w.Ranges, func(r Range) bool { return r.First <= seq && seq <= r.Last })
}

// Next returns the first part of the log after a seq, from another on, in which there may
// be something to tell. Nobody need read what lies between.
func (w *Window) Next(after int64) (from, to int64) {
	if w == nil || after >= w.Told {
		return after, math.MaxInt64
	}
	for _, seq := range w.Except {
		if seq < w.Told {
			return after, math.MaxInt64 // something of that subject may be anywhere
		}
	}
	for _, r := range w.Ranges {
		if after < r.Last && r.First <= w.Told {
			return max(after, r.First-1), r.Last
		}
	}
	return w.Told, math.MaxInt64
}

// End returns the last seq that it says anything of.
func (w *Window) End() int64 {
	end := w.Told
	for _, seq := range w.Except {
		end = max(end, seq)
	}
	return end
}

// Wants reports whether an event in the monitor's scope is one to call it back for: it
// asked for such, and was not told it before a replay that does not hold it.
func (t *Target) Wants(e *Event) bool { return t.Monitor.Wants(e) && !t.Progress.Window.Passes(e) }

// Reach returns the seq of the last event that a monitor may have been told.
func (p *Progress) Reach() int64 {
	reach := p.Cursor
	for _, seq := range p.Ahead {
		reach = max(reach, seq)
	}
	if p.Window != nil {
		reach = max(reach, p.Window.End())
	}
	return reach
}

// Again returns the progress of a monitor that is told r again, which ends within its
// reach, and what it is being told again already. A lane in which an event of that waits
// is cleared: the monitor is told of its subject from the beginning of r on.
func (p *Progress) Again(r Range) Progress {
	was := p.Window
	if was == nil {
		was = &Window{}
	}
	w := &Window{Told: max(p.Cursor, was.Told), Except: map[Subject]int64{}}
	rest := p.Cursor // nothing up to here waits to be told again
	for s := range was.Except {
		w.Except[s] = p.Cursor
	}
	maps.Copy(w.Except, p.Ahead)
	for _, l := range p.Lanes {
		w.Except[l.Subject] = l.FirstSeq - 1
		rest = min(rest, l.FirstSeq-1)
	}
	for s, seq := range w.Except {
		if w.Except[s] = max(seq, was.toldOf(s)); w.Except[s] == w.Told {
			delete(w.Except, s)
		}
	}
	w.Ranges = append(w.Ranges, r)
	for _, old := range was.Ranges {
		if old.First = max(old.First, rest+1); old.First <= old.Last {
			w.Ranges = append(w.Ranges, old)
		}
	}
	w.Ranges = joined(w.Ranges)

	next := *p
	next.Round++
	next.Cursor, next.Ahead, next.Window, next.Lanes, next.Cleared = min(p.Cursor, r.First-1), nil, w, nil, nil
	for _, l := range p.Lanes {
		if l.FirstSeq > next.Cursor+1 {
			next.Cleared = append(next.Cleared, l.Subject)
		} else {
			next.Lanes = append(next.Lanes, l)
		}
	}
	return next
}

// joined returns the ranges in order, those that overlap or touch as one.
func joined(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	list := ranges[:1]
	for _, r := range ranges[1:] {
		if last := &list[len(list)-1]; r.First <= last.Last+1 {
			last.Last = max(last.Last, r.Last)
		} else {
			list = append(list, r)
		}
	}
	return list
}
