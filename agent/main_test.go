package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is the agent, too, for tests that kill it.
func TestMain(m *testing.M) {
	if state := os.Getenv("AGENT_STATE"); state != "" {
		os.Setenv("AGENT_PID", strconv.Itoa(os.Getpid())) // for a hook that ends it
		target, err := url.Parse(os.Getenv("AGENT_URL"))
		if err == nil {
			err = newAgent(target, state, slog.New(slog.NewTextHandler(os.Stderr, nil))).Run(context.Background())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

const token = "wsi_f3nS9jQ"

func newAgent(target *url.URL, state string, log *slog.Logger) *Agent {
	return &Agent{
		URL: target, Instance: "db-1", TokenFile: filepath.Join(state, "token"), Hooks: filepath.Join(state, "hooks"),
		State: filepath.Join(state, "state"), Grace: time.Minute, Log: log,
		Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}, killAfter: 200 * time.Millisecond,
	}
}

// A job is a task as windsock hands it out.
type job map[string]any

func script(id, config string, more ...job) job {
	j := job{
		"id": id, "name": id, "deployment_id": "shop", "action": "CREATE", "group": "script", "config": config,
		"options": job{}, "inputs": []job{}, "outputs": []job{}, "deadline_at": time.Now().Add(time.Hour),
	}
	for _, m := range more {
		for k, v := range m {
			j[k] = v
		}
	}
	return j
}

// parsed is the job as the agent has it.
func (j job) parsed(t *testing.T) *task {
	t.Helper()
	raw, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	task, err := parseTask(raw)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// A service is a windsock that says what it is told to.
type service struct {
	*httptest.Server

	mu       sync.Mutex
	jobs     []job
	revision int
	changed  chan struct{}
	answer   func(id string, said result) (status int) // to a signal; nil: 200
	took     map[string]result                         // what was signalled and taken
	heard    []string
}

func serve(t *testing.T, jobs ...job) *service {
	s := &service{changed: make(chan struct{}), took: map[string]result{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/instances/db-1/components", s.list)
	mux.HandleFunc("POST /api/signal/{token}", s.signal)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	s.set(jobs...)
	return s
}

// set changes what there is to run.
func (s *service) set(jobs ...job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		if _, has := j["signal_url"]; !has {
			j["signal_url"] = "https://other.example/prefix/api/signal/wss_" + j["id"].(string)
		}
	}
	s.jobs = jobs
	s.change()
}

func (s *service) change() {
	s.revision++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *service) list(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	for {
		s.mu.Lock()
		etag, changed := fmt.Sprintf(`"%d"`, s.revision), s.changed
		body, _ := json.Marshal(job{"instance_id": "db-1", "revision": s.revision, "components": s.jobs})
		s.mu.Unlock()
		if r.Header.Get("If-None-Match") != etag {
			w.Header().Set("ETag", etag)
			w.Write(body)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *service) signal(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.PathValue("token"), "wss_")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent was killed
	}
	said := parseResult(body)
	word := "signalled "
	if said["status"] == "started" {
		word = "started "
	}
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	status := http.StatusOK
	if answer != nil {
		status = answer(id, said)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, word+id)
	if status == http.StatusOK && word == "signalled " {
		s.took[id] = said
		s.jobs = slices.DeleteFunc(slices.Clone(s.jobs), func(j job) bool { return j["id"] == id })
	}
	s.change()
	w.WriteHeader(status)
}

// await returns once it is so; it is asked after each change.
func (s *service) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		s.mu.Lock()
		is, changed := so(), s.changed
		s.mu.Unlock()
		if is {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s: it never was; heard %q", what, s.history())
		}
	}
}

// result awaits what is signalled of a task.
func (s *service) result(t *testing.T, id string) result {
	t.Helper()
	var r result
	s.await(t, "result of "+id, func() bool { r = s.took[id]; return r != nil })
	return r
}

// history is "started ID" and "signalled ID" of all that was said, taken or not.
func (s *service) history() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard)
}

// A harness is an agent that works for a service.
type harness struct {
	*Agent
	dir    string
	log    *logged
	cancel func()
	stop   func() // cancels, and returns when Run has
}

type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

// newHarness has an agent that does not run yet.
func newHarness(t *testing.T, s *service) *harness {
	t.Helper()
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{log: new(logged), dir: t.TempDir()}
	h.Agent = newAgent(target, h.dir, slog.New(slog.NewTextHandler(h.log, nil)))
	put(t, h.TokenFile, token+"\n", 0o600)
	t.Cleanup(h.Client.CloseIdleConnections)
	return h
}

func (h *harness) start(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	ended := make(chan error, 1)
	go func() { ended <- h.Agent.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		for _, secret := range []string{"wss_", token, "hunter2"} {
			if strings.Contains(h.log.String(), secret) {
				t.Errorf("%q is in the log:\n%s", secret, h.log.String())
			}
		}
	})
	t.Cleanup(h.stop)
}

// work starts an agent for the service.
func work(t *testing.T, s *service) *harness {
	h := newHarness(t, s)
	h.start(t)
	return h
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeExecutable(path, text); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}
