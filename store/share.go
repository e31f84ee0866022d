package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"windsock"
)

// lookPause is how long after one look what is whose the next one waits, however much
// other processes commit meanwhile.
const lookPause = 200 * time.Millisecond

// A lot are units that a worker of this process takes part in.
type lot struct {
	worker windsock.Worker
	units  []string
	under  sync.WaitGroup // for the ends of terms
}

// Share has a worker do those of some units that are for this process to do, until ctx
// ends: as many as each other process has that takes part in their group, or one more. Run
// has to run. What is written under a context of a unit's term is written only while the
// lease is held.
func (s *Store) Share(ctx context.Context, w windsock.Worker, units ...string) error {
	l := &lot{worker: w, units: slices.Sorted(slices.Values(units))}
	s.terms.mu.Lock()
	s.terms.lots = append(s.terms.lots, l)
	s.terms.mu.Unlock()
	select {
	case s.terms.kick <- struct{}{}:
	default:
	}
	<-ctx.Done()

	s.terms.turn.Lock() // nothing is taken meanwhile
	s.terms.mu.Lock()
	s.terms.lots = slices.DeleteFunc(s.terms.lots, func(other *lot) bool { return other == l })
	s.terms.mu.Unlock()
	err := s.publish(context.WithoutCancel(ctx)) // or others would leave to us what we give up
	s.terms.turn.Unlock()
	for _, m := range s.held() {
		if m.lot == l {
			m.finish()
		}
	}
	l.under.Wait()
	if err != nil {
		s.Logger.Warn("others are not told that this process ends", "error", err)
	}
	return nil
}

// share has this process do what is for it to do, until ctx ends.
func (s *Store) share(ctx context.Context) {
	for failing := false; ctx.Err() == nil; {
		moved := s.moved.wait()
		err := s.allot(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			s.Logger.Error("no lease can be taken, will go on trying", "error", err)
		}
		failing = err != nil
		pause := time.After(lookPause)
		select {
		case <-ctx.Done():
		case <-s.terms.kick:
		case <-moved:
			select {
			case <-ctx.Done():
			case <-s.terms.kick:
			case <-pause:
			}
		}
	}
}

type leaseRow struct {
	Name   string `db:"name"`
	Holder int64  `db:"holder"`
	Fence  int64  `db:"fence"`
	Since  int64  `db:"since"`
}

const unitViews = `SELECT name, holder, fence, since FROM leases`

// allot looks which units are for this process to do, takes those that are free and gives
// up those that are for others.
//
// A lease is free when its holder gave it up, is gone, or has given no sign of life for as
// long as a lease lasts, by our own clock: those of others may be wrong.
func (s *Store) allot(ctx context.Context) error {
	s.terms.turn.Lock()
	defer s.terms.turn.Unlock()
	if err := s.publish(ctx); err != nil {
		return err
	}
	var rows []replicaRow
	var leases []leaseRow
	r := reader{ctx, s.read}
	if err := r.query(&rows, replicaViews); err != nil {
		return err
	}
	if err := r.query(&leases, unitViews+` ORDER BY name`); err != nil {
		return err
	}
	if err := s.forgetProcesses(ctx, rows); err != nil {
		return err
	}
	wants := map[int64]func(string) bool{}
	for i := range rows {
		if r := &rows[i]; r.ID == s.id || s.there(r.ID) && s.quiet(r) < leaseLasts {
			wants[r.ID] = r.wants()
		}
	}
	if wants[s.id] == nil || s.Era() == 0 { // what we took now would not stand
		return nil
	}
	now, known := map[string]int64{}, map[string]leaseRow{}
	for _, l := range leases {
		known[l.Name] = l
		if wants[l.Holder] != nil {
			now[l.Name] = l.Holder
		}
	}
	s.terms.mu.Lock()
	lots := slices.Clone(s.terms.lots)
	s.terms.mu.Unlock()
	var free []*Term
	for _, l := range lots {
		to := assign(s.groupOf(l, leases), now, wants)
		for _, unit := range l.units {
			m := s.term(unit)
			switch mine := to[unit] == s.id; {
			case mine && m == nil && (now[unit] == 0 || now[unit] == s.id):
				free = append(free, &Term{s: s, lot: l, unit: unit, fence: known[unit].Fence + 1})
			case !mine && m != nil:
				s.Logger.Debug("gives up the lease", "unit", unit)
				m.finish()
			case !mine && now[unit] == s.id: // it could not be given up
				s.resign(&Term{s: s, unit: unit, fence: known[unit].Fence})
			}
		}
	}
	return s.take(ctx, free, known, rows)
}

// groupOf returns the units of a lot with those of their group that only others know.
func (s *Store) groupOf(l *lot, leases []leaseRow) []string {
	units := slices.Clone(l.units)
	for _, lease := range leases {
		if windsock.UnitGroup(lease.Name) == windsock.UnitGroup(l.units[0]) {
			units = append(units, lease.Name)
		}
	}
	slices.Sort(units)
	return slices.Compact(units)
}

