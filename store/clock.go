package store

import (
	"context"
	"sync"
	"time"

	"windsock"
)

// How often the clock looks whether the next deadline has passed, which it has at hand;
// and how often it reads that anew, and we note that we are alive, which bounds by how
// much a deadline may be shifted too far after a crash.
const (
	tickEvery  = 250 * time.Millisecond
	aliveEvery = 2 * time.Second
)

// dueAtOnce is how many passed deadlines are settled in one transaction.
const dueAtOnce = 1000

// Run has passed deadlines take effect while no other process does, and takes, keeps and
// gives up the leases of this one, until ctx ends and it has none. It returns nil.
func (s *Store) Run(ctx context.Context) error {
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(present) })
	wg.Go(func() { s.attend(present) })
	wg.Go(func() { s.share(present) })
	wg.Go(func() { s.mover.run(present) })
	err := s.Lead(ctx, windsock.UnitClock, s.clock)
	for left := s.terms.left.wait(); len(s.held()) > 0; left = s.terms.left.wait() {
		<-left
	}
	leave()
	wg.Wait()
	return err
}

// clock has passed deadlines take effect, through the same door as everything that was
// observed, until ctx ends. It returns nil.
func (s *Store) clock(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var looked time.Time
	for failing := false; ; {
		err := s.tick(ctx, &looked)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			s.Logger.Error("storage fails; deadlines wait", "error", err)
		case err == nil && failing:
			s.Logger.Info("storage works again")
		}
		if failing = err != nil; !failing {
			s.beat.Store(s.now().UnixMicro())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Beat is when Run last went round without an error; zero: never.
func (s *Store) Beat() time.Time { return fromMicros(s.beat.Load()) }

func (s *Store) tick(ctx context.Context, looked *time.Time) error {
	now := s.now()
	if s.stirred.Swap(false) || now.Sub(*looked).Abs() >= aliveEvery {
		if err := s.lookAhead(ctx); err != nil {
			return err
		}
		if err := s.forget(ctx); err != nil {
			return err
		}
		if err := s.forgetQuestions(ctx); err != nil {
			return err
		}
		if err := s.forgetSilences(ctx); err != nil {
			return err
		}
		*looked = now
	}
	if next := s.deadline.Load(); next == 0 || next > micros(now) {
		return nil
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.timeOut(ctx); err != nil {
		return err
	}
	if err := s.endLeases(ctx); err != nil {
		return err
	}
	err := s.do(ctx, func(t *tx) error {
		t.lose()
		return t.err
	})
	if err != nil {
		return err
	}
	return s.lookAhead(ctx)
}

// lookAhead finds the next deadline. One that is committed meanwhile is not lost: it
// comes before what was read, or after the reset.
func (s *Store) lookAhead(ctx context.Context) error {
	s.deadline.Store(0)
	var next int64
	err := s.read.GetContext(ctx, &next, `SELECT coalesce(min(at), 0) FROM (
		SELECT min(deadline_at) AS at FROM instances WHERE deadline_at > 0
		UNION ALL SELECT min(deadline_at) FROM deployments WHERE deadline_at > 0
		UNION ALL SELECT min(lease_at) FROM monitors WHERE lease_at > 0
		UNION ALL SELECT min(deadline_at) FROM components WHERE deadline_at > 0
		UNION ALL SELECT min(lost_at) FROM providers WHERE lost_at > 0 AND lost = 0) AS next`)
	s.sooner(next)
	return unavailable(err)
}

// sooner notes a deadline, if it comes before the next that is known; 0 is none.
func (s *Store) sooner(deadline int64) {
	for {
		next := s.deadline.Load()
		if deadline == 0 || next != 0 && next <= deadline || s.deadline.CompareAndSwap(next, deadline) {
			return
		}
	}
}

// settle judges anew the subjects whose deadline has passed. It waits for its turn like
// a Record, so that whatever arrived before the deadline has been taken in by then.
func (s *Store) settle(ctx context.Context) error {
	for {
		var due []struct {
			Kind windsock.Kind `db:"kind"`
			ID   string        `db:"id"`
		}
		now := micros(s.now())
		err := s.read.SelectContext(ctx, &due, `SELECT 'instance' AS kind, id FROM instances WHERE deadline_at > 0 AND deadline_at <= ?
			UNION ALL SELECT 'deployment', id FROM deployments WHERE deadline_at > 0 AND deadline_at <= ? LIMIT ?`, now, now, dueAtOnce)
		if err != nil {
			return unavailable(err)
		}
		if len(due) == 0 {
			return nil
		}
		err = s.do(ctx, func(t *tx) error {
			var instances, deployments []string
			for _, d := range due {
				if d.Kind == windsock.KindInstance {
					instances = append(instances, d.ID)
				} else {
					deployments = append(deployments, d.ID)
				}
			}
			w := t.work()
			w.loadInstances(instances)
			w.loadDeployments(deployments)
			w.judgeAll()
			w.flush()
			return t.err
		})
		if err != nil || len(due) < dueAtOnce {
			return err
		}
	}
}
