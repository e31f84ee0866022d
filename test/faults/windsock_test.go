// Package faults starts the real program and does to it what happens to programs: it is
// killed, its disk is full, everybody writes at once.
package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock/test/postgres"
	"windsock/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// each runs a test on an empty database of every kind.
func each(t *testing.T, test func(t *testing.T, db string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "w.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgres.Schema(t)) })
}

// A server is a windsock that runs in a process of its own.
type server struct{ *program.Server }

func start(t *testing.T, listen, db string, args ...string) server {
	t.Helper()
	return server{program.Serve(t, listen, db, args...)}
}

type m = map[string]any

func (s server) declare(t *testing.T, deployment string, instances ...string) {
	t.Helper()
	s.Must(t, "PUT", "/api/deployments/"+deployment, m{"flap": "off"}, nil, 200, 201)
	for _, id := range instances {
		s.Must(t, "PUT", "/api/instances/"+id, m{"deployment_id": deployment}, nil, 200, 201)
	}
}

type outcome struct {
	Changed  bool   `json:"changed"`
	State    string `json:"observed_state"`
	EventSeq int64  `json:"event_seq"`
}

// report posts a detection; an error means that it was not acknowledged.
func (s server) report(ctx context.Context, instance, word string) (o outcome, err error) {
	status, err := s.Call(ctx, "POST", "/api/monitors/deployment/instance/"+instance, m{"state": word, "source": "test"}, &o)
	if err == nil && status != 200 {
		err = fmt.Errorf("status %d", status)
	}
	return o, err
}

// A receiver is a monitor that remembers what it was told.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	told  []callback
	hooks chan func(answer func())
}

type callback struct {
	InstanceID   string `json:"instance_id"`
	DeploymentID string `json:"deployment_id"`
	State        string `json:"state"`
	Observed     string `json:"observed_state"`
	Seq          int64  `json:"seq"`

	at time.Time
}

func (c callback) subject() string { return c.DeploymentID + "/" + c.InstanceID }

func receive(t *testing.T) *receiver {
	r := &receiver{hooks: make(chan func(func()))}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var c callback
		if err := json.NewDecoder(req.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := func() {
			c.at = time.Now()
			r.mu.Lock()
			r.told = append(r.told, c)
			r.mu.Unlock()
			w.WriteHeader(http.StatusOK)
			http.NewResponseController(w).Flush()
		}
		select {
		case hook := <-r.hooks:
			hook(answer)
		default:
			answer()
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// next has the next callback handled by hook, or none if none comes soon.
func (r *receiver) next(hook func(answer func())) {
	done := make(chan struct{})
	select {
	case r.hooks <- func(answer func()) { hook(answer); close(done) }:
		<-done
	case <-time.After(time.Second):
	}
}

func (r *receiver) all() []callback {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]callback(nil), r.told...)
}

// register adds the receiver as a monitor.
func (r *receiver) register(t *testing.T, s server) {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "POST", "/api/monitors/add", m{"version": "1", "address": host, "port": json.Number(port), "subjects": "instances"}, nil, 200, 201)
}
