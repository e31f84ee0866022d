package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"windsock"
)

// die has a process be gone, for the others.
func die(t *testing.T, s *Store) {
	t.Helper()
	if err := s.neighbours.lock(unix.F_OFD_SETLK, unix.F_UNLCK, s.id); err != nil {
		t.Error(err)
	}
}

func TestALeaseOfWhoIsGoneIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "w.db")
		a, b := process(t, path), process(t, path)
		grasp(t, a)
		ofA, _ := lead(t, a, "x")
		begins(t, ofA)
		run(t, b)
		ofB, _ := lead(t, b, "x")
		<-time.After(leaseLasts / 2)
		if len(ofB) > 0 {
			t.Fatal("two hold it")
		}
		die(t, a)
		if _, wait := begins(t, ofB); wait > leaseLasts/3 {
			t.Errorf("it was taken after %v", wait)
		}
	})
}

func TestWhoShouldAnswerIsGone(t *testing.T) {
	pair(t, func(t *testing.T, a, b *Store) {
		answering(t, b, func(ctx context.Context, _ string) string {
			die(t, b)
			<-ctx.Done()
			return ""
		})
		start := time.Now()
		if _, err := a.Ask(t.Context(), "x", "who"); !errors.Is(err, windsock.ErrNobody) || time.Since(start) > 2*nobodyAfter {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// Who commits is heard by the others, by the clock on the wall.
func TestTheBellIsHeard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	a, b := process(t, path), process(t, path)
	b.deaf = false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run(t, b)
	rings := b.neighbours.hear()
	defer rings.Close()
	heard := make(chan error, 1)
	go func() {
		_, err := rings.Read(make([]byte, 64))
		heard <- err
	}()
	if _, _, err := a.PutDeployment(ctx, windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-heard:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("the bell was not heard")
	}
	if err := b.Wait(ctx, a.Head()-1); err != nil {
		t.Error(err)
	}
}
