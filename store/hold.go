package store

import (
	"strconv"
	"strings"
	"time"

	"windsock"
)

// heldRow is the part of a subject's row that says which callbacks wait. Its columns are
// among those of the observed part.
type heldRow struct {
	MaintenanceUntil int64  `db:"maintenance_until"`
	Edges            string `db:"edges"`
	UnstableUntil    int64  `db:"unstable_until"`
	Held             bool   `db:"held"`
}

const heldColumns = `maintenance_until, edges, unstable_until, held`

func (r *heldRow) fields() []any {
	return []any{&r.MaintenanceUntil, &r.Edges, &r.UnstableUntil, &r.Held}
}

func (r *heldRow) flapping() windsock.Flapping {
	f := windsock.Flapping{Until: fromMicros(r.UnstableUntil)}
	if r.Edges == "" {
		return f
	}
	for text := range strings.SplitSeq(r.Edges, ",") {
		at, _ := strconv.ParseInt(text, 10, 64) // only ever written by us
		f.Edges = append(f.Edges, fromMicros(at))
	}
	return f
}

func (r *heldRow) setFlapping(f windsock.Flapping) {
	edges := make([]string, len(f.Edges))
	for i, at := range f.Edges {
		edges[i] = strconv.FormatInt(micros(at), 10)
	}
	r.Edges, r.UnstableUntil = strings.Join(edges, ","), micros(f.Until)
}

// hold returns why callbacks of the subject wait, and until when. Its deployment, if it
// is an instance, may be in maintenance, too.
func (r *heldRow) hold(of *heldRow, now time.Time) (why windsock.Hold, until int64) {
	maintenance := max(r.MaintenanceUntil, of.MaintenanceUntil)
	switch at := micros(now); {
	case maintenance > at:
		return windsock.Maintenance, maintenance
	case r.UnstableUntil > at:
		return windsock.Unstable, r.UnstableUntil
	}
	return windsock.NoHold, 0
}

// withhold completes the event that something is news of a subject: its word may have to
// wait. Looks is how long whoever saw it takes for three looks.
func (r *heldRow) withhold(e *windsock.Event, of *heldRow, flaps bool, looks time.Duration, now time.Time) {
	first := false
	if flaps && e.Word != "" {
		was := r.UnstableUntil > micros(now)
		r.setFlapping(r.flapping().Edge(now, looks))
		first = !was && r.UnstableUntil > 0
	}
	why, _ := r.hold(of, now)
	if why.Holds(e.Word, first) {
		e.Held, e.Word = e.Word, ""
		r.Held = true
	}
	e.Unstable = r.UnstableUntil > micros(now)
}

// release ends what was held of a subject, if it is over, and reports whether it was.
func (r *heldRow) release(of *heldRow, now time.Time) bool {
	if why, _ := r.hold(of, now); why != windsock.NoHold || !r.Held && r.UnstableUntil == 0 {
		return false
	}
	r.Held, r.UnstableUntil = false, 0
	return true
}

// wake returns the deadline at which a subject has to be judged anew: when time alone may
// change its state, or what is held is over.
func (r *heldRow) wake(deadline int64, of *heldRow, now time.Time) int64 {
	why, until := r.hold(of, now)
	if why == windsock.NoHold || !r.Held && r.UnstableUntil == 0 || deadline != 0 && deadline < until {
		return deadline
	}
	return until
}
