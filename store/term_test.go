package store

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// process opens a database as another process would.
func process(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.deaf = true
	t.Cleanup(func() { s.Close() })
	return s
}

// run has a process live until stop, or the end of the test.
func run(t *testing.T, s *Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// grasp has a process take leases until stop, and renew none.
func grasp(t *testing.T, s *Store) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.share(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// lead has a process work on a unit whenever it may, and returns its terms.
func lead(t *testing.T, s *Store, unit string) (terms <-chan *Term, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ch := make(chan *Term, 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		s.Lead(ctx, unit, func(ctx context.Context) error {
			ch <- windsock.TermsOf(ctx)[0].(*Term)
			<-ctx.Done()
			return nil
		})
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return ch, stop
}

// begins waits for a term, in virtual time, and returns how long that took.
func begins(t *testing.T, terms <-chan *Term) (*Term, time.Duration) {
	t.Helper()
	start := time.Now()
	select {
	case m := <-terms:
		return m, time.Since(start)
	case <-time.After(time.Hour):
		t.Fatal("nobody took the lease within an hour")
		return nil, 0
	}
}

// write writes something under a term, and reports whether that was stored.
func write(t *testing.T, m *Term, id string) error {
	t.Helper()
	_, _, err := m.s.PutDeployment(windsock.Under(t.Context(), m), windsock.DeploymentSpec{ID: id}, windsock.Cond{})
	_, there := m.s.Deployment(t.Context(), id)
	if (err == nil) != (there == nil) {
		t.Errorf("%s: %v, and then %v", id, err, there)
	}
	return err
}

func TestALeaseThatIsGivenUpIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a, b := process(t, path), process(t, path)
		run(t, a)
		run(t, b)
		ofA, stop := lead(t, a, "x")
		first, _ := begins(t, ofA)
		ofB, _ := lead(t, b, "x")
		<-time.After(time.Minute)
		if len(ofB) > 0 || !first.Stands() {
			t.Fatal("two hold it, or none")
		}
		stop()
		if _, wait := begins(t, ofB); wait > time.Second {
			t.Errorf("it was taken after %v", wait)
		}
	})
}

// Who does not renew a lease, as he is suspended, loses it: first by his own clock, then
// another takes it, and what he still wants to write is not.
func TestALeaseThatIsNotRenewedIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a, b := process(t, path), process(t, path)
		grasp(t, a)
		ofA, _ := lead(t, a, "x")
		old, _ := begins(t, ofA)
		if err := write(t, old, "before"); err != nil {
			t.Fatal(err)
		}
		run(t, b)
		ofB, _ := lead(t, b, "x")
		<-time.After(leaseLasts - leaseMargin)
		if old.Stands() || len(ofB) > 0 {
			t.Errorf("after %v: stands %t, taken %t", leaseLasts-leaseMargin, old.Stands(), len(ofB) > 0)
		}
		now, wait := begins(t, ofB)
		if wait < leaseMargin || wait > 4*time.Second {
			t.Errorf("it was taken %v after it was lost", wait)
		}
		if now.fence <= old.fence {
			t.Errorf("the fence went from %d to %d", old.fence, now.fence)
		}
		if err := write(t, old, "after"); !errors.Is(err, windsock.ErrUnavailable) {
			t.Errorf("what was written after the lease was lost: %v", err)
		}
		if out, err := a.Record(windsock.Under(t.Context(), old), []windsock.Observation{{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: "before"}, Source: "x", State: windsock.Failed}}); err == nil {
			t.Errorf("what was recorded after the lease was lost: %+v", out)
		}
		if err := write(t, now, "new"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if a.Holds("x") {
			t.Error("the work of who lost the lease goes on")
		}
	})
}

// By whatever clock a lease was written: it is lost only when it was seen not to change.
func TestAClockThatIsWrongTakesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a := process(t, path)
		run(t, a)
		ofA, _ := lead(t, a, "x")
		first, _ := begins(t, ofA)
		b, err := Open(t.Context(), path, Options{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		b.deaf = true
		stop := run(t, b)
		defer stop()
		ofB, end := lead(t, b, "x")
		defer end()
		<-time.After(time.Minute)
		if len(ofB) > 0 || !first.Stands() {
			t.Error("it was taken")
		}
	})
}

// While nobody else is there a lease is not lost, though it cannot be renewed: on a full
// disk all goes on that can.
func TestWhoIsAloneLosesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := process(t, filepath.Join(t.TempDir(), "w.db"))
		grasp(t, a)
		ofA, _ := lead(t, a, "x")
		m, _ := begins(t, ofA)
		<-time.After(time.Hour)
		if err := write(t, m, "later"); err != nil || !m.Stands() {
			t.Errorf("stands %t, %v", m.Stands(), err)
		}
	})
}

func TestManyOpenADatabaseAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { s.Close() })
		})
	}
	wg.Wait()
	s := process(t, path)
	list, err := s.Replicas(t.Context())
	if err != nil || len(list) != 9 {
		t.Errorf("%d are there (%v), want 9", len(list), err)
	}
	ids := map[int64]bool{}
	for _, r := range list {
		ids[r.ID] = true
	}
	if len(ids) != len(list) {
		t.Errorf("some have the same number: %+v", list)
	}
}

// Deadlines are put off by the time in which nobody was there, and not because one more
// process starts.
func TestOneMoreProcessShiftsNoDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	c := &clock{now: noon}
	a := open(t, path, c)
	defer a.Close()
	spec := windsock.MonitorSpec{Address: "127.0.0.1", Port: 80, TTL: windsock.Duration(time.Hour)}
	before := must[windsock.Registration](t)(a.AddMonitor(t.Context(), spec, windsock.Keys{}))
	c.advance(time.Minute)
	b := open(t, path, c)
	defer b.Close()
	after := must[windsock.Monitor](t)(b.Monitor(t.Context(), before.ID))
	if !after.ExpiresAt.Equal(before.ExpiresAt) {
		t.Errorf("it expires at %v, want %v", after.ExpiresAt, before.ExpiresAt)
	}
}

func TestEventsOfAnotherProcessAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a, b := process(t, path), process(t, path)
		run(t, a)
		run(t, b)
		<-time.After(time.Second)
		if _, _, err := a.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := b.Wait(t.Context(), a.Head()-1); err != nil || time.Since(start) > 50*time.Millisecond {
			t.Errorf("heard of after %v (%v)", time.Since(start), err)
		}
	})
}

func TestADeadlineOfAnotherProcessIsMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a, b := process(t, path), process(t, path)
		run(t, a) // has the clock
		<-time.After(time.Second)
		run(t, b)
		if _, _, err := b.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(aliveEvery + 100*time.Millisecond - time.Second) // the clock has just looked ahead by itself
		promise := windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: "shop"}, Source: "x", Origin: windsock.FromMonitor, State: windsock.Failed, TTL: time.Second}
		record(t, b, promise)
		<-time.After(promise.TTL + 2*tickEvery)
		if d, err := b.Deployment(t.Context(), "shop"); err != nil || d.State != windsock.Unknown {
			t.Errorf("it is still %s (%v)", d.State, err)
		}
	})
}
