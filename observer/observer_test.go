package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"windsock"
	"windsock/observer/probe"
)

func TestAnHourOfPolling(t *testing.T) {
	m, d := newModel(), &diary{}
	for i := range 1500 { // more than a page of the listing
		m.probes[fmt.Sprintf("web-%d", i)] = every(5*time.Minute, fmt.Sprintf("web-%d", i))
	}
	o := newObserver(m)
	o.Look = d.look
	bubble(t, o, func(t *testing.T) {
		pass(time.Hour)
		seconds := map[int64]int{}
		for id := range m.probes {
			looks := d.of(id)
			if len(looks) != 12 {
				t.Errorf("%s was looked at %d times, want 12", id, len(looks))
			}
			for _, at := range looks {
				seconds[at.Unix()]++
			}
		}
		if most := slices.Max(slices.Collect(maps.Values(seconds))); most > 20 {
			t.Errorf("%d looks in one second, want about 5", most)
		}
		if late := testutil.ToFloat64(o.Metrics.late); late != 0 {
			t.Errorf("%v looks were late", late)
		}
	})
}

func TestRestartKeepsPhase(t *testing.T) {
	const interval = time.Minute
	m := newModel()
	for i := range 20 {
		m.probes[fmt.Sprint(i)] = every(interval, fmt.Sprint(i))
	}
	synctest.Test(t, func(t *testing.T) {
		offset := func(at time.Time) time.Duration { return time.Duration(at.UnixNano()) % interval }
		var first, second diary
		for _, d := range []*diary{&first, &second} {
			o := newObserver(m)
			o.Look = d.look
			stop := running(t, o)
			pass(interval)
			stop()
			pass(17 * time.Second)
		}
		for id := range m.probes {
			a, b := first.of(id), second.of(id)
			if len(a) != 1 || len(b) != 1 || offset(a[0]) != offset(b[0]) {
				t.Errorf("%s was looked at %v, and after the restart %v", id, a, b)
			}
		}
	})
}

func TestHungTargetDelaysNobody(t *testing.T) {
	m, d := newModel(), &diary{hang: map[string]bool{"hung": true}}
	m.probes["hung"] = every(5*time.Second, "hung") // and its time-out is all of that
	for i := range 50 {
		m.probes[fmt.Sprint(i)] = every(time.Second, fmt.Sprint(i))
	}
	o := newObserver(m)
	o.Look = d.look
	o.Workers = 2
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		for i := range 50 {
			if n := len(d.of(fmt.Sprint(i))); n != 60 {
				t.Errorf("%d was looked at %d times in a minute, want 60", i, n)
			}
		}
		looks := d.of("hung")
		for i := 1; i < len(looks); i++ {
			if since := looks[i].Sub(looks[i-1]); since != 5*time.Second {
				t.Errorf("hung was looked at again after %v, want 5s", since)
			}
		}
		if len(looks) < 11 {
			t.Errorf("hung was looked at %d times, want one after the other", len(looks))
		}
	})
}

func TestHungPluginsDelayOnlyPlugins(t *testing.T) {
	m, d := newModel(), &diary{hang: map[string]bool{"/plugin": true}}
	for i := range 10 {
		p := every(10*time.Second, "")
		p.Type, p.Target, p.Command = windsock.ProbeExec, "", []string{"/plugin"}
		m.probes[fmt.Sprintf("plugin-%d", i)] = p
	}
	m.probes["web"] = every(time.Second, "web")
	o := newObserver(m)
	o.Look = d.look
	o.ExecWorkers = 2
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		if n := len(d.of("web")); n != 60 {
			t.Errorf("web was looked at %d times in a minute, want 60", n)
		}
		// Two at a time, each for its time-out of five seconds.
		if n := len(d.of("/plugin")); n < 20 || n > 24 {
			t.Errorf("the plugins ran %d times in a minute, want 24 or a few less", n)
		}
		if late := testutil.ToFloat64(o.Metrics.late); late < 10 {
			t.Errorf("%v looks were late, want most of those at the plugins", late)
		}
	})
}

// A look that outlasts its time-out, by a fault of ours, is not begun a second time.
func TestOneLookAtATime(t *testing.T) {
	m := newModel()
	m.probes["web"] = every(time.Second, "web")
	o := newObserver(m)
	var looking, most, looks int
	o.Look = func(context.Context, windsock.Probe) probe.Result { // no two at a time, so no lock
		looking++
		looks++
		most = max(most, looking)
		time.Sleep(3500 * time.Millisecond)
		looking--
		return probe.Result{State: windsock.Running}
	}
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		if most != 1 || looks < 10 {
			t.Errorf("%d looks, up to %d at a time", looks, most)
		}
	})
}

