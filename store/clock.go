package store

import (
	"context"
	"time"

	"windsock"
)

// How often the clock looks for deadlines that have passed, and for events of other
// processes; and how often it notes that we are alive, which bounds by how much a
// deadline may be shifted too far after a crash.
const (
	tickEvery  = 250 * time.Millisecond
	aliveEvery = 2 * time.Second
)

// dueAtOnce is how many passed deadlines are settled in one transaction.
const dueAtOnce = 1000

// Run has passed deadlines take effect, through the same door as everything that was
// observed, until ctx ends. It returns nil.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var alive time.Time
	for failing := false; ; {
		err := s.tick(ctx, &alive)
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

func (s *Store) tick(ctx context.Context, alive *time.Time) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if now := s.now(); now.Sub(*alive).Abs() >= aliveEvery {
		if err := s.markAlive(ctx); err != nil {
			return err
		}
		*alive = now
	}
	return nil
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
