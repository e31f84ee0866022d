package observer

import (
	"context"
	"sync"
	"time"

	"windsock"
)

const (
	maxHints    = 10_000 // subjects; with more, all of the provider is listed instead
	hintWorkers = 4
)

// hints are the things to be looked at soon, each once.
type hints struct {
	mu   *sync.Mutex
	set  map[windsock.Subject]struct{}
	wake chan struct{}
}

func newHints() hints {
	return hints{mu: new(sync.Mutex), set: map[windsock.Subject]struct{}{}, wake: make(chan struct{}, 1)}
}

// add reports whether there was room.
func (h *hints) add(s windsock.Subject) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.set) >= maxHints {
		clear(h.set)
		return false
	}
	h.set[s] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return true
}

func (h *hints) take() (s windsock.Subject, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s = range h.set {
		delete(h.set, s)
		return s, true
	}
	return s, false
}

// watch listens to the provider until ctx ends. After each gap everything is listed.
func (p *poller) watch(ctx context.Context, w Watcher) {
	wait := firstRetry
	for ctx.Err() == nil {
		err := w.Watch(ctx, func() {
			wait = firstRetry
			p.metrics.listening(p.ID, true)
			p.log.Info("listening to the provider")
			p.listSoon()
		}, func(s windsock.Subject) {
			p.metrics.hinted(p.ID)
			if !p.hints.add(s) {
				p.listSoon()
			}
		})
		p.metrics.listening(p.ID, false)
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("the provider's notifications are lost, will try again", "error", err, "in", wait)
		pause(ctx, wait)
		wait = min(2*wait, longestWait)
	}
}

// followHints looks where the hints say, until ctx ends.
func (p *poller) followHints(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, hintWorkers)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hints.wake:
		}
		for {
			s, ok := p.hints.take()
			if !ok {
				break
			}
			select {
			case <-ctx.Done():
				return
			case room <- struct{}{}:
			}
			wg.Go(func() {
				defer func() { <-room }()
				began := time.Now()
				if err := p.checkOne(ctx, s); err != nil && ctx.Err() == nil {
					p.log.Debug("a hint could not be followed, the next listing will tell", "kind", s.Kind, "id", s.ID, "error", err, "after", time.Since(began))
				}
			})
		}
	}
}
