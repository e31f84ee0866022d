package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
	"windsock/monitors"
	"windsock/store"
)

// A monitor that is asked and has a lease goes on undisturbed while it renews that, under
// load; and when it does not any more it is told so, and ends in the middle of a request:
// the store, its clock and the deliverer as they work together.
func TestALeaseUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed=%d", seed)
	var later atomic.Int64 // by how much the store's clock is ahead
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "w.db"), store.Options{
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const subjects, each = 5, 60
	instances := make([]windsock.InstanceSpec, subjects)
	for i := range instances {
		instances[i] = windsock.InstanceSpec{ID: "web-" + strconv.Itoa(i), DeploymentID: "shop"}
	}
	if err := st.Declare(t.Context(), []windsock.DeploymentSpec{{ID: "shop", Flap: "off"}}, instances); err != nil {
		t.Fatal(err)
	}

	h := &hearer{heard: map[string][]int64{}, cut: make(chan struct{}), rand: rand.New(rand.NewPCG(seed, 0)), expiring: make(chan string, 1), hanging: make(chan struct{}, 100)}
	monitor := httptest.NewServer(h)
	defer monitor.Close()
	watch := make(chan callback, 1000)
	watcher := httptest.NewServer(&receiver{Seen: func(c *callback) { watch <- *c }, Refused: func(reason string) { t.Error(reason) }})
	defer watcher.Close()
	add := func(server *httptest.Server, spec windsock.MonitorSpec) windsock.Registration {
		host, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		spec.Address = host
		spec.Port, _ = strconv.Atoi(port)
		r, err := st.AddMonitor(t.Context(), spec, windsock.Keys{})
		if err != nil {
			t.Error(err)
		}
		return r
	}
	add(watcher, windsock.MonitorSpec{Detections: windsock.Detections{"all"}})
	leased := windsock.MonitorSpec{Subjects: windsock.OnlyInstances, Parallel: 3, Verify: true, TTL: windsock.Duration(time.Hour)}
	m := add(monitor, leased)

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	dlv := &monitors.Deliverer{Log: st, Logger: slog.New(slog.DiscardHandler), Metrics: monitors.NewMetrics(prometheus.NewRegistry()),
		Guard: monitors.Guard{Self: netip.MustParseAddrPort("127.0.0.1:1")}} // the API on loopback has loopback called
	running.Go(func() { st.Run(ctx) })
	running.Go(func() { dlv.Run(ctx) })

	var load sync.WaitGroup
	for i := range instances {
		load.Go(func() {
			for n := range each {
				state := []windsock.State{windsock.Failed, windsock.Running}[n%2]
				o := windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: instances[i].ID}, Source: "test", Origin: windsock.FromMonitor, State: state}
				if _, err := st.Record(ctx, []windsock.Observation{o}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	loaded := make(chan struct{})
	go func() { load.Wait(); close(loaded) }()
	renewals := 0
	for more := true; more; renewals++ {
		later.Add(int64(10 * time.Minute))
		if r := add(monitor, leased); r.Created || r.ID != m.ID || r.Pending() && !m.Pending() {
			t.Fatalf("renewed: %+v", r)
		} else {
			m = r
		}
		select {
		case <-loaded:
			more = h.count() < subjects*each
		default:
		}
	}
	added, err := st.Events(t.Context(), 0, 1000, windsock.EventFilter{Type: windsock.MonitorAdded})
	if err != nil || len(added) != 2 {
		t.Errorf("after %d renewals the log says %d times that a monitor was added, %v", renewals, len(added), err)
	}
	h.check(t, subjects, each)

	h.hang.Store(true)
	o := windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-0"}, Source: "test", Origin: windsock.FromMonitor, State: windsock.Failed}
	if _, err := st.Record(ctx, []windsock.Observation{o}); err != nil {
		t.Fatal(err)
	}
	<-h.hanging
	later.Add(int64(55 * time.Minute))
	if got := <-h.expiring; got != m.ID {
		t.Errorf("told that the lease of %s ends", got)
	}
	later.Add(int64(6 * time.Minute))
	for want := []string{"monitor.verified", "monitor.expiring", "monitor.expired"}; len(want) > 0; {
		if c := <-watch; c.Kind == windsock.KindMonitor {
			if string(c.said.Type) != want[0] || c.ID != m.ID {
				t.Errorf("who watches all is told %s, want %s", c.Body, want[0])
			}
			want = want[1:]
		}
	}
	<-h.cut
	if _, err := st.Monitor(t.Context(), m.ID); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
}

// A hearer is a monitor that takes its time, and notes what it hears.
type hearer struct {
	hang     atomic.Bool // do not answer what is about instances any more
	hanging  chan struct{}
	cut      chan struct{} // closed when a request that hangs is given up
	expiring chan string

	mu    sync.Mutex
	rand  *rand.Rand
	asked int
	heard map[string][]int64 // by path
	wrong []string
}

func (h *hearer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		h.mu.Lock()
		h.asked++
		h.mu.Unlock()
		w.Header().Set("WebHook-Allowed-Origin", "*")
		return
	}
	var said struct {
		Seq  int64  `json:"seq"`
		Type string `json:"type"`
		ID   string `json:"monitor_id"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	h.mu.Lock()
	if err != nil || r.Header.Get("WebHook-Request-Origin") != "windsock" {
		h.wrong = append(h.wrong, fmt.Sprintf("%s %s %v", r.URL, r.Header, err))
	}
	takes := time.Duration(h.rand.IntN(3)) * time.Millisecond
	h.mu.Unlock()
	switch {
	case said.Type == string(windsock.MonitorExpiring):
		h.expiring <- said.ID
		return
	case h.hang.Load():
		h.hanging <- struct{}{}
		<-r.Context().Done()
		close(h.cut)
		return
	}
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		h.mu.Lock()
		h.wrong = append(h.wrong, "cut: "+r.URL.Path)
		h.mu.Unlock()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[r.URL.Path] = append(h.heard[r.URL.Path], said.Seq)
}

func (h *hearer) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, seqs := range h.heard {
		n += len(seqs)
	}
	return n
}

// check finds that each subject was heard of so many times, in order, after one handshake.
func (h *hearer) check(t *testing.T, subjects, times int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked != 1 || len(h.heard) != subjects || len(h.wrong) > 0 {
		t.Errorf("asked %d times, heard of %d subjects, wrong: %s", h.asked, len(h.heard), strings.Join(h.wrong, "\n"))
	}
	for path, seqs := range h.heard {
		for i := range seqs {
			if len(seqs) != times || i > 0 && seqs[i] <= seqs[i-1] {
				t.Fatalf("%s: heard %d times: %v", path, len(seqs), seqs)
			}
		}
	}
}
