package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
	"windsock/api"
	"windsock/monitors"
	"windsock/store"
)

func TestHowMuchIsKept(t *testing.T) {
	file, err := parseConfig("w.yaml", []byte("keep: {age: 7d, events: 1000, horizon: 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		given   KeepConfig
		age     time.Duration
		events  int64
		horizon int64
	}{
		{"nothing said", parseServe(t).options(Config{}).Keep, 30 * 24 * time.Hour, 10_000_000, 2},
		{"the file", parseServe(t).options(file).Keep, 7 * 24 * time.Hour, 1000, 3},
		{"flags", parseServe(t, "--keep", "12h", "--keep-events", "5").options(file).Keep, 12 * time.Hour, 5, 3},
	} {
		r := tc.given.retention(nil)
		if r.Age != tc.age || r.Events != tc.events || r.Horizon != tc.horizon {
			t.Errorf("%s: keeps %s, %d events, horizon %d", tc.name, r.Age, r.Events, r.Horizon)
		}
	}
	for text, want := range map[string]string{
		"keep: {age: 1s}":       "w.yaml:1: keep.age: want at least a minute",
		"keep: {age: 20000d}":   "keep.age: want an age",
		"keep: {age: d}":        "keep.age: want an age",
		"keep: {events: -1}":    "keep.events: want at least 1",
		"keep: {horizon: 1000}": "keep.horizon: want 1 to 10",
	} {
		if _, err := parseConfig("w.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// A monitor that was away for too long is told what it lost, by the store, the deliverer
// and the API as they work together; who asks for what is gone is told so, too.
func TestTheGapIsTold(t *testing.T) {
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "w.db"), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	told := make(chan callback, 1000)
	monitor := httptest.NewServer(&receiver{Seen: func(c *callback) { told <- *c }, Refused: func(reason string) { t.Error(reason) }})
	defer monitor.Close()
	host, port, _ := net.SplitHostPort(monitor.Listener.Addr().String())
	at, _ := strconv.Atoi(port)

	if err := st.Declare(t.Context(), []windsock.DeploymentSpec{{ID: "shop", Flap: "off"}}, []windsock.InstanceSpec{{ID: "web-1", DeploymentID: "shop"}}); err != nil {
		t.Fatal(err)
	}
	m, err := st.AddMonitor(t.Context(), windsock.MonitorSpec{Address: host, Port: at, Scope: "instance:web-1", Parallel: 1}, windsock.Keys{}) // in the order of the log
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		state := []windsock.State{windsock.Failed, windsock.Running}[i%2]
		o := windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, Source: "test", Origin: windsock.FromMonitor, State: state}
		if _, err := st.Record(t.Context(), []windsock.Observation{o}); err != nil {
			t.Fatal(err)
		}
	}
	wanted, err := st.Events(t.Context(), m.Cursor, 1000, windsock.EventFilter{Scope: "instance:web-1"})
	if err != nil || len(wanted) != 200 {
		t.Fatal(len(wanted), err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	old := &store.Retention{Store: st, Age: time.Hour, Events: 50, Horizon: 2, Every: time.Millisecond}
	running.Go(func() { old.Run(ctx) })
	for { // the deliverer is away until it is too late
		if now, err := st.Monitor(t.Context(), m.ID); err != nil || now.Cursor > m.Cursor {
			break
		}
	}
	reg := prometheus.NewRegistry()
	dlv := &monitors.Deliverer{Log: st, Logger: slog.New(slog.DiscardHandler), Metrics: monitors.NewMetrics(reg),
		Guard: monitors.Guard{Self: netip.MustParseAddrPort("127.0.0.1:1")}} // the API on loopback has loopback called
	running.Go(func() { dlv.Run(ctx) })

	taken := 0
	c := <-told
	for ; c.Kind != windsock.KindLog; c = <-told {
		taken++
	}
	var said struct {
		Type      windsock.EventType
		MonitorID string `json:"monitor_id"`
		First     int64  `json:"first_seq"`
		Last      int64  `json:"last_seq"`
		Lost      int
	}
	if err := json.Unmarshal(c.Body, &said); err != nil {
		t.Fatal(err)
	}
	if said.Type != windsock.LogGap || said.MonitorID != m.ID || said.First != m.Cursor+1 || said.Lost == 0 || said.Lost+taken != len(wanted) {
		t.Errorf("after %d of %d callbacks it is told %s", taken, len(wanted), c.Body)
	}
	if line := c.String(); !strings.Contains(line, "LOST") {
		t.Errorf("windsock listen shows %q", line)
	}

	for err = nil; !errors.Is(err, windsock.ErrPruned); { // that comes after the gap, once nobody holds the events
		_, err = st.Events(t.Context(), 1, 1, windsock.EventFilter{})
	}
	srv := &api.Server{Store: st, Logger: slog.New(slog.DiscardHandler), Registerer: reg, Gatherer: reg, Stop: ctx}
	web := httptest.NewServer(srv.Handler())
	defer web.Close()
	for _, accept := range []string{"application/json", "text/event-stream"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/api/events?after=1", nil)
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusGone || !strings.Contains(string(body), "/problems/pruned") {
			t.Errorf("%s: %d %s", accept, resp.StatusCode, body)
		}
	}
}
