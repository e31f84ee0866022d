package example

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"windsock"
	"windsock/observer"
	"windsock/observer/providertest"
)

// fake is an inventory.
type fake struct {
	url string

	mu       sync.Mutex
	machines []machine // by id
	broken   providertest.Fault
	pages    int // that are good
}

func newFake(t *testing.T) providertest.Cloud {
	f := &fake{broken: providertest.Fine}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) Provider() observer.Provider {
	p, err := New(Config{URL: f.url}, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	return p
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	from, fault := f.page(r.FormValue("after")), f.broken
	if from/providertest.PageSize < f.pages {
		fault = providertest.Fine
	}
	f.mu.Unlock()
	fault.Wrap(http.HandlerFunc(f.answer)).ServeHTTP(w, r)
}

// page is where in the list the page begins that comes after an id.
func (f *fake) page(after string) int {
	i, found := slices.BinarySearchFunc(f.machines, after, func(m machine, id string) int { return strings.Compare(m.ID, id) })
	if found {
		i++
	}
	return i
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, one := strings.CutPrefix(r.URL.Path, "/machines/"); one {
		if i := slices.IndexFunc(f.machines, func(m machine) bool { return m.ID == id }); i >= 0 {
			json.NewEncoder(w).Encode(f.machines[i])
			return
		}
		http.Error(w, `{"error":"no such machine"}`, http.StatusNotFound)
		return
	}
	from := f.page(r.FormValue("after"))
	to := min(from+providertest.PageSize, len(f.machines))
	next := ""
	if to < len(f.machines) {
		next = f.machines[to-1].ID
	}
	if from > 0 && f.broken.String() == providertest.Repeating.String() {
		from--
	}
	json.NewEncoder(w).Encode(map[string]any{"machines": append([]machine{}, f.machines[from:to]...), "next": next})
}

func (f *fake) Put(i providertest.Instance) {
	f.Lose(i.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines = slices.Insert(f.machines, f.page(i.ID), machine{ID: i.ID, Name: i.Name, Group: i.Deployment, Power: i.Word})
}

func (f *fake) Remove(id string) { f.Lose(id) }

func (f *fake) Lose(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines = slices.DeleteFunc(f.machines, func(m machine) bool { return m.ID == id })
}

func (f *fake) Word(state windsock.State) string {
	return map[windsock.State]string{windsock.Running: "up", windsock.Stopped: "off", windsock.Failed: "dead"}[state]
}

func (f *fake) Break(pages int, fault providertest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages, f.broken = pages, fault
}

func TestProvider(t *testing.T) { providertest.Run(t, newFake) }

// A page that a proxy has for what it does not find says nothing of a machine.
func TestNotFoundOfAProxy(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	_, err := (&Provider{url: srv.URL}).Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "a"})
	if err == nil || errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// Somebody who switched a machine off asked for that.
func TestRequested(t *testing.T) {
	for by, want := range map[string]bool{"alice": true, "": false} {
		if got := (&Provider{}).sighting(machine{ID: "a", Power: "off", By: by}); got.Requested != want || got.State != windsock.Stopped {
			t.Errorf("by %q: %+v", by, got)
		}
	}
}

// The guide shows the provider as it is.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/provider.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "```go\n"+string(source)+"```\n") {
		t.Error("docs/provider.md does not show example.go as it is")
	}
}
