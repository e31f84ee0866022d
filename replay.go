package windsock

import "time"

// ReplaySpec says what a monitor is to be told again: one event, what happened since a
// time or, else, a range.
type ReplaySpec struct {
	Event        string // its id or its seq
	Since, Until time.Time
	Range        Range
}

// Replayed counts the events of a monitor in a range.
type Replayed struct {
	Count int64 `json:"count"`
	First int64 `json:"first_seq,omitempty"` // the seq of the first of them,
	Last  int64 `json:"last_seq,omitempty"`  // and of the last
}

// And returns what both count.
func (r Replayed) And(more Replayed) Replayed {
	switch {
	case r.Count == 0:
		return more
	case more.Count == 0:
		return r
	}
	return Replayed{r.Count + more.Count, min(r.First, more.First), max(r.Last, more.Last)}
}
