package store

import (
	"context"
	"errors"
	"fmt"

	"windsock"
)

// RetryComponent has a component run again that failed, was too late or was cancelled. It
// returns ErrConflict when it is not over, or is complete.
func (s *Store) RetryComponent(ctx context.Context, deploymentID, name string) (windsock.Component, error) {
	return s.operate(ctx, deploymentID, name, func(w *working, c *component) {
		wasDone := c.State.Done()
		c.Failures = 0
		w.change(c, change{on: windsock.OnRetry, reason: "an operator has it run again"})
		w.try(`id = ?`, c.ID)
		if wasDone {
			w.holdBack(c)
		}
	}, windsock.OnRetry)
}

// holdBack has those that come after c wait for it, which went on without it as it was
// cancelled.
func (w *working) holdBack(c *component) {
	next, prior, alike := "after", "before", `action <> 'DELETE'`
	how := func(o *component) bool { o.again(); return true }
	if c.Action == windsock.ActionDelete {
		next, prior, alike = prior, next, `action = 'DELETE'`
		how = func(*component) bool { return true }
	}
	w.renew(c.of, alike+` AND `+inChain(`SELECT `+next+` FROM component_edges WHERE `+prior+` = ?`, prior, next), []any{c.ID}, how)
}

// CancelComponent has nobody wait for a component any more. It returns ErrConflict when it
// is over.
func (s *Store) CancelComponent(ctx context.Context, deploymentID, name string) (windsock.Component, error) {
	return s.operate(ctx, deploymentID, name, func(w *working, c *component) {
		w.change(c, change{on: windsock.OnCancel, reason: "an operator cancelled it"})
	}, windsock.OnCancel)
}

func (s *Store) operate(ctx context.Context, deploymentID, name string, do func(*working, *component), on windsock.Occasion) (shown windsock.Component, err error) {
	err = s.do(ctx, func(t *tx) error {
		w := t.work()
		c, err := w.componentNamed(deploymentID, name)
		if err != nil {
			return err
		}
		if _, ok := c.State.Next(on); !ok {
			return fmt.Errorf("component %q is %s: %w", name, c.State, windsock.ErrConflict)
		}
		put(&w.touched, c.DeploymentID, c.of)
		do(w, c)
		w.settleComponents()
		if w.err != nil {
			return w.err
		}
		shown, err = viewComponent(t, c.DeploymentID, name)
		if errors.Is(err, windsock.ErrNotFound) { // it was to go once it is over
			shown, err = c.component(), nil
		}
		return err
	})
	return shown, err
}

func (w *working) componentNamed(deploymentID, name string) (*component, error) {
	d, err := viewDeployment(w, deploymentID, ourID, theirID)
	if err != nil {
		return nil, err
	}
	c := w.loadComponent(`deployment_id = ? AND name = ?`, d.ID, name)
	if c == nil && w.err == nil {
		return nil, noComponent(d.ID, name)
	}
	return c, w.err
}

func noComponent(deploymentID, name string) error {
	return fmt.Errorf("component %q of deployment %q: %w", windsock.Clip(name), deploymentID, windsock.ErrNotFound)
}
