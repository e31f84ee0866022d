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
	HeldBy           string `db:"held_by"`
	HeldTrace        string `db:"held_trace"`
	Told             string `db:"told"` // the state of which a word was told last; "": that is not known, or to be told again
}

const heldColumns = `maintenance_until, edges, unstable_until, held, held_by, held_trace, told`

func (r *heldRow) fields() []any {
	return []any{&r.MaintenanceUntil, &r.Edges, &r.UnstableUntil, &r.Held, &r.HeldBy, &r.HeldTrace, &r.Told}
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

// rouseAll has all those judged anew, soon, for whom callbacks wait.
func (t *tx) rouseAll() {
	for _, table := range [...]string{`instances`, `deployments`} {
		t.exec(`UPDATE `+table+` SET deadline_at = ? WHERE held = 1`, t.micros)
	}
	t.due(t.micros)
}

// A hold is why callbacks of a subject wait.
type hold struct {
	why   windsock.Hold
	by    string // in words
	until int64  // 0: until something else changes
}

// holdOf returns why callbacks of d wait, or of an instance of it.
func (w *working) holdOf(d *deployment, i *instance) hold {
	of, r := &d.observedRow, &d.heldRow
	if i != nil {
		of, r = &i.observedRow, &i.heldRow
	}
	if maintenance := max(r.MaintenanceUntil, d.MaintenanceUntil); maintenance > w.micros {
		return hold{windsock.Maintenance, "maintenance", maintenance}
	}
	if s := w.silenced(d, i); s != nil {
		return hold{windsock.Silenced, s.Holder(), micros(s.EndsAt)}
	}
	if d.depends() && (r.Held || windsock.Heard(windsock.State(of.State)) == windsock.FailDetected) {
		since := fromMicros(of.Since)
		if d.DependsOn == nothing && d.seenToFail(i) {
			since = time.Time{} // whoever shows that knows what it runs on
		}
		if why, until := windsock.Blame(w.parentsOf(d), since, w.now); why != "" {
			return hold{windsock.Dependent, why, micros(until)}
		}
	}
	if r.UnstableUntil > w.micros {
		return hold{windsock.Unstable, "it changes all the time", r.UnstableUntil}
	}
	return hold{}
}

// withhold completes the event that something is news of a subject: its word may have to
// wait. Looks is how long whoever saw it takes for three looks.
func (w *working) withhold(e *windsock.Event, d *deployment, i *instance, looks time.Duration) {
	r := &d.heldRow
	if i != nil {
		r = &i.heldRow
	}
	if e.Word != "" {
		w.holdWord(e, r, d, i, looks)
	}
	e.Unstable = r.UnstableUntil > w.micros
}

func (w *working) holdWord(e *windsock.Event, r *heldRow, d *deployment, i *instance, looks time.Duration) {
	first := false
	if d.flaps() {
		was := r.UnstableUntil > w.micros
		r.setFlapping(r.flapping().Edge(w.now, looks))
		first = !was && r.UnstableUntil > 0
	}
	h := w.holdOf(d, i)
	if !h.why.Holds(e.Word, first, r.Held) {
		r.tell(e.Word, e.State)
		return
	}
	e.Held, e.Word, e.HeldBy = e.Word, "", h.by
	r.Held, r.HeldBy, r.HeldTrace = true, h.by, traceText(w.op.trace)
	if h.why != windsock.Dependent {
		r.Told = "" // at the end it is told how it is, whatever that is
	}
}

// tell notes that a word is told of a state, if it is one.
func (r *heldRow) tell(word windsock.Word, state windsock.State) {
	if word != "" {
		r.Told = string(state)
	}
}

// waits reports whether there is something to be told of a subject when nothing holds it any
// more.
func (r *heldRow) waits() bool { return r.Held || r.UnstableUntil > 0 }

// release ends what was held of a subject that waits and is in a state, if it is over, and
// reports whether it was. It returns the word that is to be told now: none if one that
// depends on others came to be again what it was.
func (r *heldRow) release(h hold, state windsock.State) (word windsock.Word, over bool) {
	if h.why != windsock.NoHold {
		return "", false
	}
	if r.UnstableUntil > 0 || r.Told != string(state) {
		word = windsock.Heard(state)
	}
	r.Held, r.HeldBy, r.HeldTrace, r.UnstableUntil = false, "", "", 0
	r.tell(word, state)
	return word, true
}

// wake returns the deadline at which a subject that waits has to be judged anew: when time
// alone may change its state, or what is held is over.
func (r *heldRow) wake(deadline int64, h hold) int64 {
	if r.Held && h.why != windsock.NoHold {
		r.HeldBy = h.by // it may be something else by now
	}
	if h.until == 0 || deadline != 0 && deadline < h.until {
		return deadline
	}
	return h.until
}
