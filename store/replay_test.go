package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

func replay(t *testing.T, s *Store, id string, want windsock.ReplaySpec) windsock.Replayed {
	t.Helper()
	return must[windsock.Replayed](t)(s.ReplayMonitor(t.Context(), id, want, false))
}

// wanted counts the events from first to last that a monitor is called back for.
func wanted(t *testing.T, s *Store, id string, first, last int64) (r windsock.Replayed) {
	t.Helper()
	target := must[windsock.Target](t)(s.Target(t.Context(), id))
	for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), first-1, 100_000, windsock.EventFilter{Scope: target.Scope})) {
		if e.Seq <= last && target.Monitor.Wants(&e) {
			r = r.And(windsock.Replayed{Count: 1, First: e.Seq, Last: e.Seq})
		}
	}
	return r
}

func TestReplayIsKeptUntilItIsOver(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "db-1")
		m := listening(t, s, 1, windsock.MonitorSpec{Scope: "instance:web-1"})
		flap(t, s, 100)
		head := s.Head()
		part := windsock.Range{First: head - 50, Last: head - 40}
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: head - 20, Ahead: map[windsock.Subject]int64{db: head - 10}, Lanes: []windsock.Lane{
			{Subject: web, FirstSeq: head - 30, Attempts: 3}, {Subject: db, FirstSeq: head - 60},
		}})
		if got, want := replay(t, s, m.ID, windsock.ReplaySpec{Range: part}), wanted(t, s, m.ID, part.First, part.Last); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		got := progressOf(t, s, m.ID)
		want := windsock.Progress{
			MonitorID: m.ID, Round: 1, Cursor: part.First - 1, Lanes: []windsock.Lane{{Subject: db, FirstSeq: head - 60}},
			Window: &windsock.Window{Ranges: []windsock.Range{part}, Told: head - 20, Except: map[windsock.Subject]int64{web: head - 31, db: head - 61}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}

		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: head, Window: want.Window}) // of before, and late
		if diff := cmp.Diff(want, progressOf(t, s, m.ID)); diff != "" {
			t.Errorf("kept after a late save (-want +got):\n%s", diff)
		}
		want.Cursor, want.Lanes = head-45, nil
		save(t, s, windsock.Progress{MonitorID: m.ID, Round: 1, Cursor: head - 45, Cleared: []windsock.Subject{db}, Window: &windsock.Window{}})
		if diff := cmp.Diff(want, progressOf(t, s, m.ID)); diff != "" {
			t.Errorf("kept on its way (-want +got):\n%s", diff)
		}
		want.Cursor, want.Window = head, nil
		save(t, s, windsock.Progress{MonitorID: m.ID, Round: 1, Cursor: head})
		if diff := cmp.Diff(want, progressOf(t, s, m.ID)); diff != "" {
			t.Errorf("kept in the end (-want +got):\n%s", diff)
		}
	})
}

func TestReplayIsClippedToWhatWasTold(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{Detections: windsock.Detections{"all"}})
		other := listening(t, s, 2, windsock.MonitorSpec{})
		flap(t, s, 50)
		half := s.Head()
		if _, err := s.PauseMonitor(t.Context(), other.ID, windsock.PausedByOperator, ""); err != nil { // which m hears of
			t.Fatal(err)
		}
		flap(t, s, 50)
		reached(t, s, m.ID, s.Head()-10)
		between := must[[]windsock.Event](t)(s.Events(t.Context(), half, 1, windsock.EventFilter{}))[0].Time
		for name, spec := range map[string]struct {
			windsock.ReplaySpec
			first, last int64
		}{
			"all":                 {windsock.ReplaySpec{Range: windsock.Range{First: 1, Last: 1 << 62}}, 1, s.Head() - 10},
			"since a time":        {windsock.ReplaySpec{Since: between}, half + 1, s.Head() - 10},
			"since just after it": {windsock.ReplaySpec{Since: between.Add(time.Microsecond)}, half + 2, s.Head() - 10},
			"until a time":        {windsock.ReplaySpec{Since: noon, Until: between}, 1, half + 1},
			"until just before":   {windsock.ReplaySpec{Since: noon, Until: between.Add(-time.Microsecond)}, 1, half},
			"beyond what is told": {windsock.ReplaySpec{Range: windsock.Range{First: s.Head() - 5, Last: s.Head()}}, s.Head(), 0},
			"since now":           {windsock.ReplaySpec{Since: c.Now()}, s.Head() + 1, 0},
		} {
			got := must[windsock.Replayed](t)(s.ReplayMonitor(t.Context(), m.ID, spec.ReplaySpec, true))
			if want := wanted(t, s, m.ID, spec.first, spec.last); got != want {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		}
		before := s.Head()
		replay(t, s, m.ID, windsock.ReplaySpec{Range: windsock.Range{First: before - 5, Last: before}})
		if p := progressOf(t, s, m.ID); p.Round != 0 || s.Head() != before {
			t.Errorf("with nothing to tell again, it changed: %+v", p)
		}
	})
}

