// Package faults starts the real program and does to it what happens to programs: it is
// killed, its disk is full, everybody writes at once.
package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "windsock-faults")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "windsock")
	build := exec.Command("go", "build", "-tags", "sqlite_omit_load_extension osusergo netgo", "-o", binary, "windsock/cmd/windsock")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A server is a windsock that runs in a process of its own.
type server struct {
	cmd  *exec.Cmd
	addr string
	done chan struct{} // closed when it has ended

	mu  sync.Mutex
	log bytes.Buffer
}

var readyLine = regexp.MustCompile(`msg=ready.* address=http://(\S+)`)

// start starts windsock on the database and returns when it says that it is ready.
func start(t *testing.T, listen, db string, args ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(binary, append([]string{"serve", "--listen", listen, "--db", db}, args...)...), done: make(chan struct{})}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	ready := make(chan string, 1)
	go func() {
		defer close(s.done)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			s.mu.Lock()
			fmt.Fprintln(&s.log, lines.Text())
			s.mu.Unlock()
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1]
			}
		}
		s.cmd.Wait()
	}()
	select {
	case s.addr = <-ready:
	case <-s.done:
		t.Fatalf("windsock ended at once:\n%s", s.logged())
	case <-time.After(time.Minute):
		t.Fatalf("windsock is not ready after a minute:\n%s", s.logged())
	}
	return s
}

func (s *server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// kill ends it without a warning; interrupt asks it to stop. Both return when it has ended.
func (s *server) kill()      { s.cmd.Process.Kill(); <-s.done }
func (s *server) interrupt() { s.cmd.Process.Signal(os.Interrupt); <-s.done }

// client gives up on a connection that was cut rather than try again.
var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableKeepAlives: false}}

// call sends v as JSON, if there is any, and decodes the answer into out, if there is any.
func (s *server) call(ctx context.Context, method, path string, v, out any) (status int, err error) {
	var body io.Reader
	if v != nil {
		data, err := json.Marshal(v)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, body)
	if err != nil {
		return 0, err
	}
	if v != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode >= 500 {
		return resp.StatusCode, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	if out != nil {
		err = json.Unmarshal(data, out)
	}
	return resp.StatusCode, err
}

// must calls and fails the test unless the status is one of want.
func (s *server) must(t *testing.T, method, path string, v, out any, want ...int) {
	t.Helper()
	status, err := s.call(t.Context(), method, path, v, out)
	for _, w := range want {
		if err == nil && status == w {
			return
		}
	}
	t.Fatalf("%s %s: %d %v, want %v\n%s", method, path, status, err, want, s.logged())
}

type m = map[string]any

func (s *server) declare(t *testing.T, deployment string, instances ...string) {
	t.Helper()
	s.must(t, "PUT", "/api/deployments/"+deployment, m{"flap": "off"}, nil, 200, 201)
	for _, id := range instances {
		s.must(t, "PUT", "/api/instances/"+id, m{"deployment_id": deployment}, nil, 200, 201)
	}
}

type outcome struct {
	Changed  bool   `json:"changed"`
	State    string `json:"observed_state"`
	EventSeq int64  `json:"event_seq"`
}

// report posts a detection; an error means that it was not acknowledged.
func (s *server) report(ctx context.Context, instance, word string) (o outcome, err error) {
	status, err := s.call(ctx, "POST", "/api/monitors/deployment/instance/"+instance, m{"state": word, "source": "test"}, &o)
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
func (r *receiver) register(t *testing.T, s *server) {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	s.must(t, "POST", "/api/monitors/add", m{"version": "1", "address": host, "port": json.Number(port), "subjects": "instances"}, nil, 200, 201)
}

// eventually waits until ok, which it asks again and again, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