// take begins terms, but for those whose leases changed since they were seen, or whose
// holders gave a sign of life.
func (s *Store) take(ctx context.Context, free []*Term, seen map[string]leaseRow, replicas []replicaRow) error {
	if len(free) == 0 {
		return nil
	}
	var taken []*Term
	err := s.do(ctx, func(t *tx) error {
		var now []leaseRow
		t.all(&now, unitViews)
		leases := map[string]leaseRow{}
		for _, l := range now {
			leases[l.Name] = l
		}
		var alive []replicaRow
		t.all(&alive, replicaViews)
		stirred := func(id int64) bool {
			return id != s.id && slices.ContainsFunc(alive, func(r replicaRow) bool {
				return r.ID == id && !slices.ContainsFunc(replicas, func(old replicaRow) bool { return old.ID == id && old.SeenAt == r.SeenAt })
			})
		}
		taken = taken[:0]
		for _, m := range free {
			if leases[m.unit] != seen[m.unit] || stirred(seen[m.unit].Holder) {
				continue
			}
			t.exec(`INSERT INTO leases (name, holder, fence, since) VALUES (?, ?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = excluded.fence, since = excluded.since`,
				m.unit, s.id, m.fence, t.micros)
			taken = append(taken, m)
		}
		t.fences = nil
		return t.err
	})
	if err != nil || len(taken) == 0 {
		return err
	}
	began := map[*lot]map[string]windsock.Term{}
	for _, m := range taken {
		if began[m.lot] == nil {
			began[m.lot] = map[string]windsock.Term{}
		}
		began[m.lot][m.unit] = m
	}
	for l, units := range began {
		l.worker.Begin(units)
	}
	s.terms.mu.Lock() // only now, as they may be lost from then on
	defer s.terms.mu.Unlock()
	for _, m := range taken {
		s.terms.held[m.unit] = m
	}
	s.Logger.Debug("holds more leases", "units", len(taken))
	return nil
}

// publish tells the others in what this process takes part, if that is not what they know.
func (s *Store) publish(ctx context.Context) error {
	wants := []string{}
	s.terms.mu.Lock()
	for _, l := range s.terms.lots {
		for _, u := range l.units {
			if g := windsock.UnitGroup(u); g != "provider" { // of which each process may know others
				u = g
			}
			if !slices.Contains(wants, u) {
				wants = append(wants, u)
			}
		}
	}
	published := s.terms.wants
	s.terms.mu.Unlock()
	text, err := json.Marshal(wants)
	if err != nil || string(text) == published {
		return err
	}
	err = s.do(ctx, func(t *tx) error {
		t.exec(`UPDATE replicas SET wants = ? WHERE id = ?`, string(text), s.id)
		return t.err
	})
	if err == nil {
		s.terms.mu.Lock()
		s.terms.wants = string(text)
		s.terms.mu.Unlock()
	}
	return err
}

// wants returns of a process whether it takes part in a unit.
func (r *replicaRow) wants() func(unit string) bool {
	var list []string
	json.Unmarshal([]byte(r.Wants), &list) // what another version wrote and we cannot read it does not want
	return func(unit string) bool {
		return slices.Contains(list, unit) || slices.Contains(list, windsock.UnitGroup(unit))
	}
}

// A sign is when a process said that it is there, by its clock, and when we saw that.
type sign struct {
	seenAt int64
	at     time.Time
}

// forgottenAfter is how long a process may say nothing before it is forgotten.
const forgottenAfter = 5 * leaseLasts

// quiet is for how long a process has said nothing, by our own clock.
func (s *Store) quiet(r *replicaRow) time.Duration {
	last, known := s.terms.signs[r.ID]
	if !known || last.seenAt != r.SeenAt {
		last = sign{r.SeenAt, time.Now()}
		s.terms.signs[r.ID] = last
	}
	return time.Since(last.at)
}

// forgetProcesses forgets those that are gone.
func (s *Store) forgetProcesses(ctx context.Context, rows []replicaRow) error {
	var gone []replicaRow
	for i := range rows {
		if r := &rows[i]; r.ID != s.id && (!s.there(r.ID) || s.quiet(r) > forgottenAfter) {
			gone = append(gone, *r)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	err := s.do(ctx, func(t *tx) error {
		for _, r := range gone {
			t.exec(`DELETE FROM replicas WHERE id = ? AND seen_at = ?`, r.ID, r.SeenAt)
		}
		return t.err
	})
	if err != nil {
		return fmt.Errorf("processes that are gone cannot be forgotten: %w", err)
	}
	return nil
}

// Heir reports whether another process goes on with a unit once this one gives it up.
func (s *Store) Heir(unit string) bool {
	var rows []replicaRow
	err := reader{context.Background(), s.read}.query(&rows, replicaViews)
	return err == nil && slices.ContainsFunc(rows, func(r replicaRow) bool { return r.ID != s.id && s.there(r.ID) && r.wants()(unit) })
}

// Holders returns which process does each unit that is done, by its number.
func (s *Store) Holders(ctx context.Context) (map[string]int64, error) {
	var leases []leaseRow
	if err := (reader{ctx, s.read}).query(&leases, unitViews+` WHERE holder <> 0`); err != nil {
		return nil, err
	}
	holders := make(map[string]int64, len(leases))
	for _, l := range leases {
		holders[l.Name] = l.Holder
	}
	return holders, nil
}
