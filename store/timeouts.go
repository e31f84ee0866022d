package store

import (
	"context"
	"fmt"
	"time"

	"windsock"
)

// timeOut has the components fail that were not heard of in time. It waits for its turn,
// so that a signal that arrived before the deadline has been taken in by then.
func (s *Store) timeOut(ctx context.Context) error {
	for {
		late := 0
		err := s.do(ctx, func(t *tx) error {
			w := t.work()
			due := w.loadComponents(`deadline_at > 0 AND deadline_at <= ? ORDER BY deadline_at, id LIMIT ?`, t.micros, dueAtOnce)
			for _, c := range due {
				put(&w.touched, c.DeploymentID, c.of)
				w.fail(c, windsock.OnDeadline, c.overdue())
			}
			w.settleComponents()
			late = len(due)
			return w.err
		})
		if err != nil || late < dueAtOnce {
			return err
		}
	}
}

// overdue says what was not heard.
func (c *component) overdue() string {
	in := (time.Duration(c.DeadlineAt-c.AvailableAt) * time.Microsecond).Round(time.Second)
	switch {
	case c.Kind == windsock.KindCondition:
		return fmt.Sprintf("%d of %d signals came in %s", c.Signals, c.Wanted, in)
	case c.StartedAt == 0:
		return fmt.Sprintf("nobody signalled that it began, or that it was done, in %s", in)
	}
	return fmt.Sprintf("nobody signalled that it was done in %s", in)
}
