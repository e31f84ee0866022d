package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"windsock"
)

const (
	pageLimit  = 2 * time.Minute // from one page of a listing to the next; what takes longer hangs
	recordSize = 500             // sightings in one Record
	checkLimit = 30 * time.Second
	confirm    = 32 // single looks at things that were missing from a listing
	guardFrom  = 5  // as many that are missing at once are suspicious, if they are more than half
)

// A poller looks at one provider again and again, and records what is new. It remembers
// of each thing only hashes of what it recorded, so that what did not change costs
// nothing but the look.
type poller struct {
	Source
	model   Model
	log     *slog.Logger
	metrics *Metrics
	tracer  trace.Tracer // nil: no spans are shown
	hasher  hasher
	hints   hints
	sooner  chan struct{} // a full listing is wanted now
	callers callers       // that wait for it
	dryRuns chan func()   // take their turn
	start   time.Time

	fullAt time.Time // when the last full listing began that came to its end
	status windsock.ProviderStatus
	failed bool // the last look

	mu       sync.Mutex // held from the comparison until it is recorded
	known    map[windsock.Subject]known
	round    uint32    // of full listings
	missedAt time.Time // when a listing began that counted as another one
	total    int       // things known when the last of them came to its end that was not suspicious
	lost     int       // of these, how many single looks have not found since
}

// known is what is remembered of a thing, by the provider's id. It is not gone.
type known struct {
	sums    sums
	lookAt  time.Duration // from the poller's start to that of the look that showed it last
	round   uint32        // of the last full listing that showed it
	missed  uint8         // full listings since then
	unknown bool          // its state
	silent  bool          // nothing was said of that
}

func newPoller(s Source, m Model, log *slog.Logger, metrics *Metrics) *poller {
	s.Every = cmp.Or(s.Every, defaultEvery)
	s.Full = cmp.Or(s.Full, fullAfter*s.Every)
	return &poller{
		Source: s, model: m, log: log.With("provider", s.ID), metrics: metrics,
		hasher: newHasher(), hints: newHints(), sooner: make(chan struct{}, 1), dryRuns: make(chan func()), start: time.Now(),
		known:  map[windsock.Subject]known{},
		status: windsock.ProviderStatus{ID: s.ID, Kind: s.Kind, Every: windsock.Duration(s.Every)},
	}
}

// run looks until ctx ends.
func (p *poller) run(ctx context.Context) {
	for wait := firstRetry; ; wait = min(2*wait, longestWait) {
		err := p.recall(ctx)
		if err == nil {
			break
		}
		p.log.Error("what is known of the provider cannot be read, will try again", "error", err, "in", wait)
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.followHints(ctx) })
	if w, ok := p.Provider.(Watcher); ok {
		wg.Go(func() { p.watch(ctx, w) })
	}
	timer := time.NewTimer(0) // at once, then each provider in its phase
	defer timer.Stop()
	for {
		full := false
		select {
		case <-ctx.Done():
			return
		case <-p.sooner:
			full = true
		case dryRun := <-p.dryRuns:
			dryRun()
			continue
		case <-timer.C:
		}
		p.look(ctx, full)
		timer.Reset(untilPhase(p.ID, p.Every, time.Now()))
	}
}

// recall reads which things the provider showed before we were started.
func (p *poller) recall(ctx context.Context) error {
	for _, kind := range [...]windsock.Kind{windsock.KindDeployment, windsock.KindInstance} {
		for after := ""; ; {
			ids, err := p.model.Known(ctx, p.ID, kind, after, page)
			if err != nil {
				return err
			}
			for _, id := range ids {
				p.expect(windsock.Subject{Kind: kind, ID: id})
				after = id
			}
			if len(ids) < page {
				break
			}
		}
	}
	return nil
}

// listSoon asks for a full listing.
func (p *poller) listSoon() {
	select {
	case p.sooner <- struct{}{}:
	default:
	}
}

// look looks at all of the provider, and says how that went.
func (p *poller) look(ctx context.Context, full bool) {
	began := time.Now()
	ctx, span := begin(ctx, p.tracer, "list", "provider", p.ID)
	defer func() { finish(span, p.failed) }()
	differ, ok := p.Provider.(Differ)
	full = full || !ok || p.fullAt.IsZero() || began.Sub(p.fullAt) >= p.Full
	observe := p.Provider.Observe
	var waiting []*caller
	if full {
		waiting = p.callers.take()
		p.mu.Lock()
		p.round++
		p.mu.Unlock()
	} else {
		observe = differ.Changes
	}
	err := p.observe(ctx, observe, func(ctx context.Context, page []windsock.Sighting) error {
		show(page, waiting)
		return p.take(ctx, began, page)
	})
	if full {
		p.fullAt = began
		if err == nil {
			err = p.settle(ctx, began)
		}
		if err == nil {
			p.status.WholeTook = windsock.Duration(time.Since(began))
		} else {
			p.fullAt = time.Time{} // the next look is a full one again
		}
	}
	if ctx.Err() != nil {
		return // that it was broken off says nothing of the provider
	}
	for _, c := range waiting {
		c.done <- err
	}
	p.note(began, err)
	limited, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	if err := p.model.SaveProvider(limited, p.status); err != nil && ctx.Err() == nil {
		p.log.Warn("how the provider is observed cannot be saved", "error", err)
	}
}

