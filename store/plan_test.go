package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"

	"windsock"
)

// watched is a planner that tells before it plans.
type watched struct {
	planner
	plans func()
}

func (w watched) Plan(d windsock.Deployable, spec windsock.DeploymentSpec) (windsock.Plan, error) {
	w.plans()
	return w.planner.Plan(d, spec)
}

// Another changes, meanwhile, what is planned.
func TestOthersWriteWhileOnePlans(t *testing.T) { eachDB(t, othersWriteWhileOnePlans) }

func othersWriteWhileOnePlans(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Text: "$word $secret"}}, "word=one", "secret=xyzzy")
	s.runs("s1")
	times := 0
	s.Planner = watched{plans: func() {
		times++
		if err := s.do(t.Context(), func(t *tx) error {
			t.exec(`UPDATE deployed SET parameters = '{"secret":"plugh","word":"one"}'`)
			return t.err
		}); err != nil {
			t.Error(err)
		}
	}}
	s.word("two")
	if got := s.task("s1", "a").Config; got != "two plugh" || times != 2 {
		t.Errorf("planned %d times, and it runs %q", times, got)
	}
}

func TestWhoWaitsTooLongForAPlanIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{reading: semaphore.NewWeighted(1)}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := s.readOne(t.Context(), func() error {
			if err := s.readOne(gone, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("who went away: %v", err)
			}
			return s.readOne(t.Context(), nil)
		}); !errors.Is(err, windsock.ErrUnavailable) {
			t.Errorf("while another reads: %v", err)
		}
		read := false
		if err := s.readOne(t.Context(), func() error { read = true; return nil }); err != nil || !read {
			t.Errorf("after that: %t, %v", read, err)
		}
	})
}
