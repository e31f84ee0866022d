package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"windsock"
)

// flush writes what changed.
func (w *working) flush() {
	w.server.sets++
	w.saveMoved()
	w.saveInstances()
	w.saveDeployments()
	w.rouse(w.upstream...)
	w.upstream = nil
}

func (w *working) saveInstances() {
	for _, i := range sorted(w.instances) {
		w.saveEvidence(windsock.KindInstance, i.ID, &i.body)
	}
	for _, i := range sorted(w.instances) {
		if i.changed {
			w.put(`UPDATE instances SET counts_as = ?, state = ?, since = ?, reason = ?, sources = ?, drift = ?, stale = ?, suspect = ?, deadline_at = ?,
				edges = ?, unstable_until = ?, held = ?, held_by = ?, held_trace = ?, told = ? WHERE id = ?`,
				i.CountsAs, i.State, i.Since, i.Reason, i.Sources, i.Drift, i.Stale, i.Suspect, i.DeadlineAt,
				i.Edges, i.UnstableUntil, i.Held, i.HeldBy, i.HeldTrace, i.Told, i.ID)
			w.due(i.DeadlineAt)
			i.changed = false
		}
	}
}

func (w *working) saveDeployments() {
	var left []string
	for id, d := range w.deployments {
		if d.left {
			left = append(left, id)
			d.left = false
		}
	}
	w.endSpans(left)
	for _, d := range sorted(w.deployments) {
		w.saveEvidence(windsock.KindDeployment, d.ID, &d.body)
	}
	for _, d := range sorted(w.deployments) {
		if d.changed {
			w.put(`UPDATE deployments SET tally = ?, components = ?, state = ?, since = ?, reason = ?, sources = ?, drift = ?, stale = ?, suspect = ?, deadline_at = ?,
				edges = ?, unstable_until = ?, held = ?, held_by = ?, held_trace = ?, told = ? WHERE id = ?`,
				tallyText(d.tally), phasesText(d.phases), d.State, d.Since, d.Reason, d.Sources, d.Drift, d.Stale, d.Suspect, d.DeadlineAt,
				d.Edges, d.UnstableUntil, d.Held, d.HeldBy, d.HeldTrace, d.Told, d.ID)
			w.due(d.DeadlineAt)
			d.changed = false
		}
	}
}

func (w *working) saveEvidence(kind windsock.Kind, id string, b *body) {
	for i, e := range b.evidence {
		if !b.touched[i] {
			continue
		}
		b.touched[i] = false
		w.put(`INSERT INTO evidence (kind, subject_id, `+evidenceColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (kind, subject_id, source) DO UPDATE SET
				origin = excluded.origin, state = excluded.state, since = excluded.since, observed_at = excluded.observed_at,
				received_at = excluded.received_at, expires_at = excluded.expires_at, reason = excluded.reason, raw = excluded.raw,
				requested = excluded.requested, pending = excluded.pending, samples = excluded.samples,
				blind_since = excluded.blind_since, blind_for = excluded.blind_for, stale_at = excluded.stale_at`,
			string(kind), id, e.Source, string(e.Origin), string(e.State), micros(e.Since), micros(e.ObservedAt), micros(e.ReceivedAt), micros(e.ExpiresAt),
			e.Reason, e.Raw, e.Requested, string(e.Pending), e.Samples, micros(e.BlindSince), e.BlindFor, micros(e.StaleAt))
	}
}

// tallyOf reads the column that tallyText writes: {"running/failed":1,"running/running":9}.
// Each change of a member takes both, and encoding/json a multiple of the time.
func tallyOf(column string) windsock.Tally {
	t := make(windsock.Tally, 4)
	for count := range strings.SplitSeq(strings.Trim(column, "{}"), ",") {
		states, number, some := strings.Cut(count, ":")
		if !some {
			break // there is none
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("store: tally %q: %v", column, err)) // only ever written by us
		}
		expected, state, _ := strings.Cut(strings.Trim(states, `"`), "/")
		t[windsock.Member{Expected: windsock.State(expected), State: windsock.State(state)}] = n
	}
	return t
}

func tallyText(t windsock.Tally) string {
	counts := make([]string, 0, len(t))
	for m, n := range t {
		if n != 0 {
			counts = append(counts, `"`+string(m.Expected)+"/"+string(m.State)+`":`+strconv.Itoa(n))
		}
	}
	slices.Sort(counts)
	return "{" + strings.Join(counts, ",") + "}"
}

// metadataOf reads the column; what is not there is nothing.
func metadataOf(column string) (m map[string]string) {
	if column == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(column), &m); err != nil {
		panic(fmt.Sprintf("store: metadata %q: %v", column, err)) // only ever written by us
	}
	return m
}