// note makes what came of a look the status.
func (p *poller) note(began time.Time, err error) {
	st := &p.status
	st.LastError = ""
	if err != nil {
		st.LastError = windsock.CutReason(err.Error())
	} else {
		st.CompleteAt = began.Truncate(time.Microsecond).UTC()
		st.Took = windsock.Duration(time.Since(began).Truncate(time.Microsecond))
		st.Deployments, st.Instances, st.Blind = p.count()
		st.Watched = st.Deployments + st.Instances
	}
	p.metrics.polled(st, err == nil)
	switch failed := err != nil; {
	case failed && !p.failed:
		p.log.Warn("provider cannot be listed", "error", err)
	case !failed && p.failed:
		p.log.Info("provider is listed again")
	}
	p.failed = err != nil
}

func (p *poller) count() (deployments, instances, unknown int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, k := range p.known {
		if s.Kind == windsock.KindDeployment {
			deployments++
		} else {
			instances++
		}
		if k.unknown {
			unknown++
		}
	}
	return deployments, instances, unknown
}

// observe runs one listing, and hands on each page of it. It gives up when a page takes
// too long to come.
func (p *poller) observe(ctx context.Context, list listing, page func(context.Context, []windsock.Sighting) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hangs := time.AfterFunc(pageLimit, func() { cancel(fmt.Errorf("no page within %s", pageLimit)) })
	defer hangs.Stop()
	err := list(ctx, func(sightings []windsock.Sighting) error {
		hangs.Stop()
		defer hangs.Reset(pageLimit)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return page(ctx, sightings)
	})
	if cause := context.Cause(ctx); cause != nil { // whatever it makes of that
		return cause
	}
	return err
}

// news is a sighting that is to be recorded, and what is to be remembered of it.
type news struct {
	windsock.Sighting
	sums sums
}

// take records what of these sightings is new. They come of a look that began then.
func (p *poller) take(ctx context.Context, began time.Time, sightings []windsock.Sighting) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []news
	flush := func() error {
		defer func() { list = list[:0] }()
		return p.record(ctx, list)
	}
	for i := range sightings {
		s := &sightings[i]
		k, old := p.known[s.Subject]
		if k.lookAt > began.Sub(p.start) { // somebody looked since
			k.round = p.round
			p.known[s.Subject] = k
			continue
		}
		if s.State == windsock.Gone {
			if !old {
				continue
			}
			list = append(list, news{Sighting: *s})
		} else {
			if !old && undescribed(s) {
				continue
			}
			k.lookAt, k.round, k.missed, k.unknown, k.silent = began.Sub(p.start), p.round, 0, s.State == windsock.Unknown, s.State == ""
			p.known[s.Subject] = k
			if sums := p.sums(s); k.sums != sums {
				list = append(list, news{*s, sums})
			}
		}
		if len(list) == recordSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// record records sightings, each with what it is if that is new, and remembers them.
// p.mu is held.
func (p *poller) record(ctx context.Context, list []news) error {
	if len(list) == 0 {
		return nil
	}
	batch := make([]windsock.Observation, len(list))
	for i := range list {
		s := &list[i]
		batch[i] = windsock.Observation{
			Subject: s.Subject, Provider: p.ID, Source: windsock.ProviderSource(p.ID), Origin: windsock.FromProvider,
			State: s.State, Raw: s.Raw, Reason: windsock.CutReason(s.Reason), Requested: s.Requested,
			Promise: windsock.LostAfter * p.Every,
		}
		if s.State != windsock.Gone && p.known[s.Subject].sums.description != s.sums.description {
			batch[i].As = &s.Description
		}
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	outcomes, err := p.model.Record(ctx, batch)
	if err != nil {
		return fmt.Errorf("what the provider shows cannot be recorded: %w", err)
	}
	for i := range list {
		p.remember(&list[i], outcomes[i].Err)
	}
	return nil
}

// remember notes that a sighting was recorded. One that was not is new the next time.
func (p *poller) remember(s *news, err error) {
	k := p.known[s.Subject]
	k.sums = s.sums
	if err != nil {
		k.sums = sums{}
		if errors.Is(err, windsock.ErrNotFound) { // removed from the model, or what it is of was: declared again by the next listing
			p.unsaid(windsock.Subject{Kind: windsock.KindDeployment, ID: s.Deployment})
		} else {
			p.log.Warn("what the provider shows was not taken in", "kind", s.Kind, "id", s.ID, "error", err)
		}
	}
	if s.State == windsock.Gone {
		delete(p.known, s.Subject)
		return
	}
	p.known[s.Subject] = k
}

// unsaid has a thing recorded anew when it is shown. p.mu is held.
func (p *poller) unsaid(s windsock.Subject) {
	if k, ok := p.known[s]; ok {
		k.sums = sums{}
		p.known[s] = k
	}
}

// undescribed reports whether the provider cannot tell for now what the thing is.
func undescribed(s *windsock.Sighting) bool {
	return s.Kind == windsock.KindInstance && s.Deployment == ""
}

// sums are those to be remembered of a sighting: what cannot be described for now is
// what it was. p.mu is held.
func (p *poller) sums(s *windsock.Sighting) sums {
	sums := p.hasher.sums(s)
	if undescribed(s) {
		sums.description = p.known[s.Subject].sums.description
	}
	return sums
}

// forget has everything recorded anew by the next full listing.
func (p *poller) forget() {
	p.mu.Lock()
	for s := range p.known {
		p.unsaid(s)
	}
	p.mu.Unlock()
	p.listSoon()
}
