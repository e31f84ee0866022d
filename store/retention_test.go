package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"windsock"
)

// flap has web-1 fail and come back until n more events are in the log.
func flap(t *testing.T, s *Store, n int) {
	t.Helper()
	for end := s.Head() + int64(n); s.Head() < end; {
		state := windsock.Failed
		if must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")).State == windsock.Failed {
			state = windsock.Running
		}
		record(t, s, instanceSaid("web-1", "nagios", state))
	}
}

// added registers a monitor and moves it to a place in the log.
func listening(t *testing.T, s *Store, port int, spec windsock.MonitorSpec) windsock.Monitor {
	t.Helper()
	spec.Address, spec.Port = "127.0.0.1", port
	return must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, windsock.Keys{})).Monitor
}

func reached(t *testing.T, s *Store, id string, seq int64) {
	t.Helper()
	now := must[windsock.Target](t)(s.Target(t.Context(), id))
	if err := s.SaveProgress(t.Context(), []windsock.Progress{{MonitorID: id, Round: now.Progress.Round, Cursor: seq}}); err != nil {
		t.Fatal(err)
	}
}

// keep keeps the last so many events, and twice as many for who is behind.
func keep(s *Store, events int64) *Retention {
	return &Retention{Store: s, Age: 24 * time.Hour, Events: events, Horizon: 2}
}

func pass(t *testing.T, r *Retention) {
	t.Helper()
	if err := r.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// prunedUpTo checks where the log begins: what it says, and what there is.
func prunedUpTo(t *testing.T, s *Store, seq int64) {
	t.Helper()
	l := must[extent](t)(s.extent(t.Context()))
	var first, n int64
	if err := s.read.QueryRow(`SELECT min(seq), count(*) FROM events`).Scan(&first, &n); err != nil {
		t.Fatal(err)
	}
	if l.Pruned != seq || first != seq+1 || n != l.Head-seq {
		t.Errorf("pruned up to %d, the first of %d events is %d; want up to %d, of %d", l.Pruned, n, first, seq, l.Head-seq)
	}
}

func gaps(t *testing.T, s *Store) []windsock.Event {
	t.Helper()
	l := must[extent](t)(s.extent(t.Context()))
	return must[[]windsock.Event](t)(s.Events(t.Context(), l.Pruned, 1000, windsock.EventFilter{Type: windsock.LogGap}))
}

func TestOldEventsAreDeletedByCount(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		flap(t, s, 2*pruneStep)
		pass(t, keep(s, 100))
		prunedUpTo(t, s, s.Head()-100)
		pass(t, keep(s, 100))
		prunedUpTo(t, s, s.Head()-100)
	})
}

func TestOldEventsAreDeletedByAge(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1")
		flap(t, s, 20)
		old := s.Head()
		c.advance(25 * time.Hour)
		flap(t, s, 20)
		pass(t, keep(s, 1e6))
		prunedUpTo(t, s, old)
		head := s.Head()
		c.advance(25 * time.Hour)
		pass(t, keep(s, 1e6))
		if l := must[extent](t)(s.extent(t.Context())); l.Pruned != head || l.Head != head {
			t.Errorf("a log of which all is old is %+v, want it pruned up to %d", l, head)
		}
	})
}

func TestWhatWasPrunedIsGone(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		flap(t, s, 50)
		pass(t, keep(s, 10))
		pruned := s.Head() - 10
		for _, f := range []windsock.EventFilter{{}, {Scope: "deployment:shop"}, {Type: windsock.MonitorAdded}} {
			if _, err := s.Events(t.Context(), pruned-1, 100, f); !errors.Is(err, windsock.ErrPruned) {
				t.Errorf("%+v before the log begins: %v", f, err)
			}
			if _, err := s.Events(t.Context(), pruned, 100, f); err != nil {
				t.Errorf("%+v where it begins: %v", f, err)
			}
		}
	})
}

func TestNothingIsDeletedThatAMonitorHasStillToHear(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{})
		flap(t, s, 100)
		behind := s.Head()
		reached(t, s, m.ID, behind)
		flap(t, s, 100)
		pass(t, keep(s, 60)) // it is 100 behind, the horizon is 120
		prunedUpTo(t, s, behind)
		reached(t, s, m.ID, behind+10)
		pass(t, keep(s, 60))
		prunedUpTo(t, s, behind+10)
		if g := gaps(t, s); len(g) > 0 {
			t.Errorf("nobody lost anything, but the log says %+v", g)
		}
	})
}