func TestFollowsWhatIsDeclared(t *testing.T) {
	m, d := newModel(), &diary{}
	o := newObserver(m)
	o.Look = d.look
	bubble(t, o, func(t *testing.T) {
		pass(time.Hour)

		m.declare("web", every(10*time.Minute, "old"))
		pass(2 * time.Second)
		if n := len(d.of("old")); n != 1 {
			t.Errorf("%d looks soon after it was declared, want 1", n)
		}
		pass(30 * time.Minute)
		looks := d.of("old")
		if len(looks) != 3 {
			t.Fatalf("%d looks in half an hour, want 3", len(looks))
		}
		for _, at := range looks {
			if got, want := time.Duration(at.UnixNano())%(10*time.Minute), phase("web", 10*time.Minute); got != want {
				t.Errorf("looked at %v into the interval, want %v", got, want)
			}
		}

		m.declare("web", every(10*time.Minute, "old")) // something else of it changed
		pass(2 * time.Second)
		if n := len(d.of("old")); n != 0 {
			t.Errorf("%d looks as it is declared with the same probe, want 0", n)
		}

		m.declare("web", every(10*time.Minute, "new"))
		pass(2 * time.Second)
		if o, n := len(d.of("old")), len(d.of("new")); o != 0 || n != 1 {
			t.Errorf("with another probe: %d looks at the old and %d at the new, want 0 and 1", o, n)
		}
		if n := testutil.ToFloat64(o.Metrics.watched); n != 1 {
			t.Errorf("%v watched, want 1", n)
		}

		m.remove("web")
		pass(time.Hour)
		if n := len(d.of("new")); n != 0 {
			t.Errorf("%d looks after it was removed, want 0", n)
		}
		if n := testutil.ToFloat64(o.Metrics.watched); n != 0 {
			t.Errorf("%v watched, want 0", n)
		}
	})
}

// Thousands declared at once, more than a page of the log, are all found, and not all
// looked at in the same moment.
func TestFollowsManyAtOnce(t *testing.T) {
	m, d := newModel(), &diary{}
	o := newObserver(m)
	o.Look = d.look
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		const n = 2500
		for i := range n {
			m.declare(fmt.Sprint(i), every(time.Hour, fmt.Sprint(i)))
		}
		pass(2 * time.Second)
		tenths := map[int64]int{}
		for i := range n {
			looks := d.of(fmt.Sprint(i))
			if len(looks) == 0 {
				t.Fatalf("%d was not looked at", i)
			}
			tenths[looks[0].UnixMilli()/100]++
		}
		if most := slices.Max(slices.Collect(maps.Values(tenths))); most > 2*n/10 {
			t.Errorf("%d of %d first looks in a tenth of a second", most, n)
		}
	})
}

// What a look saw is of no interest when the instance was removed or declared anew
// meanwhile.
func TestRemovedWhileLooking(t *testing.T) {
	m := newModel()
	m.probes["web"] = every(10*time.Second, "slow")
	var recorded []windsock.Observation
	m.record = func(batch []windsock.Observation) error {
		recorded = append(recorded, batch...)
		return nil
	}
	o := newObserver(m)
	o.Look = func(ctx context.Context, p windsock.Probe) probe.Result {
		if p.Target == "slow" {
			m.declare("web", every(10*time.Second, "quick"))
			pause(ctx, 4*time.Second)
		}
		return probe.Result{State: windsock.Failed, Reason: p.Target}
	}
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		for _, r := range recorded {
			if r.Reason != "quick" {
				t.Errorf("recorded what the probe saw that is no more: %+v", r)
			}
		}
		if len(recorded) == 0 {
			t.Error("recorded nothing")
		}
	})
}

func TestObservation(t *testing.T) {
	p := windsock.Probe{Interval: windsock.Duration(10 * time.Second), Fails: 3, Passes: 4}
	base := windsock.Observation{
		Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web"},
		Source:  "probe", Origin: windsock.FromProbe, Reason: "why", Promise: 30 * time.Second,
	}
	for state, need := range map[windsock.State]int{windsock.Failed: 3, windsock.Running: 4, windsock.Unknown: 4} {
		want := base
		want.State, want.Need = state, need
		if diff := cmp.Diff(want, observe("web", &p, probe.Result{State: state, Reason: "why"})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRecordFailing(t *testing.T) {
	m, d := newModel(), &diary{}
	for i := range 10 {
		m.probes[fmt.Sprint(i)] = every(10*time.Second, fmt.Sprint(i))
	}
	var broken atomic.Bool
	var recorded atomic.Int64
	m.record = func(batch []windsock.Observation) error {
		if broken.Load() {
			return windsock.ErrUnavailable
		}
		recorded.Add(int64(len(batch)))
		return nil
	}
	o := newObserver(m)
	o.Look = d.look
	var log strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&log, nil)) // which locks around each line
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		broken.Store(true)
		pass(time.Minute)
		broken.Store(false)
		pass(time.Minute)
		looks := 0
		for i := range 10 {
			looks += len(d.of(fmt.Sprint(i)))
		}
		if looks != 180 || recorded.Load() != 120 || testutil.ToFloat64(o.Metrics.lost) != 60 {
			t.Errorf("%d looks, %d recorded, %v lost; want 180, 120, 60", looks, recorded.Load(), testutil.ToFloat64(o.Metrics.lost))
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines logged, want one as it began and one as it ended:\n%s", n, &log)
		}
	})
}

