package program

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Monitor keeps what a windsock calls back of each instance.
type Monitor struct {
	name string

	mu    sync.Mutex
	told  map[string][]Callback // by instance
	heard map[string]int        // how many of them were waited for
	more  chan struct{}         // closed when there is another one
}

// A Callback is what is told of an instance.
type Callback struct {
	Instance string `json:"instance_id"`
	Word     string `json:"state"`
	Reason   string `json:"reason"`
}

// Hear registers a monitor of all instances. The name is for the log of the test.
func (s *Server) Hear(t *testing.T, name string) *Monitor {
	t.Helper()
	m := &Monitor{name: name, told: map[string][]Callback{}, heard: map[string]int{}, more: make(chan struct{})}
	srv := httptest.NewServer(http.HandlerFunc(m.take))
	t.Cleanup(srv.Close)
	host, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "POST", "/api/monitors/add", map[string]any{"version": "1", "address": host, "port": json.Number(port), "subjects": "instances"}, nil, 200, 201)
	return m
}

func (m *Monitor) take(w http.ResponseWriter, r *http.Request) {
	var c Callback
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told[c.Instance] = append(m.told[c.Instance], c)
	close(m.more)
	m.more = make(chan struct{})
}

// Next waits for what is called back next of an instance, and fails the test if that is
// another word.
func (m *Monitor) Next(t *testing.T, instance, word string) Callback {
	t.Helper()
	began := time.Now()
	late := time.After(time.Minute)
	for {
		m.mu.Lock()
		n, told, more := m.heard[instance], slices.Clone(m.told[instance]), m.more
		if len(told) > n {
			m.heard[instance]++
		}
		m.mu.Unlock()
		if len(told) > n {
			if told[n].Word != word {
				t.Fatalf("%s heard %+v, want %s; of %+v", m.name, told[n], word, told)
			}
			t.Logf("%s heard %s (%s) after another %d ms", m.name, word, told[n].Reason, time.Since(began).Milliseconds())
			return told[n]
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%s did not hear %s of %s within a minute, but %+v\n", m.name, word, instance, told)
		}
	}
}

// Rest returns what was called back of all instances that nobody waited for.
func (m *Monitor) Rest() (rest []Callback) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for instance, told := range m.told {
		rest = append(rest, told[m.heard[instance]:]...)
	}
	return rest
}
