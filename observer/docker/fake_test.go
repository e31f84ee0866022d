package docker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"windsock"
	"windsock/observer"
	"windsock/observer/providertest"
)

// fake is a Docker engine that answers what the real one was seen to.
type fake struct {
	t   *testing.T
	srv *httptest.Server

	mu         sync.Mutex
	containers []object
	events     []object // that it still has
	next       chan object
	asked      []string
	seen       int // containers that were looked at since they were listed
	broken     providertest.Fault
	pages      int // that were good
}

type object = map[string]any

func newFake(t *testing.T) *fake {
	f := &fake{t: t, broken: providertest.Fine, next: make(chan object)}
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	mux.HandleFunc("GET /v1.41/info", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{"ID": "LD5F", "Name": "box-1", "SystemTime": "2026-11-30T16:00:00.123456789Z"})
	})
	mux.HandleFunc("GET /v1.41/containers/json", f.list)
	mux.HandleFunc("GET /v1.41/containers/{id}/json", f.inspect)
	mux.HandleFunc("GET /v1.41/events", f.tell)
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, mux) }))
	t.Cleanup(f.srv.Close)
	return f
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path)
	page := 0
	switch _, what, _ := strings.Cut(r.URL.Path, "/containers/"); what {
	case "json":
		f.seen = 0
	case "":
	default:
		page = f.seen / providertest.PageSize
		f.seen++
	}
	fault := f.broken
	if page < f.pages {
		fault = providertest.Fine
	}
	f.mu.Unlock()
	fault.Wrap(mux).ServeHTTP(w, r)
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Query().Get("all") != "1" {
		f.t.Errorf("asked for %s, which leaves out those that do not run", r.URL)
	}
	rows := []object{}
	for i, c := range f.containers {
		if i > 0 && f.broken.String() == providertest.Repeating.String() {
			rows = append(rows, rows[len(rows)-1])
		}
		rows = append(rows, object{"Id": c["Id"], "Names": []any{c["Name"]}, "State": c["State"].(object)["Status"]})
	}
	answer(w, http.StatusOK, rows)
}

func (f *fake) inspect(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.index(r.PathValue("id")); i >= 0 {
		answer(w, http.StatusOK, f.containers[i])
		return
	}
	answer(w, http.StatusNotFound, object{"message": "No such container: " + r.PathValue("id")})
}

func (f *fake) index(id string) int {
	return slices.IndexFunc(f.containers, func(c object) bool { return c["Id"] == id })
}

// tell answers with the events it has, and, if there is no end to it, with those to come.
func (f *fake) tell(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	var filters map[string]map[string]bool
	if err := json.Unmarshal([]byte(query.Get("filters")), &filters); err != nil || query.Get("since") == "" {
		f.t.Errorf("asked for the events %s: %v", r.URL, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	send := func(e object) {
		if action, _, _ := strings.Cut(e["Action"].(string), ":"); filters["event"][action] {
			json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
		}
	}
	if query.Has("until") {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range f.events {
			if filters["container"][e["Actor"].(object)["ID"].(string)] {
				send(e)
			}
		}
		return
	}
	for {
		select {
		case e, ok := <-f.next:
			if !ok {
				return
			}
			send(e)
		case <-r.Context().Done():
			return
		}
	}
}

// event is one as the engine tells it.
func event(action, id string, attributes object) object {
	return object{"Type": "container", "Action": action, "Actor": object{"ID": id, "Attributes": attributes}, "time": 1796013881}
}

// with changes the engine while it is observed.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// asks returns what was asked for since the last time.
func (f *fake) asks() (list []string) {
	f.with(func() { list, f.asked = f.asked, nil })
	return list
}

// put makes a container in a state, or changes it.
func (f *fake) put(id, name string, state object, labels map[string]string, more object) {
	c := object{
		"Id": id, "Name": "/" + name, "State": state, "RestartCount": 0,
		"Config":          object{"Image": "nginx:1.25", "Labels": labels},
		"HostConfig":      object{"RestartPolicy": object{"Name": "no"}},
		"NetworkSettings": object{"Networks": object{"b": object{"IPAddress": "172.18.0.2"}, "a": object{"IPAddress": ""}, "c": object{"IPAddress": "172.19.0.2"}}},
	}
	maps.Copy(c, more)
	f.with(func() {
		if i := f.index(id); i >= 0 {
			f.containers[i] = c
		} else {
			f.containers = append(f.containers, c)
		}
	})
}

func (f *fake) provider(c Config) *Provider {
	f.t.Helper()
	c.Host = strings.Replace(f.srv.URL, "http://", "tcp://", 1)
	p, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	p.page = providertest.PageSize
	return p
}

// suite is the fake as the suite of all providers drives it.
type suite struct{ *fake }

func (s suite) Provider() observer.Provider { return s.provider(Config{}) }

func (s suite) Put(i providertest.Instance) {
	word, code, _ := strings.Cut(i.Word, " ")
	exit, _ := strconv.Atoi(code)
	s.put(i.ID, i.Name, object{"Status": word, "ExitCode": exit}, map[string]string{"com.docker.compose.project": i.Deployment}, nil)
}

func (s suite) Remove(id string) { s.Lose(id) }

func (s suite) Lose(id string) {
	s.with(func() { s.containers = slices.DeleteFunc(s.containers, func(c object) bool { return c["Id"] == id }) })
}

func (s suite) Word(state windsock.State) string {
	return map[windsock.State]string{windsock.Running: "running", windsock.Stopped: "exited 0", windsock.Failed: "dead"}[state]
}

func (s suite) Break(pages int, f providertest.Fault) {
	s.with(func() { s.pages, s.broken = pages, f })
}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Cloud { return suite{newFake(t)} })
}

// id is that of a container.
func id(n int) string { return fmt.Sprintf("%064x", n) }
