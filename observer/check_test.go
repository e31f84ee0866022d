package observer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/observer/probe"
)

// probed is where an instance lies that has only a probe.
func probed(id string) windsock.Place {
	return windsock.Place{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: id}, Probed: true}
}

func TestCheck(t *testing.T) {
	for _, saw := range []windsock.State{windsock.Running, windsock.Failed, windsock.Unknown} {
		m := newModel()
		m.probes["web"] = every(24*time.Hour, "web")
		var recorded []windsock.Observation
		m.record = func(batch []windsock.Observation) error {
			recorded = append(recorded, batch...)
			return nil
		}
		o := newObserver(m)
		o.Look = func(context.Context, windsock.Probe) probe.Result { return probe.Result{State: saw, Reason: "why"} }
		bubble(t, o, func(t *testing.T) {
			pass(time.Minute)
			got, err := o.Check(t.Context(), probed("web"))
			if len(got) != 1 || got[0] != (windsock.Look{Source: "probe", State: saw, Reason: "why"}) || err != nil {
				t.Errorf("got %+v, %v, want %s", got, err, saw)
			}
			if len(recorded) != 1 || recorded[0].State != saw || recorded[0].Need != 1 {
				t.Errorf("recorded %+v, want one statement of %s that is enough", recorded, saw)
			}
		})
	}
}

func TestCheckFails(t *testing.T) {
	m := newModel()
	m.probes["web"], m.probes["away"] = every(24*time.Hour, "web"), every(24*time.Hour, "away")
	storeFull := fmt.Errorf("disk full: %w", windsock.ErrUnavailable)
	m.record = func(batch []windsock.Observation) error { return storeFull }
	o := newObserver(m)
	o.Look = new(diary).look
	check := func(t *testing.T, id string, want error, says string) {
		t.Helper()
		looks, err := o.Check(t.Context(), probed(id))
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: got %+v, %v; want %v that says %q", id, looks, err, want, says)
		}
	}
	check(t, "web", windsock.ErrUnavailable, "not running")
	bubble(t, o, func(t *testing.T) {
		pass(time.Second)
		check(t, "web", windsock.ErrUnavailable, "disk full")
		check(t, "nobody", windsock.ErrNotFound, `"nobody" has no probe`)
	})
	check(t, "web", windsock.ErrUnavailable, "not running")
}

// An outcome of the record is an answer, too: the instance was removed meanwhile.
func TestCheckOfWhatGoes(t *testing.T) {
	m := newModel()
	m.probes["web"] = every(24*time.Hour, "web")
	o := newObserver(goneModel{m})
	o.Look = new(diary).look
	bubble(t, o, func(t *testing.T) {
		pass(time.Second)
		if _, err := o.Check(t.Context(), probed("web")); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

type goneModel struct{ *model }

func (m goneModel) Record(_ context.Context, batch []windsock.Observation) ([]windsock.Outcome, error) {
	return slices.Repeat([]windsock.Outcome{{Err: windsock.ErrNotFound}}, len(batch)), nil
}

func TestChecksShareOneLook(t *testing.T) {
	m := newModel()
	m.probes["web"] = every(24*time.Hour, "web")
	var looks atomic.Int64
	o := newObserver(m)
	o.Look = func(ctx context.Context, _ windsock.Probe) probe.Result {
		looks.Add(1)
		pause(ctx, time.Second)
		return probe.Result{State: windsock.Running}
	}
	bubble(t, o, func(t *testing.T) {
		pass(time.Second)
		impatient, leave := context.WithCancel(t.Context())
		answers := make(chan error)
		ask := func(ctx context.Context) {
			_, err := o.Check(ctx, probed("web"))
			answers <- err
		}
		go ask(impatient) // the first, whose look it is
		pass(100 * time.Millisecond)
		for range 9 {
			go ask(t.Context())
		}
		pass(100 * time.Millisecond)
		leave()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("who left hears %v, want that he left", err)
		}
		for range 9 {
			if err := <-answers; err != nil {
				t.Errorf("who stayed hears %v", err)
			}
		}
		if looks.Load() != 1 {
			t.Errorf("%d looks, want 1", looks.Load())
		}
	})
}

func TestChecksAreBounded(t *testing.T) {
	m := newModel()
	for i := range maxCallers + 100 {
		m.probes[fmt.Sprint(i)] = every(24*time.Hour, fmt.Sprint(i))
	}
	var looking, most atomic.Int64
	o := newObserver(m)
	o.Look = func(ctx context.Context, _ windsock.Probe) probe.Result {
		most.Store(max(most.Load(), looking.Add(1)))
		defer looking.Add(-1)
		pause(ctx, time.Second)
		return probe.Result{State: windsock.Running}
	}
	bubble(t, o, func(t *testing.T) {
		pass(time.Second)
		answers := make(chan error)
		for i := range maxCallers + 100 {
			go func() {
				_, err := o.Check(t.Context(), probed(fmt.Sprint(i)))
				answers <- err
			}()
		}
		refused := 0
		for range maxCallers + 100 {
			if err := <-answers; errors.Is(err, windsock.ErrTooMany) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 100 || most.Load() > maxChecks+1 { // one of the schedule may fall into it
			t.Errorf("%d refused, want 100; %d looks at a time, want %d", refused, most.Load(), maxChecks)
		}
		if _, err := o.Check(t.Context(), probed("0")); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Run ends only when no check is under way, and nobody is left waiting.
func TestStopDuringChecks(t *testing.T) {
	m := newModel()
	for i := range 2 * maxChecks {
		m.probes[fmt.Sprint(i)] = every(24*time.Hour, fmt.Sprint(i))
	}
	m.record = func(batch []windsock.Observation) error {
		t.Errorf("recorded %+v", batch)
		return nil
	}
	var looks, ended atomic.Int64
	o := newObserver(m)
	o.Look = func(ctx context.Context, _ windsock.Probe) probe.Result {
		looks.Add(1)
		<-ctx.Done()
		time.Sleep(time.Second) // it takes a moment to let go
		ended.Add(1)
		return probe.Result{State: windsock.Unknown}
	}
	synctest.Test(t, func(t *testing.T) {
		stop := running(t, o)
		pass(time.Second)
		answers := make(chan error, 2*maxChecks)
		for i := range 2 * maxChecks {
			go func() {
				_, err := o.Check(t.Context(), probed(fmt.Sprint(i)))
				answers <- err
			}()
		}
		pass(time.Millisecond)
		stop()
		if looks.Load() != maxChecks || ended.Load() != maxChecks {
			t.Errorf("%d looks began and %d had ended when Run had, want %d", looks.Load(), ended.Load(), maxChecks)
		}
		for range 2 * maxChecks {
			if err := <-answers; !errors.Is(err, windsock.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		}
	})
}
