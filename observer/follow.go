package observer

import (
	"context"
	"errors"
	"time"

	"windsock"
)

// How the log is followed.
const (
	page        = 1000
	gather      = 100 * time.Millisecond // one round takes in what happens meanwhile, however busy the log is
	firstRetry  = 100 * time.Millisecond
	longestWait = 30 * time.Second
)

// follow schedules all probes there are for us and then those that come, change and go,
// until ctx ends; and anew whenever there are other parts. What fails is tried again, from
// where it stood.
func (o *Observer) follow(ctx context.Context) {
	var at int64
	loaded, retry := false, firstRetry
	for ctx.Err() == nil {
		var err error
		reading, stop := context.WithCancel(ctx)
		switch changed, none := o.parts.read(stop); {
		case none:
			loaded = false
			<-reading.Done()
		case changed || !loaded:
			loaded = false
			at, err = o.load(reading)
		default:
			at, err = o.catchUp(reading, at)
		}
		interrupted := reading.Err() != nil
		stop()
		if interrupted {
			continue
		}
		loaded = err == nil || loaded && !errors.Is(err, windsock.ErrPruned)
		wait := gather
		switch {
		case err == nil:
			retry = firstRetry
		case ctx.Err() == nil:
			o.Log.Warn("the observer cannot read what it is to look at", "error", err, "retry", retry)
			wait, retry = retry, min(2*retry, longestWait)
		}
		pause(ctx, wait)
	}
}

// read returns whether there are other parts than before, or none. When that changes stop
// is called.
func (ps *parts) read(stop func()) (changed, none bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	changed = ps.changed
	ps.changed, ps.interrupt = false, stop
	return changed, len(ps.byUnit) == 0
}

// load schedules every probe and drops those that are no more. It returns the seq that
// the log is to be followed from.
func (o *Observer) load(ctx context.Context) (int64, error) {
	head := o.Model.Head()
	o.schedule.startRound()
	for after := ""; ; {
		targets, err := o.Model.Probes(ctx, after, page)
		if err != nil {
			return 0, err
		}
		for _, t := range targets {
			if p := o.parts.get(windsock.ProbesUnit(t.InstanceID)); p != nil {
				o.schedule.set(t, p, false, time.Now())
			}
			after = t.InstanceID
		}
		o.changed()
		if len(targets) < page {
			break
		}
	}
	o.schedule.endRound()
	o.changed()
	select {
	case <-o.loaded:
	default:
		close(o.loaded)
	}
	return head, nil
}

// catchUp waits for events after that seq and looks up the probe of each instance that
// they declare or remove. It returns the seq up to which that is done.
func (o *Observer) catchUp(ctx context.Context, after int64) (int64, error) {
	if err := o.Model.Wait(ctx, after); err != nil {
		return after, err
	}
	head := o.Model.Head()
	for _, concerned := range [...]windsock.EventType{windsock.InstanceDeclared, windsock.InstanceRemoved} {
		for at := after; ; {
			events, err := o.Model.Events(ctx, at, page, windsock.EventFilter{Type: concerned})
			if err != nil {
				return after, err
			}
			for i := range events {
				if err := o.reload(ctx, events[i].SubjectID); err != nil {
					return after, err
				}
				o.removed(&events[i])
				at = events[i].Seq
			}
			if len(events) < page {
				break
			}
		}
	}
	o.changed()
	return head, nil
}

// removed has a provider show again what somebody took out of the model while it is there.
func (o *Observer) removed(e *windsock.Event) {
	if p := o.poller(e.Provider); p != nil && e.Type == windsock.InstanceRemoved && e.State != windsock.Gone {
		p.poller.forget()
	}
}

// reload schedules the probe that an instance has now.
func (o *Observer) reload(ctx context.Context, instanceID string) error {
	p := o.parts.get(windsock.ProbesUnit(instanceID))
	if p == nil {
		return nil
	}
	t, err := o.Model.Probe(ctx, instanceID)
	switch {
	case errors.Is(err, windsock.ErrNotFound):
		o.schedule.drop(instanceID)
	case err != nil:
		return err
	default:
		o.schedule.set(t, p, true, time.Now())
	}
	return nil
}

// changed lets everybody know that the schedule is another one.
func (o *Observer) changed() {
	o.Metrics.watched.Set(float64(o.schedule.watched()))
	o.nudge()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
