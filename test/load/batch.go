package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A tally takes batches of events and counts them.
type tally struct {
	net.Listener
	events atomic.Int64
	mu     sync.Mutex
	bodies [][]byte // some of them
}

func newTally() (*tally, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tally{Listener: l}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"result":"success"}`)
		t.events.Add(eventsIn(body))
		t.mu.Lock()
		if len(t.bodies) < 100 {
			t.bodies = append(t.bodies, body)
		}
		t.mu.Unlock()
	}))
	return t, nil
}

func eventsIn(body []byte) int64 { return int64(bytes.Count(body, []byte(`{"id":"evt_`))) }

// until returns when that many events have come.
func (t *tally) until(events int64) error {
	give := time.Now().Add(2 * time.Minute)
	for t.events.Load() < events {
		if time.Now().After(give) {
			return fmt.Errorf("%d events came of %d", t.events.Load(), events)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// batches measures how fast a monitor that is told in batches hears of what waits for it,
// beside a client that posts the same bodies over as many connections.
func batches(dir, binary string) error {
	const connections = 8
	sink, err := newTally()
	if err != nil {
		return err
	}
	defer sink.Close()
	p, err := serve(dir, binary, 100*connections, "")
	if err != nil {
		return err
	}
	defer p.stop()
	_, port, _ := net.SplitHostPort(sink.Addr().String())
	var m struct {
		ID       string `json:"monitor_id"`
		Delivery struct {
			Backlog int64 `json:"backlog"`
		} `json:"delivery"`
	}
	ask := func(path, body string) error {
		resp, err := http.Post("http://"+p.addr+"/api/monitors/"+path, "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode > 201 {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return json.NewDecoder(resp.Body).Decode(&m)
	}
	if err := ask("add", "address=127.0.0.1&format=batch&port="+port); err != nil {
		return err
	}
	var ours, plain, cpu []float64
	for range *rounds {
		if err := ask(m.ID+"/pause", ""); err != nil {
			return err
		}
		if _, _, err := post(p.addr, connections, inHundreds); err != nil {
			return err
		}
		if err := ask(m.ID+"/pause", ""); err != nil { // again, to see what waits
			return err
		}
		waits, had, spent := m.Delivery.Backlog, sink.events.Load(), cpuSeconds(p.Process.Pid)
		began := time.Now()
		if err := ask(m.ID+"/resume", ""); err != nil {
			return err
		}
		if err := sink.until(had + waits); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		ours = append(ours, float64(waits)/took)
		cpu = append(cpu, (cpuSeconds(p.Process.Pid)-spent)*1e6/float64(waits))

		rate, err := plainBatches(sink, connections)
		if err != nil {
			return err
		}
		plain = append(plain, rate)
	}
	fmt.Printf("a client that posts batches     %8.0f events/s  (median of %d rounds, %d connections)\n", median(plain), *rounds, connections)
	fmt.Printf("events to one monitor, batches  %8.0f events/s  %.0f %% of it; %.1f µs of processor time each\n", median(ours), 100*median(ratios(ours, plain)), median(cpu))
	return nil
}

// plainBatches has a client post the bodies that came, again and again for a span.
func plainBatches(sink *tally, connections int) (rate float64, err error) {
	sink.mu.Lock()
	bodies := sink.bodies
	sink.mu.Unlock()
	had, began := sink.events.Load(), time.Now()
	_, _, err = post(sink.Addr().String(), connections, func(c, k int) (string, []byte) {
		return "/api/events", bodies[(2*c+k)%len(bodies)]
	})
	return float64(sink.events.Load()-had) / time.Since(began).Seconds(), err
}
