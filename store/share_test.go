package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"windsock"
)

// A hand is a worker that keeps what it is given, and finds out when somebody else has that
// as well.
type hand struct {
	*desk
	terms map[string]windsock.Term
}

// A desk has all hands of a test.
type desk struct {
	mu      sync.Mutex
	holder  map[string]*hand
	doubled []string
	moved   chan struct{}
}

func (h *hand) Begin(units map[string]windsock.Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for unit, term := range units {
		if other := h.holder[unit]; other != nil && other.terms[unit].Stands() {
			h.doubled = append(h.doubled, unit)
		}
		h.holder[unit], h.terms[unit] = h, term
	}
	h.news()
}

func (h *hand) End(unit string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.terms, unit)
	if h.holder[unit] == h {
		delete(h.holder, unit)
	}
	h.news()
}

func (d *desk) news() {
	close(d.moved)
	d.moved = make(chan struct{})
}

// await waits until the hands have as many units as wanted.
func (d *desk) await(t *testing.T, what string, hands []*hand, want ...int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		var got []int
		d.mu.Lock()
		for _, h := range hands {
			got = append(got, len(h.terms))
		}
		moved := d.moved
		d.mu.Unlock()
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-moved:
		case <-deadline:
			t.Fatalf("%s: they have %v units, want %v", what, got, want)
		}
	}
}

// Processes that come share the units evenly with those that are there, and who goes leaves
// his to the others. At no time do two do the same, and who lost a unit writes nothing.
func TestProcessesShareTheWork(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		name := fresh(t)
		d := &desk{holder: map[string]*hand{}, moved: make(chan struct{})}
		type member struct {
			*Store
			*hand
			leave, freeze func()
		}
		join := func() member {
			s := must[*Store](t)(Open(t.Context(), name, Options{}))
			h := &hand{d, map[string]windsock.Term{}}
			sharing, stop := context.WithCancel(t.Context())
			living, end := context.WithCancel(t.Context())
			var share, live sync.WaitGroup
			share.Go(func() { s.Share(sharing, h, windsock.DelivererUnits...) })
			for _, part := range []func(context.Context){s.attend, s.watch, s.share} {
				live.Go(func() { part(living) })
			}
			leave := sync.OnceFunc(func() { stop(); share.Wait(); end(); live.Wait(); s.Close() })
			t.Cleanup(leave)
			return member{s, h, leave, func() { end(); live.Wait() }} // frozen: it gives no sign of life, and notices nothing
		}
		a := join()
		d.await(t, "one alone", []*hand{a.hand}, 16)
		b := join()
		d.await(t, "two", []*hand{a.hand, b.hand}, 8, 8)
		c := join()
		d.await(t, "three", []*hand{a.hand, b.hand, c.hand}, 5, 5, 6)

		list := must[[]windsock.Replica](t)(a.Replicas(t.Context()))
		shown := 0
		for _, r := range list {
			shown += len(r.Holds)
		}
		if len(list) != 3 || shown != 16 {
			t.Errorf("shown are %+v", list)
		}

		d.mu.Lock()
		old := maps.Clone(c.hand.terms)
		d.mu.Unlock()
		c.freeze()
		d.await(t, "one is frozen", []*hand{a.hand, b.hand}, 8, 8)
		for unit, term := range old {
			if term.Stands() {
				t.Errorf("%s stands for who was frozen", unit)
			}
			ctx := windsock.Under(t.Context(), term)
			if _, _, err := c.PutDeployment(ctx, windsock.DeploymentSpec{ID: "of-" + unit[len("deliverer/"):]}, windsock.Cond{}); !errors.Is(err, windsock.ErrUnavailable) {
				t.Errorf("%s: what was written by who was frozen: %v", unit, err)
			}
		}
		b.leave()
		d.await(t, "one has left", []*hand{a.hand}, 16)
		if len(d.doubled) > 0 {
			t.Errorf("two had at once: %v", d.doubled)
		}
	})
}