// A parked lane holds what waits in it, and no further than the horizon.
func TestALaneHoldsWhatWaitsInIt(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		m := listening(t, s, 1, windsock.MonitorSpec{Subjects: windsock.OnlyInstances})
		flap(t, s, 10)
		first := s.Head()
		record(t, s, instanceSaid("web-2", "a", windsock.Failed))
		web2 := windsock.Subject{Kind: windsock.KindInstance, ID: "web-2"}
		err := s.SaveProgress(t.Context(), []windsock.Progress{{MonitorID: m.ID, Cursor: s.Head(), Lanes: []windsock.Lane{{Subject: web2, FirstSeq: first + 1, Attempts: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		flap(t, s, 100)
		reached(t, s, m.ID, s.Head())
		pass(t, keep(s, 60)) // the lane is 100 behind, the horizon is 120
		prunedUpTo(t, s, first)
		flap(t, s, 100)
		reached(t, s, m.ID, s.Head())
		pass(t, keep(s, 60))
		g := gaps(t, s)
		if len(g) != 1 || g[0].FirstSeq != first+1 || g[0].Lost != 1 {
			t.Errorf("web-2 lost one event of %d, the log says %+v", first+1, g)
		}
		late := windsock.Progress{MonitorID: m.ID, Cursor: s.Head(), Lanes: []windsock.Lane{{Subject: web2, FirstSeq: first + 1, Attempts: 2}}}
		if err := s.SaveProgress(t.Context(), []windsock.Progress{late}); err != nil {
			t.Fatal(err)
		}
		if now := must[windsock.Target](t)(s.Target(t.Context(), m.ID)); now.Progress.Lanes[0].FirstSeq <= first+1 || now.Progress.Round != 1 {
			t.Errorf("what was saved late undid it: %+v", now.Progress)
		}
	})
}

func TestWhoIsBeyondTheHorizonIsToldWhatItLost(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		behind := map[string]windsock.Monitor{}
		for i, scope := range []windsock.Scope{"global", "provider:static", "pool:east", "deployment:shop", "instance:web-1"} {
			m := listening(t, s, i+1, windsock.MonitorSpec{Scope: scope, Detections: windsock.Detections{windsock.FailDetected}})
			behind[m.ID] = m
		}
		quiet := listening(t, s, 20, windsock.MonitorSpec{Scope: "pool:west"})
		last := listening(t, s, 21, windsock.MonitorSpec{})
		flap(t, s, 200)
		r := keep(s, 60)
		old := s.Head() - 60
		reached(t, s, last.ID, s.Head()-100)
		want := map[string]int64{}
		for id, m := range behind {
			for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), m.Cursor, 1000, windsock.EventFilter{Scope: m.Scope})) {
				if e.Seq <= old && m.Wants(&e) {
					want[id]++
				}
			}
		}
		pass(t, r)
		prunedUpTo(t, s, old-40) // the last is not beyond the horizon and keeps its own

		found := gaps(t, s)
		for _, g := range found {
			m := behind[g.SubjectID]
			if g.Kind != windsock.KindLog || g.Lost != want[m.ID] || g.Lost == 0 || g.FirstSeq != m.Cursor+1 || g.LastSeq != old || g.Scope != m.Scope {
				t.Errorf("monitor %+v lost %d of %d to %d; the log says %+v", m, want[m.ID], m.Cursor+1, old, g)
			}
			own := must[[]windsock.Event](t)(s.Events(t.Context(), old, 1000, windsock.EventFilter{Scope: m.Scope, Type: windsock.LogGap}))
			if !heardOfIt(own, m.ID) || !m.Wants(&g) {
				t.Errorf("monitor in %s does not find its gap: %+v", m.Scope, own)
			}
			if now := must[windsock.Monitor](t)(s.Monitor(t.Context(), m.ID)); now.Cursor != old {
				t.Errorf("monitor in %s is at %d, want %d", m.Scope, now.Cursor, old)
			}
		}
		if len(found) != len(behind) {
			t.Errorf("%d gaps for %d monitors", len(found), len(behind))
		}
		if m := must[windsock.Monitor](t)(s.Monitor(t.Context(), quiet.ID)); m.Cursor != old {
			t.Errorf("a monitor that nothing concerned is at %d, want %d", m.Cursor, old)
		}
		pass(t, r)
		if again := gaps(t, s); len(again) != len(found) {
			t.Errorf("the same was lost again: %+v", again)
		}
	})
}

func heardOfIt(gaps []windsock.Event, id string) bool {
	for _, g := range gaps {
		if g.SubjectID == id {
			return true
		}
	}
	return false
}

