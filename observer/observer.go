// Package observer looks at what was declared, by the probes declared with it, and
// hands what it saw to the model. It decides nothing: what a look means is for the
// rules of package windsock.
package observer

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"windsock"
	"windsock/observer/probe"
)

// A Model is where what was seen goes, and where what is to be watched is found.
// *store.Store is one.
type Model interface {
	Record(context.Context, []windsock.Observation) ([]windsock.Outcome, error)

	// Probes lists the instances that have a probe by id, after that id.
	Probes(ctx context.Context, after string, limit int) ([]windsock.ProbeTarget, error)

	// Probe returns ErrNotFound when there is no such instance, or it has no probe.
	Probe(ctx context.Context, instanceID string) (windsock.ProbeTarget, error)

	// Head is the seq of the newest event.
	Head() int64

	// Events lists the log after that seq.
	Events(ctx context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error)

	// Wait returns nil once there is an event after that seq.
	Wait(ctx context.Context, after int64) error

	SaveProvider(context.Context, windsock.ProviderStatus) error

	// Known lists what of a kind a provider showed and is not gone, by the provider's ids,
	// after that id.
	Known(ctx context.Context, provider string, kind windsock.Kind, after string, limit int) ([]string, error)
}

// How the observer keeps time.
const (
	beatEvery   = time.Second      // at least that often the loop goes round
	reportEvery = 10 * time.Second // that often it says how far it is
	writeLimit  = 10 * time.Second // for one write of the model; it counts as failed then
	maxBatch    = 1000             // samples in one Record
)

// Observer looks at every instance that has a probe, each at its interval. The exported
// fields are set before Run and not changed after.
type Observer struct {
	Model   Model
	Log     *slog.Logger
	Metrics *Metrics

	Tracer trace.Tracer // shows looks as spans; nil: nobody does

	Workers     int // looks at a time; default 256
	ExecWorkers int // of plugins at a time, apart from those; default 16

	Look func(context.Context, windsock.Probe) probe.Result // default probe.Look

	Providers  []Source                  // that are observed, beside the probes
	SelfChecks map[string]windsock.Probe // by provider: while one fails, probes of that provider that fail say nothing

	// Share has us do some units, until ctx ends; default windsock.DoAll.
	Share func(ctx context.Context, w windsock.Worker, units ...string) error

	parts      parts
	selfChecks map[string]*selfCheck
	schedule   *schedule
	samples    chan sample
	wake       chan struct{} // something is due sooner, or there is room again
	loaded     chan struct{} // closed once all probes are scheduled
	beat       atomic.Pointer[time.Time]

	flights singleflight.Group // of Check and CheckAll, by subject
	callers atomic.Int64       // of Check
	checks  checks
}

// Run looks at what is for us to look at until ctx ends, and returns once no look is under
// way. No fault of the model ends it.
func (o *Observer) Run(ctx context.Context) error {
	o.schedule = newSchedule(time.Now(), orDefault(o.Workers, 256), orDefault(o.ExecWorkers, 16))
	o.samples = make(chan sample, maxBatch)
	o.wake = make(chan struct{}, 1)
	o.loaded = make(chan struct{})
	o.prepareSelfChecks()
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.checks.open(ctx)
	defer o.Metrics.rest()
	defer o.checks.close()

	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { o.follow(working) })
	wg.Go(func() { o.record(working) })
	wg.Go(func() { o.report(working) })
	wg.Go(func() { o.lookInTime(working, &wg) })
	return o.share(ctx)
}

// lookInTime begins every look when it is due.
func (o *Observer) lookInTime(ctx context.Context, looks *sync.WaitGroup) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		o.beat.Store(&now)
		t, late, wait := o.schedule.take(now)
		if t != nil {
			if late > min(time.Second, time.Duration(t.probe.Interval)) {
				o.Metrics.late.Inc()
			}
			looks.Go(func() { o.look(t) })
			continue
		}
		timer.Reset(min(wait, beatEvery))
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-timer.C:
		}
	}
}

