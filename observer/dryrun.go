package observer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"windsock"
)

// maxShown is how many things a Listing holds.
const maxShown = windsock.MaxPage

// Words returns which state each of a provider's own words stands for; nil when it is not
// observed here.
func (o *Observer) Words(provider string) map[string]windsock.State {
	for _, s := range o.Providers {
		if s.ID == provider {
			return s.Provider.Words()
		}
	}
	return nil
}

// Listing lists a provider now, in turn with the listings that are recorded, and records
// nothing. Who asks meanwhile shares it. It returns ErrNotFound when the provider is not
// observed here, ErrUnavailable while Run does not run.
func (o *Observer) Listing(ctx context.Context, provider string) (windsock.Listing, error) {
	flight := o.flights.DoChan("listing of "+provider, func() (any, error) { return o.dryRun(provider) })
	select {
	case <-ctx.Done():
		return windsock.Listing{}, ctx.Err()
	case r := <-flight:
		return r.Val.(windsock.Listing), r.Err
	}
}

// List lists a provider once, without a Model, to which everything would be new.
func List(ctx context.Context, s Source) windsock.Listing {
	return newPoller(s, nil, slog.New(slog.DiscardHandler), nil).dryRun(ctx)
}

func (o *Observer) dryRun(provider string) (windsock.Listing, error) {
	run, err := o.checks.join()
	if err != nil {
		return windsock.Listing{}, err
	}
	defer o.checks.going.Done()
	p := o.poller(provider)
	if p == nil {
		return windsock.Listing{}, fmt.Errorf("provider %q: %w", provider, windsock.ErrNotFound)
	}
	ended, cancel := p.under(run)
	defer cancel()
	ctx, cancel := context.WithTimeout(ended, manyLimit)
	defer cancel()
	result := make(chan windsock.Listing, 1)
	select {
	case p.poller.dryRuns <- func() { result <- p.poller.dryRun(ctx) }:
	case <-ctx.Done():
	}
	select {
	case l := <-result:
		return l, nil
	case <-ctx.Done():
	}
	if ended.Err() != nil {
		return windsock.Listing{}, errNotRunning
	}
	return windsock.Listing{}, fmt.Errorf("provider %q is not listed in time: %w", provider, windsock.ErrUnavailable)
}

// dryRun lists all of the provider. As that may have moved on what it thinks we have seen
// of its changes, the next look is a full one.
func (p *poller) dryRun(ctx context.Context) windsock.Listing {
	began := time.Now()
	l := windsock.Listing{Provider: p.ID, BeganAt: began.Truncate(time.Microsecond).UTC(), Things: []windsock.Shown{}}
	err := p.observe(ctx, p.Provider.Observe, func(_ context.Context, page []windsock.Sighting) error {
		p.enter(&l, page)
		return nil
	})
	p.fullAt = time.Time{}
	if err != nil {
		l.Error = windsock.CutReason(err.Error())
	}
	l.Took = windsock.Duration(time.Since(began).Truncate(time.Microsecond))
	return l
}

// enter adds a page to a listing.
func (p *poller) enter(l *windsock.Listing, page []windsock.Sighting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range page {
		s := &page[i]
		k, old := p.known[s.Subject]
		if !old && undescribed(s) {
			continue
		}
		if s.Kind == windsock.KindDeployment {
			l.Deployments++
		} else {
			l.Instances++
		}
		isNew := k.sums.description != p.sums(s).description
		if isNew {
			l.New++
		}
		if len(l.Things) < maxShown {
			l.Things = append(l.Things, windsock.ShownAs(s, isNew))
		}
	}
}
