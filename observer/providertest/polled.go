package providertest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
	"windsock/observer"
)

// model is an observer.Model that holds nothing but what was recorded.
type model struct {
	mu    sync.Mutex
	said  []string // as "id>state"
	saved chan windsock.ProviderStatus
}

func (m *model) Record(_ context.Context, batch []windsock.Observation) ([]windsock.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range batch {
		if _, node := windsock.NodeHost(o.Subject.ID); o.Subject.Kind == windsock.KindInstance && !node {
			m.said = append(m.said, fmt.Sprintf("%s>%s", o.Subject.ID, o.State))
		}
	}
	return make([]windsock.Outcome, len(batch)), nil
}

func (m *model) SaveProvider(ctx context.Context, st windsock.ProviderStatus) error {
	if st.ID != "cloud" {
		return nil
	}
	select {
	case m.saved <- st:
	case <-ctx.Done():
	}
	return nil
}

func (m *model) Probes(context.Context, string, int) ([]windsock.ProbeTarget, error) { return nil, nil }

func (m *model) Probe(context.Context, string) (windsock.ProbeTarget, error) {
	return windsock.ProbeTarget{}, windsock.ErrNotFound
}

func (m *model) Head() int64 { return 0 }

func (m *model) Events(context.Context, int64, int, windsock.EventFilter) ([]windsock.Event, error) {
	return nil, nil
}

func (m *model) Wait(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (m *model) Known(context.Context, string, windsock.Kind, string, int) ([]string, error) {
	return nil, nil
}

// stepped is a provider that is listed only when it is let.
type stepped struct {
	observer.Provider
	next chan struct{}
}

func (s stepped) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	select {
	case <-s.next:
		return s.Provider.Observe(ctx, page)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// polled is a cloud that is observed as windsock does it, a listing at a time.
type polled struct {
	model *model
	next  chan struct{}
}

func poll(t *testing.T, c Cloud) *polled {
	p := &polled{&model{saved: make(chan windsock.ProviderStatus)}, make(chan struct{})}
	o := &observer.Observer{
		Model: p.model, Log: slog.New(slog.DiscardHandler), Metrics: observer.NewMetrics(prometheus.NewRegistry()),
		Providers: []observer.Source{{ID: "cloud", Kind: "fake", Provider: stepped{c.Provider(), p.next}, Every: time.Millisecond}},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { o.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return p
}

// look lets one listing go on to its end, and returns what it made the observer record
// of instances, in order, and how it went.
func (p *polled) look() (said string, st windsock.ProviderStatus) {
	p.next <- struct{}{}
	st = <-p.model.saved
	p.model.mu.Lock()
	defer p.model.mu.Unlock()
	said = strings.Join(slices.Sorted(slices.Values(p.model.said)), " ")
	p.model.said = nil
	return said, st
}

// testNothingGone breaks the cloud in each way while it is observed, and an instance
// vanishes meanwhile.
func testNothingGone(t *testing.T, c Cloud) {
	all := fill(c, 3*PageSize+1)
	p := poll(t, c)
	p.look()
	c.Lose(all[len(all)-1].ID)
	for _, f := range faults {
		for after := range 3 {
			c.Break(after, f)
			for range 3 {
				if said, st := p.look(); said != "" || st.LastError == "" {
					t.Errorf("%s after %d pages: recorded %q, the error is %q", f, after, said, st.LastError)
				}
			}
			c.Break(0, Fine)
		}
	}
}

func testGone(t *testing.T, c Cloud) {
	all := fill(c, 2*PageSize)
	p := poll(t, c)
	_, before := p.look()
	if said, st := p.look(); said != "" || st.LastError != "" || st.Instances != before.Instances {
		t.Errorf("recorded %q of what did not change, the status is %+v", said, st)
	}
	c.Remove(all[2].ID)
	first, _ := p.look()
	second, st := p.look()
	if first+second != all[2].ID+">gone" || st.Instances != before.Instances-1 {
		t.Errorf("recorded %q and %q, the status is %+v", first, second, st)
	}
}

func testLost(t *testing.T, c Cloud) {
	all := fill(c, 2*PageSize)
	p := poll(t, c)
	p.look()
	c.Lose(all[2].ID)
	first, _ := p.look()
	if second, _ := p.look(); first+second != all[2].ID+">gone" {
		t.Errorf("recorded %q and %q", first, second)
	}
}

// testVanishGuard has most of a cloud vanish, for one listing.
func testVanishGuard(t *testing.T, c Cloud) {
	all := fill(c, 4*PageSize)
	p := poll(t, c)
	p.look()
	for _, i := range all[2:] {
		c.Lose(i.ID)
	}
	if said, _ := p.look(); said != "" {
		t.Errorf("recorded %q by one listing", said)
	}
	for _, i := range all {
		c.Put(i)
	}
	for range 2 {
		if said, _ := p.look(); said != "" {
			t.Errorf("recorded %q once all were there again", said)
		}
	}
}