// A slow model is called once for all that was seen while it was busy.
func TestRecordsInBatches(t *testing.T) {
	m, d := newModel(), &diary{}
	for i := range 100 {
		m.probes[fmt.Sprint(i)] = every(time.Second, fmt.Sprint(i))
	}
	var calls, most int
	m.record = func(batch []windsock.Observation) error {
		calls++
		most = max(most, len(batch))
		time.Sleep(500 * time.Millisecond)
		return nil
	}
	o := newObserver(m)
	o.Look = d.look
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute)
		if calls > 120 || most < 40 {
			t.Errorf("6000 samples in %d calls, at most %d in one; want 120 and about 50", calls, most)
		}
	})
}

// A model that hangs slows the looks down, and the memory it takes is bounded; the loop
// goes on, and all is well again afterwards.
func TestRecordHanging(t *testing.T) {
	m, d := newModel(), &diary{}
	for i := range 2000 {
		m.probes[fmt.Sprint(i)] = every(time.Second, fmt.Sprint(i))
	}
	var hang chan struct{}
	m.record = func([]windsock.Observation) error { <-hang; return nil }
	o := newObserver(m)
	o.Look = d.look
	synctest.Test(t, func(t *testing.T) {
		hang = make(chan struct{})
		defer running(t, o)()
		defer close(hang)
		pass(time.Minute)
		if age := time.Since(o.Beat()); age > beatEvery {
			t.Errorf("the last beat is %v old", age)
		}
		looks := 0
		for i := range 2000 {
			looks += len(d.of(fmt.Sprint(i)))
		}
		if most := 1 + maxBatch + 256; looks > most {
			t.Errorf("%d looks while nothing can be recorded, want at most %d", looks, most)
		}
	})
}

// Nothing is recorded of looks that end because we stop: a restart by itself says
// nothing.
func TestStopSaysNothing(t *testing.T) {
	m := newModel()
	for i := range 10 {
		m.probes[fmt.Sprint(i)] = every(10*time.Second, fmt.Sprint(i))
	}
	m.record = func(batch []windsock.Observation) error {
		t.Errorf("recorded %+v", batch)
		return nil
	}
	var off atomic.Int64
	o := newObserver(m)
	o.Look = func(ctx context.Context, p windsock.Probe) probe.Result {
		<-ctx.Done()
		off.Add(1)
		return probe.Result{State: windsock.Unknown, Reason: "called off"}
	}
	bubble(t, o, func(t *testing.T) { pass(15 * time.Second) })
	if off.Load() != 10 {
		t.Errorf("%d looks were under way, want 10", off.Load())
	}
}

func TestModelFailing(t *testing.T) {
	m, d := newModel(), &diary{}
	m.probes["early"] = every(time.Second, "early")
	var failing atomic.Pointer[string]
	fail := func(call string) { failing.Store(&call) }
	m.fault = func(call string) error {
		if call == *failing.Load() {
			return errors.New("database is away")
		}
		return nil
	}
	o := newObserver(m)
	o.Look = d.look
	fail("Probes")
	bubble(t, o, func(t *testing.T) {
		pass(time.Hour)
		if n := len(d.of("early")); n != 0 {
			t.Errorf("%d looks before anything could be read", n)
		}
		fail("")
		pass(time.Minute)
		if len(d.of("early")) == 0 {
			t.Error("no look once the model was back")
		}
		for _, call := range []string{"Events", "Probe", "SaveProvider"} {
			fail(call)
			m.declare(call, every(time.Second, call))
			pass(time.Hour)
			fail("")
			pass(time.Minute)
			if len(d.of(call)) == 0 {
				t.Errorf("what was declared while %s failed is not looked at", call)
			}
		}
		if n := len(d.of("early")); n != 3*3660 {
			t.Errorf("%d looks at what was known, want one each second: %d", n, 3*3660)
		}
	})
}

