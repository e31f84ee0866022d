package observer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/observer/probe"
)

// While the self-check of a provider fails, failures of its probes say nothing, and what
// works still does. Others are not concerned.
func TestWhileTheSelfCheckFailsFailuresSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		for _, id := range []string{"east-1", "east-2", "west-1"} {
			m.declare(id, windsock.Probe{Type: windsock.ProbeTCP, Target: id, Interval: windsock.Duration(10 * time.Second)})
		}
		var mu sync.Mutex
		seen := map[string][]windsock.State{}
		m.record = func(batch []windsock.Observation) error {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range batch {
				seen[o.Subject.ID] = append(seen[o.Subject.ID], o.State)
			}
			return nil
		}
		var gateway atomic.Value // what the look at it says
		gateway.Store(windsock.Failed)
		var looks atomic.Int64
		o := newObserver(m)
		o.SelfChecks = map[string]windsock.Probe{"east": {Type: windsock.ProbeTCP, Target: "gateway"}}
		o.Look = func(_ context.Context, p windsock.Probe) probe.Result {
			switch p.Target {
			case "gateway":
				looks.Add(1)
				return probe.Result{State: gateway.Load().(windsock.State), Reason: "no route to host"}
			case "east-2":
				return probe.Result{State: windsock.Running}
			}
			return probe.Result{State: windsock.Failed, Reason: "no route to host"}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.Run(ctx) })
		during := func(d time.Duration) map[string][]windsock.State {
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			got := seen
			seen = map[string][]windsock.State{}
			for id, states := range got {
				got[id] = slices.Compact(states)
			}
			return got
		}
		expect := func(got map[string][]windsock.State, id string, want windsock.State) {
			t.Helper()
			if !slices.Equal(got[id], []windsock.State{want}) {
				t.Errorf("%s is seen as %v, want %s", id, got[id], want)
			}
		}
		got := during(time.Minute)
		expect(got, "east-1", windsock.Unknown)
		expect(got, "east-2", windsock.Running)
		expect(got, "west-1", windsock.Failed)
		if n := looks.Load(); n < 5 || n > 8 {
			t.Errorf("%d self-checks for six failures", n)
		}
		gateway.Store(windsock.Running)
		expect(during(time.Minute), "east-1", windsock.Failed)
		cancel()
		running.Wait()
	})
}
