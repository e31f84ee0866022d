package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
)

// stateSeconds is what the metric shows.
func stateSeconds(t *testing.T, s *Store) map[windsock.State]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(spans{s})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[windsock.State]float64{}
	for _, m := range families[0].GetMetric() {
		sums[windsock.State(m.GetLabel()[0].GetValue())] = m.GetCounter().GetValue()
	}
	return sums
}

func TestSecondsOfDeploymentsByState(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1")
		declare(t, s, "blog")
		c.advance(time.Hour)
		record(t, s, instanceSaid("web-1", "a", windsock.Running))
		c.advance(30 * time.Minute)
		record(t, s, instanceSaid("web-1", "a", windsock.Failed), instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-1", "a", windsock.Failed))
		c.advance(10 * time.Minute)
		want := map[windsock.State]time.Duration{windsock.Unknown: 160 * time.Minute, windsock.Running: 30 * time.Minute, windsock.Failed: 10 * time.Minute}
		check := func(when string) {
			t.Helper()
			got := stateSeconds(t, s)
			for _, state := range windsock.DeploymentStates {
				if d := time.Duration(got[state] * float64(time.Second)).Round(time.Minute); d != want[state] {
					t.Errorf("%s: %s for %v, want %v", when, state, d, want[state])
				}
			}
		}
		check("at first")
		if err := s.DeleteDeployment(t.Context(), "shop", windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
		check("removed")
		c.advance(time.Hour)
		want[windsock.Unknown] += time.Hour
		check("what was removed ages no more")
	})
}

// However deployments come, change and go, the seconds only rise, by as much as there were
// deployments.
func TestSecondsOfDeploymentsOnlyRise(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		ids := []string{"a", "b", "c"}
		there := map[string]bool{}
		was, owed := map[windsock.State]float64{}, 0.0
		for step := range 200 {
			id := ids[r.IntN(len(ids))]
			switch {
			case !there[id]:
				declare(t, s, id, "of-"+id)
				there[id] = true
			case r.IntN(10) == 0:
				if err := s.DeleteDeployment(t.Context(), id, windsock.Cond{}); err != nil {
					t.Fatal(err)
				}
				delete(there, id)
			default:
				record(t, s, instanceSaid("of-"+id, "x", windsock.InstanceStates[r.IntN(len(windsock.InstanceStates))]))
			}
			c.advance(time.Minute)
			owed += 60 * float64(len(there))
			now, sum := stateSeconds(t, s), 0.0
			for state, seconds := range now {
				if sum += seconds; seconds < was[state] {
					t.Errorf("%s fell from %g to %g", state, was[state], seconds)
				}
			}
			if sum < owed || sum > owed+5 { // the clock goes on by itself, too
				t.Errorf("%g seconds, want %g", sum, owed)
			}
			if was = now; t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	})
}
