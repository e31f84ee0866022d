package observer

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"windsock"
)

// A part is a unit while it is for us: a provider, or a share of the probes.
type part struct {
	unit   string
	term   windsock.Term
	ctx    context.Context // of its looks, and of what is recorded of them; ends with it
	end    context.CancelFunc
	poller *poller // of a provider
	ended  sync.WaitGroup
}

// under returns a context made of another that ends with the part, too, and is of its term.
func (p *part) under(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(windsock.Under(ctx, p.term))
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// parts are those that are for us.
type parts struct {
	mu        sync.Mutex
	byUnit    map[string]*part
	changed   bool   // there are others than when the probes were last loaded
	interrupt func() // ends what the reader of the log is at
}

func (ps *parts) get(unit string) *part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byUnit[unit]
}

// share has us do what is for us until ctx ends.
func (o *Observer) share(ctx context.Context) error {
	share := o.Share
	if share == nil {
		share = windsock.DoAll
	}
	var providers []string
	for _, s := range o.Providers {
		providers = append(providers, windsock.ProviderUnit(s.ID))
	}
	var g errgroup.Group
	g.Go(func() error { return share(ctx, o, windsock.ProbesUnits...) })
	if len(providers) > 0 {
		g.Go(func() error { return share(ctx, o, providers...) })
	}
	return g.Wait()
}

// Begin looks at what is of units.
func (o *Observer) Begin(units map[string]windsock.Term) {
	o.parts.mu.Lock()
	defer o.parts.mu.Unlock()
	if o.parts.byUnit == nil {
		o.parts.byUnit = map[string]*part{}
	}
	for unit, term := range units {
		p := &part{unit: unit, term: term}
		p.ctx, p.end = context.WithCancel(windsock.Under(context.Background(), term))
		if i := slices.IndexFunc(o.Providers, func(s Source) bool { return windsock.ProviderUnit(s.ID) == unit }); i >= 0 {
			p.poller = newPoller(o.Providers[i], o.Model, o.Log, o.Metrics)
			p.poller.tracer = o.Tracer
			p.ended.Go(func() { p.poller.run(p.ctx) })
		}
		o.parts.byUnit[unit] = p
	}
	o.parts.changed = true
	if o.parts.interrupt != nil {
		o.parts.interrupt()
	}
}

// End breaks off the looks at what is of a unit: nothing comes of them.
func (o *Observer) End(unit string) {
	o.parts.mu.Lock()
	p := o.parts.byUnit[unit]
	delete(o.parts.byUnit, unit)
	o.parts.mu.Unlock()
	p.end()
	p.ended.Wait()
	if p.poller != nil {
		o.Metrics.forget(p.poller.ID)
	} else {
		o.schedule.dropPart(p)
		o.changed()
	}
}

// poller returns the part that polls a provider; nil: that is not for us.
func (o *Observer) poller(provider string) *part { return o.parts.get(windsock.ProviderUnit(provider)) }
