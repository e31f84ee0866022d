package observer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"windsock"
	"windsock/observer/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a Model in memory. Its hooks may be nil.
type model struct {
	mu     sync.Mutex
	probes map[string]windsock.Probe
	events []windsock.Event
	news   chan struct{} // closed at the next event; made by who waits, so that it is of his bubble
	saved  []windsock.ProviderStatus
	shown  map[windsock.Kind][]string // of the one provider, before the start; sorted

	fault  func(call string) error            // what a call fails with
	record func([]windsock.Observation) error // called without a lock

	outcome func(windsock.Observation) error // of one that was recorded
}

func newModel() *model {
	return &model{probes: map[string]windsock.Probe{}}
}

func (m *model) declare(id string, p windsock.Probe) {
	m.append(windsock.InstanceDeclared, id, func() { m.probes[id] = p })
}

func (m *model) remove(id string) {
	m.append(windsock.InstanceRemoved, id, func() { delete(m.probes, id) })
}

func (m *model) append(typ windsock.EventType, id string, change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.events = append(m.events, windsock.Event{Seq: int64(len(m.events) + 1), Type: typ, Kind: windsock.KindInstance, SubjectID: id})
	if m.news != nil {
		close(m.news)
		m.news = nil
	}
}

// call is held during each call but Record.
func (m *model) call(name string) (unlock func(), err error) {
	m.mu.Lock()
	if m.fault != nil {
		err = m.fault(name)
	}
	return m.mu.Unlock, err
}

func (m *model) Record(_ context.Context, batch []windsock.Observation) ([]windsock.Outcome, error) {
	if m.record != nil {
		if err := m.record(batch); err != nil {
			return nil, err
		}
	}
	out := make([]windsock.Outcome, len(batch))
	if m.outcome != nil {
		for i := range batch {
			out[i].Err = m.outcome(batch[i])
		}
	}
	return out, nil
}

func (m *model) Probes(_ context.Context, after string, limit int) (page []windsock.ProbeTarget, err error) {
	unlock, err := m.call("Probes")
	defer unlock()
	for _, id := range slices.Sorted(maps.Keys(m.probes)) {
		if id > after && len(page) < limit {
			page = append(page, windsock.ProbeTarget{InstanceID: id, Provider: strings.Split(id, "-")[0], Probe: m.probes[id]})
		}
	}
	return page, err
}

func (m *model) Probe(_ context.Context, id string) (windsock.ProbeTarget, error) {
	unlock, err := m.call("Probe")
	defer unlock()
	p, ok := m.probes[id]
	if !ok && err == nil {
		err = fmt.Errorf("instance %q: %w", id, windsock.ErrNotFound)
	}
	return windsock.ProbeTarget{InstanceID: id, Provider: strings.Split(id, "-")[0], Probe: p}, err
}

func (m *model) Known(_ context.Context, provider string, kind windsock.Kind, after string, limit int) (page []string, err error) {
	unlock, err := m.call("Known")
	defer unlock()
	for _, id := range m.shown[kind] {
		if id > after && len(page) < limit {
			page = append(page, id)
		}
	}
	return page, err
}

func (m *model) Head() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.events))
}

func (m *model) Events(_ context.Context, after int64, limit int, f windsock.EventFilter) (page []windsock.Event, err error) {
	unlock, err := m.call("Events")
	defer unlock()
	for _, e := range m.events[after:] {
		if e.Type == f.Type && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, err
}

func (m *model) Wait(ctx context.Context, after int64) error {
	for {
		m.mu.Lock()
		if m.news == nil {
			m.news = make(chan struct{})
		}
		news, head := m.news, int64(len(m.events))
		m.mu.Unlock()
		if head > after {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

func (m *model) SaveProvider(_ context.Context, st windsock.ProviderStatus) error {
	unlock, err := m.call("SaveProvider")
	defer unlock()
	if err == nil {
		m.saved = append(m.saved, st)
	}
	return err
}

func (m *model) lastSaved() windsock.ProviderStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.saved) == 0 {
		return windsock.ProviderStatus{}
	}
	return m.saved[len(m.saved)-1]
}

// every is a probe of a thing by that name.
func every(interval time.Duration, name string) windsock.Probe {
	return windsock.Probe{Type: windsock.ProbeTCP, Target: name,
		Interval: windsock.Duration(interval), Timeout: windsock.Duration(min(interval, 5*time.Second)), Fails: 2, Passes: 2}
}

// diary notes which thing was looked at, and when.
type diary struct {
	mu    sync.Mutex
	looks map[string][]time.Time
	hang  map[string]bool // things that never answer
}

// look is an Observer's Look.
func (d *diary) look(ctx context.Context, p windsock.Probe) probe.Result {
	name := p.Target
	if p.Type == windsock.ProbeExec {
		name = p.Command[0]
	}
	d.mu.Lock()
	if d.looks == nil {
		d.looks = map[string][]time.Time{}
	}
	d.looks[name] = append(d.looks[name], time.Now())
	hang := d.hang[name]
	d.mu.Unlock()
	if hang {
		pause(ctx, time.Duration(p.Timeout))
		return probe.Result{State: windsock.Failed, Reason: "timed out"}
	}
	return probe.Result{State: windsock.Running, Reason: "fine"}
}

// of returns when a thing was looked at since, and forgets it.
func (d *diary) of(name string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	looks := d.looks[name]
	delete(d.looks, name)
	return looks
}

func newObserver(m Model) *Observer {
	return &Observer{Model: m, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry())}
}

// bubble runs test in a synctest bubble beside a running observer, and ends that.
func bubble(t *testing.T, o *Observer, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		defer running(t, o)()
		test(t)
	})
}

// running runs o until stop is called.
func running(t *testing.T, o *Observer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