// Beat is when Run last went round, which it does every second; zero before that. What
// is much older is a loop that hangs.
func (o *Observer) Beat() time.Time {
	if t := o.beat.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// look looks at a target and passes on what it saw. It holds the target's place in its
// lane until the recorder has taken that, so that a slow store slows the looks down.
func (o *Observer) look(t *target) {
	ctx, span := begin(t.part.ctx, o.Tracer, "probe", "instance", t.id)
	result := o.lookOnce(ctx, t.provider, t.probe)
	finish(span, result.State == windsock.Unknown)
	if ctx.Err() == nil && o.schedule.stands(t) { // else we stop, which says nothing of the target, or nobody asks any more
		select {
		case o.samples <- sample{observe(t.id, &t.probe, result), t.part, span.SpanContext()}:
		case <-ctx.Done():
		}
	}
	o.schedule.done(t, result.State == windsock.Unknown, result.Reason, time.Now())
	o.nudge()
}

// lookOnce looks at something of a provider.
func (o *Observer) lookOnce(ctx context.Context, provider string, p windsock.Probe) probe.Result {
	return o.doubt(ctx, provider, o.lookWith(ctx, p))
}

func (o *Observer) lookWith(ctx context.Context, p windsock.Probe) probe.Result {
	o.Metrics.inflight.Inc()
	defer o.Metrics.inflight.Dec()
	look := o.Look
	if look == nil {
		look = probe.Look
	}
	began := time.Now()
	result := look(ctx, p)
	o.Metrics.looked(p.Type, result, time.Since(began))
	return result
}

// observe makes one statement of what a probe saw. How many of them it takes, and from
// when on one that cannot look is stale, is kept with the evidence.
func observe(instanceID string, p *windsock.Probe, r probe.Result) windsock.Observation {
	need := p.Passes
	if r.State == windsock.Failed {
		need = p.Fails
	}
	return windsock.Observation{
		Subject: windsock.Subject{Kind: windsock.KindInstance, ID: instanceID},
		Source:  "probe",
		Origin:  windsock.FromProbe,
		State:   r.State,
		Reason:  r.Reason,
		Promise: 3 * time.Duration(p.Interval),
		Need:    need,
	}
}

// nudge makes the loop go round.
func (o *Observer) nudge() {
	select {
	case o.wake <- struct{}{}:
	default: // it is about to
	}
}

// A sample is what a look of a part saw.
type sample struct {
	windsock.Observation
	part *part
	look trace.SpanContext
}

// record hands samples to the model until ctx ends: all that came in while one Record
// was under way go into the next. Those of a Record that fails are dropped, as the next
// looks tell again.
func (o *Observer) record(ctx context.Context) {
	failing := false
	for {
		var batch []windsock.Observation
		var terms []windsock.Term
		var looks []trace.Link
		take := func(s sample) {
			if s.part.ctx.Err() != nil {
				return // it is not for us any more
			}
			batch = append(batch, s.Observation)
			if s.look.IsSampled() {
				looks = append(looks, trace.Link{SpanContext: s.look})
			}
			if !slices.Contains(terms, s.part.term) {
				terms = append(terms, s.part.term)
			}
		}
		select {
		case <-ctx.Done():
			return
		case s := <-o.samples:
			take(s)
		}
		for range len(o.samples) {
			take(<-o.samples) // nobody else takes them, so they are there
		}
		if len(batch) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(windsock.Under(ctx, terms...), writeLimit)
		limited, span := o.recording(limited, looks)
		_, err := o.Model.Record(limited, batch) // an outcome that is an error: the instance is gone
		finish(span, err != nil)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.Metrics.lost.Add(float64(len(batch)))
			if !failing {
				o.Log.Error("what the probes see cannot be recorded", "error", err)
			}
		case failing:
			o.Log.Info("what the probes see is recorded again")
		}
		failing = err != nil
	}
}

// report keeps the provider's status up to date until ctx ends, at the cost of one row
// written every reportEvery.
func (o *Observer) report(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-o.loaded:
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var saved windsock.ProviderStatus
	for {
		if st := o.schedule.status(time.Now()); st != saved {
			limited, cancel := context.WithTimeout(ctx, writeLimit)
			err := o.Model.SaveProvider(limited, st)
			cancel()
			switch {
			case err == nil:
				saved = st
			case ctx.Err() == nil:
				o.Log.Warn("the status of the probes cannot be saved", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func orDefault(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