func TestReplayOfWhatIsNotThere(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{})
		flap(t, s, 300)
		old := must[[]windsock.Event](t)(s.Events(t.Context(), 100, 1, windsock.EventFilter{}))[0]
		last := must[[]windsock.Event](t)(s.Events(t.Context(), s.Head()-1, 1, windsock.EventFilter{}))[0]
		reached(t, s, m.ID, s.Head())
		pass(t, keep(s, 100))
		oldest := s.Head() - 99
		before := s.Head()
		for name, c := range map[string]struct {
			want windsock.ReplaySpec
			err  error
		}{
			"an event that was deleted":   {windsock.ReplaySpec{Event: old.ID}, windsock.ErrPruned},
			"a range that begins before":  {windsock.ReplaySpec{Range: windsock.Range{First: oldest - 1, Last: oldest + 5}}, windsock.ErrPruned},
			"since a time before":         {windsock.ReplaySpec{Since: old.Time}, windsock.ErrPruned},
			"an event that is to come":    {windsock.ReplaySpec{Event: "99999"}, windsock.ErrNotFound},
			"an event of another log":     {windsock.ReplaySpec{Event: strings.Replace(last.ID, "_", "_x", 1)}, windsock.ErrNotFound},
			"an event":                    {windsock.ReplaySpec{Event: last.ID}, nil},
			"a range that begins in time": {windsock.ReplaySpec{Range: windsock.Range{First: oldest, Last: oldest + 5}}, nil},
		} {
			_, err := s.ReplayMonitor(t.Context(), m.ID, c.want, true)
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
			if says := fmt.Sprintf("the oldest event is %d,", oldest); c.err == windsock.ErrPruned && !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; want it to say that %s", name, err, says)
			}
		}
		if s.Head() != before {
			t.Error("something was logged")
		}
		if _, err := s.ReplayMonitor(t.Context(), "nobody", windsock.ReplaySpec{Event: "1"}, false); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("a monitor that is not there: %v", err)
		}
	})
}

func TestManyReplaysAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{Detections: windsock.Detections{"all"}, Scope: "pool:east"})
		flap(t, s, 3*maxRanges)
		reached(t, s, m.ID, s.Head())
		first := s.Head() - 3*maxRanges + 1
		for i := range int64(maxRanges) {
			replay(t, s, m.ID, windsock.ReplaySpec{Range: windsock.Range{First: first + 2*i, Last: first + 2*i}})
		}
		before := s.Head()
		one := windsock.ReplaySpec{Range: windsock.Range{First: first + 2*maxRanges, Last: first + 2*maxRanges}}
		if _, err := s.ReplayMonitor(t.Context(), m.ID, one, false); !errors.Is(err, windsock.ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
		if s.Head() != before {
			t.Error("it was logged")
		}
		replay(t, s, m.ID, windsock.ReplaySpec{Range: windsock.Range{First: first, Last: first + 2*maxRanges}})
		if w := progressOf(t, s, m.ID).Window; len(w.Ranges) != 1 {
			t.Errorf("ranges: %+v", w.Ranges)
		}
	})
}

// A replay holds what is old, as any monitor that is behind, and no longer. It loses what
// it was still to hear, and not what it passes over.
func TestReplayAndRetention(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{Scope: "instance:web-1"})
		flap(t, s, 300)
		told := s.Head()
		reached(t, s, m.ID, told)
		again := windsock.Range{First: told - 250, Last: told - 240}
		replay(t, s, m.ID, windsock.ReplaySpec{Range: again})
		pass(t, keep(s, 200))
		prunedUpTo(t, s, again.First-1)

		flap(t, s, 300)
		lost := wanted(t, s, m.ID, again.First, again.Last).Count + wanted(t, s, m.ID, told+1, s.Head()-200).Count
		to := s.Head() - 200
		pass(t, keep(s, 200))
		prunedUpTo(t, s, to)
		if g := gaps(t, s); len(g) != 1 || g[0].Lost != lost || g[0].LastSeq != to {
			t.Errorf("gaps %+v, want %d lost up to %d", g, lost, to)
		}
	})
}