func TestWhoMovesOnWhileItIsCountedLosesLess(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := must[windsock.Target](t)(s.Target(t.Context(), listening(t, s, 1, windsock.MonitorSpec{Scope: "instance:web-1"}).ID))
		flap(t, s, 200)
		reached(t, s, m.ID, 50) // after the list that m is of
		if err := s.leaveBehind(t.Context(), &m, 100, 150); err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 50, 100, windsock.EventFilter{Kind: windsock.KindInstance})) {
			if e.Seq <= 150 && m.Wants(&e) {
				left++
			}
		}
		if g := gaps(t, s); len(g) != 1 || g[0].FirstSeq != 51 || g[0].LastSeq != 150 || g[0].Lost != int64(left) {
			t.Errorf("got %+v, want 51 to 150 and %d lost", g, left)
		}
		reached(t, s, m.ID, 180)
		if err := s.leaveBehind(t.Context(), &m, 170, 190); err != nil {
			t.Fatal(err)
		}
		if g := gaps(t, s); len(g) != 1 {
			t.Errorf("it is past the horizon, but the log says %+v", g)
		}
	})
}

func TestAStopInTheMiddleOfPruning(t *testing.T) { eachDB(t, aStopInTheMiddleOfPruning) }

func aStopInTheMiddleOfPruning(t *testing.T, fresh maker) {
	c := &clock{now: noon}
	path := fresh(t)
	s := open(t, path, c)
	declare(t, s, "shop", "web-1")
	flap(t, s, 3*pruneStep)
	old := s.Head() - 100
	if more, err := s.prune(t.Context(), old); err != nil || !more {
		t.Fatal(more, err)
	}
	prunedUpTo(t, s, pruneStep)
	s.Close()

	s = open(t, path, c)
	defer s.Close()
	prunedUpTo(t, s, pruneStep)
	pass(t, keep(s, 100))
	prunedUpTo(t, s, old)
	flap(t, s, 10)
}

// Whoever reads while old events are deleted finds all there is after a seq, or hears
// that some are gone: never a hole.
func TestReadingAndWritingWhilePruning(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		flap(t, s, pruneStep)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := s.extent(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				events, err := s.Events(t.Context(), l.Pruned, 20, windsock.EventFilter{})
				if errors.Is(err, windsock.ErrPruned) {
					continue
				}
				for i, e := range events {
					if e.Seq != l.Pruned+1+int64(i) {
						t.Errorf("event %d after %d is %d", i, l.Pruned, e.Seq)
						cancel()
					}
				}
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := keep(s, 5).pass(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for round := range 500 {
			state := []windsock.State{windsock.Failed, windsock.Running}[round%2]
			if out := record(t, s, instanceSaid("web-1", "nagios", state)); out[0].EventSeq > s.Head() {
				t.Errorf("%+v is acknowledged beyond the head %d", out, s.Head())
			}
		}
		cancel()
		wg.Wait()
		pass(t, keep(s, 5))
		prunedUpTo(t, s, s.Head()-5)
	})
}

func TestRoomIsGivenBack(t *testing.T) {
	c := &clock{now: noon}
	s := open(t, filepath.Join(t.TempDir(), "w.db"), c)
	defer s.Close()
	declare(t, s, "shop", "web-1")
	fill(t, s, 50_000)
	pages := func() (all, free int64) {
		t.Helper()
		if err := errors.Join(s.write.Get(&all, `PRAGMA page_count`), s.write.Get(&free, `PRAGMA freelist_count`)); err != nil {
			t.Fatal(err)
		}
		return all, free
	}
	before, _ := pages()
	pass(t, keep(s, 100))
	after, free := pages()
	if after > before/2 || free > max(freePages, after/freeShare) {
		t.Errorf("of %d pages %d are left, %d of them free", before, after, free)
	}
	prunedUpTo(t, s, s.Head()-100)
	flap(t, s, 10)
}

// fill appends n events to the log that look like those of a fleet of a thousand.
func fill(t testing.TB, s *Store, n int) {
	t.Helper()
	err := s.do(t.Context(), func(t *tx) error {
		t.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO events (seq, at, type, kind, subject_id, deployment_id, provider, pool, word, state, previous, expected, source, reason, detected_at, data)
			SELECT ? + i, ?, 'instance.state', 'instance', 'instance-' || (i % 1000), 'deployment-' || (i % 100), 'static', 'east',
				'FAIL DETECTED', 'failed', 'running', 'running', 'nagios', 'connection refused', ?, '{}' FROM n`, n, t.head, t.micros, t.micros)
		t.head += int64(n)
		return t.err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("fill: %w", err))
	}
}
