package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"windsock"
)

// readOne reads or plans a deployable with f, when nobody else does: a large one takes
// hundreds of megabytes meanwhile.
func (s *Store) readOne(ctx context.Context, f func() error) error {
	waiting, cancel := context.WithTimeout(ctx, readingWait)
	defer cancel()
	if err := s.reading.Acquire(waiting, 1); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return fmt.Errorf("other deployables are read: %w", windsock.ErrUnavailable)
	}
	defer s.reading.Release(1)
	return safely(f)
}

const readingWait = 10 * time.Second

// To plan thousands of components takes a while in which nobody could write. So a
// transaction that needs a plan ends with an unplanned, and is begun again with it.
type unplanned struct {
	by   windsock.Deployable
	spec windsock.DeploymentSpec
}

func (*unplanned) Error() string { return "it is not planned yet" }

// key is all that the plan depends on: a deployable never changes.
func (u *unplanned) key() string {
	return jsonText([]any{u.spec.ID, u.spec.Deployable, u.spec.Parameters})
}

// doPlanned is do for what may need plans. It may call f several times.
func (s *Store) doPlanned(ctx context.Context, f func(*tx) error) error {
	plans := map[string]windsock.Plan{}
	for {
		err := s.do(ctx, func(t *tx) error {
			t.plans = plans
			defer func() { t.plans = nil }()
			return f(t)
		})
		var u *unplanned
		if !errors.As(err, &u) {
			return err
		}
		if err := s.readOne(ctx, func() error {
			plans[u.key()], err = s.Planner.Plan(u.by, u.spec)
			return err
		}); err != nil {
			return err
		}
	}
}

// planned returns the plan of a deployment, which is made at once in a transaction that
// is not begun again.
func (t *tx) planned(by windsock.Deployable, spec windsock.DeploymentSpec) (windsock.Plan, error) {
	if t.plans == nil {
		return t.s.Planner.Plan(by, spec)
	}
	u := &unplanned{by, spec}
	if p, ok := t.plans[u.key()]; ok {
		return p, nil
	}
	return windsock.Plan{}, u
}
