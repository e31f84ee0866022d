package observer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"windsock"
)

// The bounds of Check and CheckAll.
const (
	maxCallers = 1024            // of Check, that wait at a time
	maxChecks  = 32              // looks at a time; further ones wait their turn
	maxSingles = 50              // things of one provider to look at one by one; with more it is listed
	manyLimit  = 5 * time.Minute // for all of a CheckAll
)

// Check looks at a thing now, by its probe and its provider as far as it has them and
// the provider is observed here, and returns what each saw, once that is recorded.
// Callers that ask for the same thing meanwhile share the looks. That of a probe counts
// in full, whatever its thresholds: somebody asked for the truth as it is now, and reads
// it in the state.
//
// It returns no looks when nothing looks at it, ErrNotFound when it has no probe any
// more, ErrTooMany when too many wait already, ErrUnavailable while Run does not run.
func (o *Observer) Check(ctx context.Context, at windsock.Place) ([]windsock.Look, error) {
	defer o.callers.Add(-1)
	if o.callers.Add(1) > maxCallers {
		return nil, fmt.Errorf("checks: %w", windsock.ErrTooMany)
	}
	name := fmt.Sprintf("%s %s %t", at.Kind, at.ID, at.ProviderID != "")
	flight := o.flights.DoChan(name, func() (any, error) { return o.check(at) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err() // the look goes on, for others that wait and for the record
	case r := <-flight:
		return r.Val.([]windsock.Look), r.Err
	}
}

// check waits for its turn and looks, under the context of Run: no caller ends it for
// the others.
func (o *Observer) check(at windsock.Place) (looks []windsock.Look, err error) {
	ctx, err := o.checks.enter()
	if err != nil {
		return nil, err
	}
	defer o.checks.leave()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = errNotRunning
		}
	}()
	if p := o.pollerOf(at); p != nil {
		ctx, cancel := p.under(ctx)
		defer cancel()
		l, err := p.poller.lookAt(ctx, provided(at))
		if err != nil && ctx.Err() != nil {
			return nil, errNotRunning
		}
		if err != nil {
			return nil, err
		}
		looks = append(looks, l)
	}
	if at.Probed {
		l, err := o.probeNow(ctx, at.ID)
		if err != nil {
			return nil, err
		}
		looks = append(looks, l)
	}
	return looks, nil
}

// pollerOf returns who observes the provider of a thing; nil when nobody does here, or
// the provider does not know the thing.
func (o *Observer) pollerOf(at windsock.Place) *part {
	if at.ProviderID == "" {
		return nil
	}
	return o.poller(at.Provider)
}

// CheckAll looks at a deployment, the first of all, and its members, each as Check does.
// Where a provider would have to look at many one by one, it is listed instead. Who asks
// for the same deployment meanwhile shares all that, and its result.
func (o *Observer) CheckAll(ctx context.Context, all []windsock.Place) ([]windsock.Looked, error) {
	flight := o.flights.DoChan("all of "+all[0].ID, func() (any, error) { return o.checkAll(all) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-flight:
		return r.Val.([]windsock.Looked), r.Err
	}
}

func (o *Observer) checkAll(all []windsock.Place) ([]windsock.Looked, error) {
	run, err := o.checks.join()
	if err != nil {
		return nil, err
	}
	defer o.checks.going.Done()
	ctx, cancel := context.WithTimeout(run, manyLimit)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(maxChecks)

	listings := map[*part]map[windsock.Subject]windsock.Look{}
	for p, things := range o.tooMany(all) {
		looks := make(map[windsock.Subject]windsock.Look, len(things))
		listings[p] = looks
		g.Go(func() error {
			ctx, cancel := p.under(ctx)
			defer cancel()
			p.poller.lookAtMany(ctx, things, looks)
			return nil
		})
	}
	found := make([]windsock.Looked, len(all))
	for i, at := range all {
		found[i].Subject = at.Subject
		if listings[o.pollerOf(at)] != nil {
			at.ProviderID = "" // the listing has it
		}
		if at.Probed || o.pollerOf(at) != nil {
			g.Go(func() error {
				found[i].Looks, found[i].Err = o.Check(ctx, at)
				return nil
			})
		}
	}
	g.Wait()
	if run.Err() != nil {
		return nil, errNotRunning
	}
	for i, at := range all {
		if look, ok := listings[o.pollerOf(at)][provided(at)]; ok {
			found[i].Looks = append(found[i].Looks, look)
		}
	}
	return found, nil
}

// tooMany returns the things of each provider that has too many to look at them one by
// one.
func (o *Observer) tooMany(all []windsock.Place) map[*part][]windsock.Subject {
	things := map[*part][]windsock.Subject{}
	for _, at := range all {
		if p := o.pollerOf(at); p != nil {
			things[p] = append(things[p], provided(at))
		}
	}
	maps.DeleteFunc(things, func(_ *part, list []windsock.Subject) bool { return len(list) <= maxSingles })
	return things
}

// provided is the subject that lies there, by the provider's id.
func provided(at windsock.Place) windsock.Subject {
	return windsock.Subject{Kind: at.Kind, ID: at.ProviderID}
}

// probeNow looks by the probe of an instance, and says what it saw once that is recorded.
func (o *Observer) probeNow(ctx context.Context, instanceID string) (windsock.Look, error) {
	p := o.parts.get(windsock.ProbesUnit(instanceID))
	if p == nil {
		return windsock.Look{}, errNotRunning
	}
	ctx, cancel := p.under(ctx)
	defer cancel()
	target, err := o.Model.Probe(ctx, instanceID)
	if errors.Is(err, windsock.ErrNotFound) {
		return windsock.Look{}, fmt.Errorf("instance %q has no probe: %w", instanceID, windsock.ErrNotFound)
	}
	if err != nil {
		return windsock.Look{}, err
	}
	ctx, span := begin(ctx, o.Tracer, "probe", "instance", instanceID)
	result := o.lookOnce(ctx, target.Provider, target.Probe)
	finish(span, result.State == windsock.Unknown)
	if ctx.Err() != nil {
		return windsock.Look{}, errNotRunning // it was called off, which is not to be recorded
	}
	observation := observe(instanceID, &target.Probe, result)
	observation.Need = 1
	ctx, cancel = context.WithTimeout(ctx, writeLimit)
	defer cancel()
	outcomes, err := o.Model.Record(ctx, []windsock.Observation{observation})
	if err != nil {
		return windsock.Look{}, err
	}
	return windsock.Look{Source: observation.Source, State: result.State, Reason: result.Reason}, outcomes[0].Err
}

var errNotRunning = fmt.Errorf("the observer is not running: %w", windsock.ErrUnavailable)

// checks is the door between those who ask for checks and Run.
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

// join returns the context to look under. Who joined says going.Done.
func (c *checks) join() (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return nil, errNotRunning
	}
	c.going.Add(1)
	return c.run, nil
}

// enter joins, and waits for its turn. Who entered leaves.
func (c *checks) enter() (context.Context, error) {
	run, err := c.join()
	if err != nil {
		return nil, err
	}
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
