package observer

import (
	"context"
	"errors"
	"sync"
	"time"

	"windsock"
)

// lookAt looks at one thing for somebody who asks, and says what it saw once that is
// recorded.
func (p *poller) lookAt(ctx context.Context, s windsock.Subject) (windsock.Look, error) {
	began := time.Now()
	ctx, span := begin(ctx, p.tracer, "look", "provider", p.ID)
	seen, err := p.see(ctx, s)
	finish(span, err != nil)
	if ctx.Err() != nil {
		return windsock.Look{}, ctx.Err()
	}
	if err != nil {
		return p.blind(err), nil
	}
	p.expect(s)
	return p.saw(&seen), p.take(ctx, began, []windsock.Sighting{seen})
}

// expect has a thing that is in the model be missed where the provider does not show it.
func (p *poller) expect(things ...windsock.Subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range things {
		if _, there := p.known[s]; !there {
			p.known[s] = known{}
		}
	}
}

func (p *poller) saw(s *windsock.Sighting) windsock.Look {
	return windsock.Look{Source: windsock.ProviderSource(p.ID), State: s.State, Raw: s.Raw, Reason: windsock.CutReason(s.Reason)}
}

func (p *poller) blind(err error) windsock.Look {
	return windsock.Look{Source: windsock.ProviderSource(p.ID), Error: windsock.CutReason(err.Error())}
}

// A listing shows things page by page.
type listing func(ctx context.Context, page func([]windsock.Sighting) error) error

// A caller waits for a full listing that begins after it asked.
type caller struct {
	show func(*windsock.Sighting) // each thing, until done is told
	done chan error
}

// callers are those that wait.
type callers struct {
	mu   sync.Mutex
	list []*caller
}

func (c *callers) add(one *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, one)
}

func (c *callers) take() []*caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

// show shows a page of a listing to callers.
func show(page []windsock.Sighting, to []*caller) {
	for _, c := range to {
		for i := range page {
			c.show(&page[i])
		}
	}
}

// errMissed says that a listing did not have a thing, which alone does not make it gone.
var errMissed = errors.New("a listing did not have it")

// lookAtMany looks at things by one listing of all, which is recorded as every other, and
// notes what it saw of each.
func (p *poller) lookAtMany(ctx context.Context, things []windsock.Subject, looks map[windsock.Subject]windsock.Look) {
	p.expect(things...)
	shown := make(map[windsock.Subject]windsock.Look, len(things))
	for _, s := range things {
		shown[s] = windsock.Look{}
	}
	err := p.list(ctx, func(s *windsock.Sighting) {
		if _, wanted := shown[s.Subject]; wanted {
			shown[s.Subject] = p.saw(s)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range things {
		_, there := p.known[s]
		switch missed := vanished(s, errMissed.Error()); {
		case err != nil:
			looks[s] = p.blind(err) // the listing may go on, and show more
		case shown[s] != windsock.Look{}:
			looks[s] = shown[s]
		case there:
			looks[s] = p.blind(errMissed)
		default:
			looks[s] = p.saw(&missed)
		}
	}
}

// list has show called with all that a listing shows that begins now, and returns when
// it is recorded. Who asks meanwhile shares the next one.
func (p *poller) list(ctx context.Context, show func(*windsock.Sighting)) error {
	c := &caller{show: show, done: make(chan error, 1)}
	p.callers.add(c)
	p.listSoon()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
