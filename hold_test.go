package windsock

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestFiveEdgesWithinTenMinutesAreUnstable(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		every time.Duration
		edges int
		want  bool
	}{
		{"four", time.Second, 4, false},
		{"five", time.Second, 5, true},
		{"five within just ten minutes", 149 * time.Second, 5, true},
		{"five, the first of them ten minutes ago", 150 * time.Second, 5, false},
		{"slowly for ever", 3 * time.Minute, 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Flapping
			now := start
			for i := range c.edges {
				now = start.Add(time.Duration(i) * c.every)
				f = f.Edge(now, 0)
			}
			if got := f.Unstable(now); got != c.want {
				t.Errorf("unstable is %v, want %v", got, c.want)
			}
			if len(f.Edges) >= FlapEdges {
				t.Errorf("keeps %d edges", len(f.Edges))
			}
		})
	}
}

// However the edges come: it is unstable from the fifth within the window until it was
// quiet, and then has to flap anew.
func TestUnstableUntilQuiet(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 4))
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		looks := time.Duration(r.IntN(400)) * time.Second
		quiet := max(FlapQuiet, looks)
		var f Flapping
		var edges []time.Time // since it was last stable
		var last time.Time
		unstable := false
		for range 60 {
			now = now.Add(time.Duration(r.IntN(200)) * time.Second)
			if unstable && now.Sub(last) >= quiet {
				unstable, edges = false, nil
			}
			if f.Unstable(now) != unstable {
				t.Fatalf("seed %d: unstable is %v, want %v", seed, !unstable, unstable)
			}
			f = f.Edge(now, looks)
			last, edges = now, append(edges, now)
			for len(edges) > 0 && now.Sub(edges[0]) >= FlapWindow {
				edges = edges[1:]
			}
			unstable = unstable || len(edges) >= FlapEdges
			if f.Unstable(now) != unstable {
				t.Fatalf("seed %d: after an edge unstable is %v, want %v", seed, !unstable, unstable)
			}
		}
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		hold  Hold
		word  Word
		first bool
		held  bool
		want  bool
	}{
		{NoHold, FailDetected, false, false, false},
		{Unstable, FailDetected, false, false, true},
		{Unstable, FailDetected, true, false, false},
		{Unstable, StartDetected, false, false, true},
		{Unstable, StartDetected, true, false, true},
		{Unstable, StopDetected, false, false, false},
		{Maintenance, StopDetected, false, false, true},
		{Maintenance, FailDetected, true, false, true},
		{Maintenance, "", false, false, false},
		{Silenced, StartDetected, false, false, true},
		{Silenced, "", false, true, false},
		{Dependent, FailDetected, true, false, true},
		{Dependent, StartDetected, false, false, false},
		{Dependent, StartDetected, false, true, true},
		{Dependent, StopDetected, false, true, false},
	} {
		if got := c.hold.Holds(c.word, c.first, c.held); got != c.want {
			t.Errorf("%d holds %q (first %v, held %v): %v, want %v", c.hold, c.word, c.first, c.held, got, c.want)
		}
	}
}