// When the log was pruned past where we stood, everything is loaded again.
func TestLogPruned(t *testing.T) {
	m, d := newModel(), &diary{}
	m.probes["stays"], m.probes["goes"] = every(time.Minute, "stays"), every(time.Minute, "goes")
	var pruned atomic.Bool
	m.fault = func(call string) error {
		if call == "Events" && pruned.Load() {
			pruned.Store(false)
			return windsock.ErrPruned
		}
		return nil
	}
	o := newObserver(m)
	o.Look = d.look
	bubble(t, o, func(t *testing.T) {
		pass(time.Hour)
		if a, b := len(d.of("stays")), len(d.of("goes")); a != 60 || b != 60 {
			t.Fatalf("%d and %d looks, want 60", a, b)
		}
		m.mu.Lock()
		delete(m.probes, "goes") // and the event is lost
		m.mu.Unlock()
		pruned.Store(true)
		m.declare("comes", every(time.Minute, "comes"))
		pass(time.Hour)
		if a, b, c := len(d.of("stays")), len(d.of("goes")), len(d.of("comes")); a != 60 || b > 1 || c < 60 {
			t.Errorf("%d, %d and %d looks, want 60, at most one, 60", a, b, c)
		}
	})
}

func TestProviderStatus(t *testing.T) {
	m := newModel()
	var state atomic.Pointer[probe.Result]
	state.Store(&probe.Result{State: windsock.Running})
	var hang chan struct{}
	o := newObserver(m)
	o.Look = func(ctx context.Context, p windsock.Probe) probe.Result {
		if p.Target == "hung" {
			<-hang // for longer than any time-out
		}
		return *state.Load()
	}
	synctest.Test(t, func(t *testing.T) {
		hang = make(chan struct{})
		defer running(t, o)()
		want := func(what string, behind time.Duration, watched, blind int, why string) {
			t.Helper()
			got := m.lastSaved()
			if got.ID != "static" || got.Kind != "static" || got.Watched != watched || got.Blind != blind || got.LastError != why {
				t.Errorf("%s: got %+v, want %d watched, %d blind: %q", what, got, watched, blind, why)
			}
			if age := time.Since(got.CompleteAt); age < behind || age > behind+reportEvery {
				t.Errorf("%s: complete until %v ago, want %v", what, age, behind)
			}
		}
		pass(time.Hour)
		if len(m.saved) != 1 || !m.saved[0].CompleteAt.IsZero() {
			t.Errorf("while nothing is watched: %+v, want one that says so", m.saved)
		}
		m.declare("web", every(time.Minute, "web"))
		pass(time.Minute)
		want("all is well", 0, 1, 0, "")
		state.Store(&probe.Result{State: windsock.Unknown, Reason: "no such name"})
		pass(2 * time.Minute)
		want("it cannot look", 0, 1, 1, "web: no such name")
		state.Store(&probe.Result{State: windsock.Failed})
		pass(2 * time.Minute)
		want("it can again", 0, 1, 0, "")
		m.declare("hung", every(time.Minute, "hung"))
		pass(time.Hour)
		want("one look hangs", time.Hour-2*time.Second, 2, 0, "")
		close(hang)
		pass(reportEvery)
		want("it came back", 0, 2, 0, "")
	})
}

func TestBeat(t *testing.T) {
	o := newObserver(newModel())
	if !o.Beat().IsZero() {
		t.Error("beats before it runs")
	}
	bubble(t, o, func(t *testing.T) {
		for range 5 {
			pass(time.Hour + 300*time.Millisecond)
			if age := time.Since(o.Beat()); age > beatEvery {
				t.Errorf("the last beat is %v old, want at most %v", age, beatEvery)
			}
		}
	})
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newModel()
	m.probes["web"] = every(time.Second, "web")
	o := newObserver(m)
	o.Metrics = NewMetrics(reg)
	o.Look = new(diary).look
	bubble(t, o, func(t *testing.T) {
		pass(time.Minute + time.Second/2)
		if n := testutil.ToFloat64(o.Metrics.watched); n != 1 {
			t.Errorf("windsock_probes is %v, want 1", n)
		}
	})
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Error(err, problems)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP windsock_probe_results_total Looks of probes, by what they saw; unknown: they could not look.
# TYPE windsock_probe_results_total counter
windsock_probe_results_total{result="failed",type="exec"} 0
windsock_probe_results_total{result="failed",type="http"} 0
windsock_probe_results_total{result="failed",type="tcp"} 0
windsock_probe_results_total{result="running",type="exec"} 0
windsock_probe_results_total{result="running",type="http"} 0
windsock_probe_results_total{result="running",type="tcp"} 60
windsock_probe_results_total{result="unknown",type="exec"} 0
windsock_probe_results_total{result="unknown",type="http"} 0
windsock_probe_results_total{result="unknown",type="tcp"} 0
# HELP windsock_probes Instances that are looked at by a probe.
# TYPE windsock_probes gauge
windsock_probes 0
# HELP windsock_probes_inflight Looks that are under way.
# TYPE windsock_probes_inflight gauge
windsock_probes_inflight 0
`), "windsock_probe_results_total", "windsock_probes", "windsock_probes_inflight"); err != nil {
		t.Error(err)
	}
}
