package observer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"windsock"
)

// The bounds of Check.
const (
	maxCallers = 1024 // that wait at a time
	maxChecks  = 32   // looks at a time; further ones wait their turn
)

// Check looks at an instance now and returns what it saw, once that is recorded. Callers
// that ask for the same instance meanwhile share one look. It counts in full, whatever
// the thresholds of the probe: somebody asked for the truth as it is now, and reads it
// in the state.
//
// It returns ErrNotFound when the instance has no probe, ErrTooMany when too many wait
// already, ErrUnavailable while Run does not run.
func (o *Observer) Check(ctx context.Context, instanceID string) (windsock.State, error) {
	defer o.callers.Add(-1)
	if o.callers.Add(1) > maxCallers {
		return windsock.Unknown, fmt.Errorf("checks: %w", windsock.ErrTooMany)
	}
	flight := o.flights.DoChan(instanceID, func() (any, error) { return o.check(instanceID) })
	select {
	case <-ctx.Done():
		return windsock.Unknown, ctx.Err() // the look goes on, for others that wait and for the record
	case r := <-flight:
		return r.Val.(windsock.State), r.Err
	}
}

// check waits for its turn and looks, under the context of Run: no caller ends it for
// the others.
func (o *Observer) check(instanceID string) (windsock.State, error) {
	ctx, err := o.checks.enter()
	if err != nil {
		return windsock.Unknown, err
	}
	defer o.checks.leave()
	state, err := o.lookAndRecord(ctx, instanceID)
	if err != nil && ctx.Err() != nil {
		err = errNotRunning
	}
	return state, err
}

func (o *Observer) lookAndRecord(ctx context.Context, instanceID string) (windsock.State, error) {
	target, err := o.Model.Probe(ctx, instanceID)
	if errors.Is(err, windsock.ErrNotFound) {
		return windsock.Unknown, fmt.Errorf("instance %q has no probe: %w", instanceID, windsock.ErrNotFound)
	}
	if err != nil {
		return windsock.Unknown, err
	}
	result := o.lookOnce(ctx, target.Probe)
	if ctx.Err() != nil {
		return windsock.Unknown, ctx.Err() // it was called off, which is not to be recorded
	}
	observation := observe(instanceID, &target.Probe, result)
	observation.Need = 1
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	outcomes, err := o.Model.Record(ctx, []windsock.Observation{observation})
	if err != nil {
		return windsock.Unknown, err
	}
	return result.State, outcomes[0].Err
}

var errNotRunning = fmt.Errorf("the observer is not running: %w", windsock.ErrUnavailable)

// checks is the door between the callers of Check and Run.
type checks struct {
	mu    sync.Mutex
	run   context.Context // of Run; nil while that does not run
	room  chan struct{}
	going sync.WaitGroup
}

func (c *checks) open(run context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.room = run, make(chan struct{}, maxChecks)
}

// close lets nobody in any more and waits for those that are.
func (c *checks) close() {
	c.mu.Lock()
	c.run = nil
	c.mu.Unlock()
	c.going.Wait()
}

// enter waits for its turn and returns the context to look under. Who entered leaves.
func (c *checks) enter() (context.Context, error) {
	c.mu.Lock()
	run := c.run
	if run == nil {
		c.mu.Unlock()
		return nil, errNotRunning
	}
	c.going.Add(1)
	c.mu.Unlock()
	select {
	case c.room <- struct{}{}:
		return run, nil
	case <-run.Done():
		c.going.Done()
		return nil, errNotRunning
	}
}

func (c *checks) leave() {
	<-c.room
	c.going.Done()
}
