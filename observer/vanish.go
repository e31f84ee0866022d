package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"windsock"
)

// settle decides what a full listing says by what it does not show. A thing is gone when
// two such listings in a row do not have it, or one does not and a single look finds
// nothing. Where more than half of all vanish at once a single look is not trusted
// either, nor a listing right after the other: whoever lost our rights, or half of its
// database, answers as if nothing had ever been there. Where single looks find what two
// listings did not have, these leave things out, and nothing is gone.
func (p *poller) settle(ctx context.Context, began time.Time) error {
	missing, gone := p.missing(began)
	for _, s := range gone[:min(len(gone), confirm)] {
		if err := p.checkOne(ctx, s); ctx.Err() != nil {
			return err
		}
	}
	if found := p.found(gone); found > 0 {
		return fmt.Errorf("the listing leaves out what is there: %d of %d things that it did not have twice", found, min(len(gone), confirm))
	}
	if !p.suspicious(len(missing) + len(gone)) {
		p.trust()
		for _, s := range missing[:min(len(missing), confirm)] {
			if err := p.checkOne(ctx, s); ctx.Err() != nil {
				return err
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for part := range slices.Chunk(gone, recordSize) {
		var list []news
		for _, s := range part {
			if k, ok := p.known[s]; ok && k.lookAt <= began.Sub(p.start) { // nobody saw it since
				list = append(list, news{Sighting: vanished(s, "two listings in a row did not have it")})
			}
		}
		if err := p.record(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// found returns how many things were seen by a single look since the listing missed them.
func (p *poller) found(gone []windsock.Subject) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range gone {
		if k, ok := p.known[s]; ok && k.missed == 0 {
			n++
		}
	}
	return n
}

func vanished(s windsock.Subject, reason string) windsock.Sighting {
	return windsock.Sighting{Subject: s, State: windsock.Gone, Reason: reason}
}

// missing returns, in order, what the listing that just came to its end did not have:
// for the first time, and not for the first.
func (p *poller) missing(began time.Time) (once, twice []windsock.Subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	another := began.Sub(p.missedAt) >= p.Every/2 // else a fault has had no time to pass
	if another {
		p.missedAt = began
	}
	for s, k := range p.known {
		if k.round == p.round {
			continue
		}
		if k.silent { // its members tell, and the store when it has none
			delete(p.known, s)
			continue
		}
		if another || k.missed == 0 {
			k.missed++
			p.known[s] = k
		}
		if k.missed == 1 {
			once = append(once, s)
		} else {
			twice = append(twice, s)
		}
	}
	for _, list := range [...][]windsock.Subject{once, twice} {
		slices.SortFunc(list, func(a, b windsock.Subject) int { // instances before what they are of
			return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
		})
	}
	return once, twice
}

// suspicious reports whether too many vanish at once.
func (p *poller) suspicious(missing int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return missing >= guardFrom && 2*missing > len(p.known)
}

// checkOne looks at one thing and records what it sees.
func (p *poller) checkOne(ctx context.Context, s windsock.Subject) error {
	began := time.Now()
	ctx, span := begin(ctx, p.tracer, "look", "provider", p.ID)
	seen, err := p.see(ctx, s)
	finish(span, err != nil)
	if err != nil {
		return err
	}
	if seen.State != windsock.Gone && !p.knowsDeploymentOf(&seen) {
		p.listSoon() // that shows the deployment first
		return nil
	}
	return p.take(ctx, began, []windsock.Sighting{seen})
}

// see looks at one thing.
func (p *poller) see(ctx context.Context, s windsock.Subject) (windsock.Sighting, error) {
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	seen, err := p.Provider.Check(limited, s)
	if errors.Is(err, windsock.ErrNotFound) {
		if !p.lose(s) {
			return seen, errLost
		}
		seen, err = vanished(s, "the provider does not have it"), nil
	}
	seen.Subject = s
	return seen, err
}

// errLost says why single looks are not trusted.
var errLost = errors.New("too much was not found at once, the next listings have to agree")

// trust lets single looks lose as much as a listing may.
func (p *poller) trust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost, p.total = 0, len(p.known)
}

// lose counts what single looks do not find, and reports whether it may be gone.
func (p *poller) lose(s windsock.Subject) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.known[s]; !there {
		return true
	}
	if p.lost+1 >= guardFrom && 2*(p.lost+1) > p.total {
		return false
	}
	p.lost++
	return true
}

// knowsDeploymentOf reports whether a thing is of no deployment that is still to be shown.
func (p *poller) knowsDeploymentOf(s *windsock.Sighting) bool {
	if s.Kind != windsock.KindInstance || s.Deployment == "" {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[windsock.Subject{Kind: windsock.KindDeployment, ID: s.Deployment}]
	return ok
}
