package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock"
	"windsock/api"
	"windsock/store"

	"github.com/google/go-cmp/cmp"
)

const (
	agentToken = "wsi_Nq3"
	dbToken    = "wss_db"
	lateToken  = "wss_late"
)

// software is what the API asks of a store, as far as the API can see: the components
// a.db and web/1 of shop, and one instance that has a token. It notes what reaches it.
type software struct {
	mu          sync.Mutex
	deployables map[string]windsock.Deployable
	revision    int64
	moved       chan struct{} // is closed when the revision moves
	signals     []windsock.Signal
	bases       []string
	fails       error // of every call
}

func newSoftware() *software {
	return &software{deployables: map[string]windsock.Deployable{}, moved: make(chan struct{}), revision: 1}
}

func (s *software) AddDeployable(_ context.Context, d windsock.Deployable) (windsock.Deployable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.CreatedAt = time.Unix(1, 0).UTC()
	d.Summary = windsock.Summary{Format: "components", Parameters: []windsock.ParameterSpec{{Name: "port", Type: "number"}}, Instances: []string{"server_a"}, Components: []string{"db"}}
	if strings.Contains(d.Source, "cycle") {
		d.Findings = append(d.Findings, windsock.Finding{Line: 3, Resource: "db", Severity: windsock.SeverityError, Text: "db waits for itself"})
		return d, windsock.Invalid("template", "db waits for itself")
	}
	s.deployables[d.ID] = d
	return d, s.fails
}

func (s *software) Deployable(_ context.Context, id string) (windsock.Deployable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, there := s.deployables[id]; there {
		return d, s.fails
	}
	return windsock.Deployable{}, fmt.Errorf("deployable %q: %w", id, windsock.ErrNotFound)
}

func (s *software) Deployables(_ context.Context, after string, limit int) ([]windsock.Deployable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []windsock.Deployable
	for _, id := range slices.Sorted(maps.Keys(s.deployables)) {
		if d := s.deployables[id]; id > after && len(found) < limit {
			d.Source, d.Files = "", nil
			found = append(found, d)
		}
	}
	return found, s.fails
}

func (s *software) RemoveDeployable(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.deployables[id]; !there {
		return fmt.Errorf("deployable %q: %w", id, windsock.ErrNotFound)
	}
	if s.deployables[id].Name == "used" {
		return fmt.Errorf("deployable %q: deployment %q is made by it: %w", id, "shop", windsock.ErrConflict)
	}
	delete(s.deployables, id)
	return s.fails
}

func (s *software) Components(_ context.Context, deployment string) (windsock.ComponentGraph, error) {
	db, _ := s.Component(context.Background(), deployment, "a.db")
	web, _ := s.Component(context.Background(), deployment, "web/1")
	return windsock.ComponentGraph{
		DeploymentID: deployment, Counts: map[windsock.ComponentState]int{"complete": 1, "waiting": 1}, Components: []windsock.Component{db, web},
	}, s.fails
}

func (s *software) Component(_ context.Context, deployment, name string) (windsock.Component, error) {
	c := windsock.Component{DeploymentID: deployment, Name: name, Kind: windsock.KindSoftware, Group: "script", Action: windsock.ActionCreate, Since: time.Unix(1, 0).UTC(), Want: 1}
	switch name {
	case "a.db":
		c.State, c.Instance, c.InstanceID, c.Run, c.Signals = windsock.ComponentComplete, "server_a", "web-1", 1, 1
		c.Outputs = map[string]json.RawMessage{"address": json.RawMessage(`"10.0.0.7"`)}
		c.History = []windsock.Signalled{{Time: time.Unix(1, 0).UTC(), Run: 1, Status: windsock.SignalSuccess}}
	case "web/1":
		c.State, c.Instance, c.After, c.WaitsFor = windsock.ComponentWaiting, "server_b", []string{"a.db"}, []string{"server_b"}
	default:
		return c, fmt.Errorf("component %q: %w", name, windsock.ErrNotFound)
	}
	return c, s.fails
}

func (s *software) RetryComponent(ctx context.Context, deployment, name string) (windsock.Component, error) {
	c, err := s.Component(ctx, deployment, name)
	if err == nil && c.State == windsock.ComponentWaiting {
		err = fmt.Errorf("component %q is %s: %w", name, c.State, windsock.ErrConflict)
	}
	return c, err
}

func (s *software) CancelComponent(ctx context.Context, deployment, name string) (windsock.Component, error) {
	c, err := s.Component(ctx, deployment, name)
	if err == nil && c.State == windsock.ComponentComplete {
		err = fmt.Errorf("component %q is %s: %w", name, c.State, windsock.ErrConflict)
	}
	return c, err
}

func (s *software) Outputs(context.Context, string) (map[string]any, error) {
	return map[string]any{"url": "http://10.0.0.7/", "later": nil}, s.fails
}

func (s *software) Handles(_ context.Context, _, base string) (map[string]string, error) {
	return map[string]string{"ready": base + "/api/signal/" + dbToken}, s.fails
}

func (s *software) IssueToken(context.Context, string) (windsock.Secret, error) {
	return agentToken, s.fails
}

func (s *software) Work(_ context.Context, instance string, token windsock.Secret, base string) (windsock.Work, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != agentToken {
		return windsock.Work{}, windsock.ErrUnauthorized
	}
	s.bases = append(s.bases, base)
	return windsock.Work{InstanceID: instance, Revision: s.revision, Components: []windsock.Task{{
		ID: fmt.Sprint("db-", s.revision), Name: "a.db", DeploymentID: "shop", Action: windsock.ActionCreate, SignalURL: base + "/api/signal/" + dbToken,
		Job: windsock.Job{Group: "script", Config: "date", Inputs: []windsock.Input{{Name: "port", Type: "Number", Value: 80}}, Outputs: []windsock.Output{{Name: "address"}}},
	}}}, s.fails
}

func (s *software) WorkRevision(_ context.Context, instance string, token windsock.Secret) (windsock.Work, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != agentToken {
		return windsock.Work{}, windsock.ErrUnauthorized
	}
	return windsock.Work{InstanceID: instance, Revision: s.revision}, s.fails
}

func (s *software) AwaitWork(ctx context.Context, _ string, revision int64) error {
	s.mu.Lock()
	now, moved := s.revision, s.moved
	s.mu.Unlock()
	if now != revision {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moved:
		return nil
	}
}

// move has there be something else to do.
func (s *software) move() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *software) Signal(_ context.Context, token windsock.Secret, said windsock.Signal) (windsock.SignalOutcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := windsock.SignalOutcome{DeploymentID: "shop", Component: "a.db", State: windsock.ComponentComplete, Changed: true}
	switch token {
	case dbToken:
		s.signals = append(s.signals, said)
		return out, s.fails
	case lateToken:
		return out, windsock.ErrFinal
	}
	return windsock.SignalOutcome{}, fmt.Errorf("token %s: %w", string(token), windsock.ErrNotFound)
}

// withSoftware starts a site that keeps components.
func withSoftware(t *testing.T) (*site, *software) {
	sw := newSoftware()
	return open(t, func(srv *api.Server) { srv.Software = sw }), sw
}

// declaring notes what is declared of deployments, beside a store.
type declaring struct {
	*store.Store
	spec windsock.DeploymentSpec
}

func (d *declaring) PutDeployment(_ context.Context, spec windsock.DeploymentSpec, _ windsock.Cond) (windsock.Deployment, bool, error) {
	d.spec = spec
	return d.shown(), false, nil
}

func (d *declaring) PatchDeployment(_ context.Context, _ string, _ windsock.Cond, change func(*windsock.DeploymentSpec) error) (windsock.Deployment, error) {
	err := change(&d.spec)
	return d.shown(), err
}

func (d *declaring) shown() windsock.Deployment {
	return windsock.Deployment{DeploymentSpec: d.spec, Observed: windsock.Observed{State: windsock.Unknown, Sources: []string{}}, Instances: map[windsock.State]int{}}
}

// The parameters of a deployable are merged by names. A value is one, and null in it is
// a value, too.
func TestParametersAreMergedByName(t *testing.T) {
	kept := new(declaring)
	s := open(t, func(srv *api.Server) {
		kept.Store = srv.Store.(*store.Store)
		srv.Store = kept
	})
	s.call("PUT", "/api/deployments/shop", `{"deployable":"d1","parameters":{"name":"db","port":80,"conf":{"a":null,"b":[1,null]},"none":null},"instances":{"server_a":"web-1"}}`).want(200).
		has(map[string]any{"deployable": "d1", "parameters": map[string]any{"name": "db", "port": 80.0, "conf": map[string]any{"a": nil, "b": []any{1.0, nil}}}})
	if d := cmp.Diff(map[string]string{"server_a": "web-1"}, kept.spec.Members); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	s.call("PATCH", "/api/deployments/shop", `{"parameters":{"name":null,"conf":{"c":1},"size":"big"}}`, "Content-Type", patchType).want(200)
	if d := cmp.Diff(map[string]any{"port": 80.0, "conf": map[string]any{"c": 1.0}, "size": "big"}, kept.spec.Parameters); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	s.call("PATCH", "/api/deployments/shop", `{"deployable":"d2"}`, "Content-Type", patchType).want(200)
	if kept.spec.Deployable != "d2" || len(kept.spec.Parameters) != 3 {
		t.Errorf("got %+v", kept.spec)
	}
	s.call("PATCH", "/api/deployments/shop", `{"deployable":null,"parameters":null,"instances":null}`, "Content-Type", patchType).want(200)
	if kept.spec.Deployable != "" || kept.spec.Parameters != nil {
		t.Errorf("got %+v", kept.spec)
	}
}

func TestDeployables(t *testing.T) {
	s, sw := withSoftware(t)
	const short = "components:\n  db: {group: script}\n"
	kept := func(a answer) windsock.Deployable {
		t.Helper()
		d, err := sw.Deployable(t.Context(), a.field("id").(string))
		check(t, err)
		if got, want := a.header.Get("Location"), "/api/deployables/"+d.ID; got != want {
			t.Errorf("Location: got %q, want %q", got, want)
		}
		a.has(map[string]any{"template": nil, "files": nil, "components": []any{"db"}})
		return d
	}
	for _, contentType := range []string{"application/yaml", "application/x-yaml; charset=utf-8", "text/yaml", "text/plain", formType} {
		d := kept(s.call("POST", "/api/deployables?name=the%20shop", short, "Content-Type", contentType).want(201))
		if d.Source != short || d.Name != "the shop" {
			t.Errorf("%s: got %+v", contentType, d)
		}
	}
	d := kept(s.call("POST", "/api/deployables", `{"name":"shop","template":"components: {}\n","files":{"db.sh":"date\n"}}`).want(201))
	if d.Source != "components: {}\n" || d.Name != "shop" || d.Files["db.sh"] != "date\n" {
		t.Errorf("got %+v", d)
	}
	d = kept(s.call("POST", "/api/deployables?name=hot", `{"template": {"heat_template_version": "2013-05-23", "x": [1, null]}, "files": {}}`).want(201))
	if d.Source != `{"heat_template_version": "2013-05-23", "x": [1, null]}` || d.Name != "hot" {
		t.Errorf("got %+v", d)
	}
	s.call("GET", "/api/deployables/"+d.ID, "").want(200).has(map[string]any{"template": d.Source, "name": "hot"})
	var ids []string
	for path := "/api/deployables?limit=3"; path != ""; {
		a := s.call("GET", path, "").want(200)
		ids = append(ids, a.ids("deployables")...)
		path = nextOf(a)
	}
	if len(ids) != 7 || !slices.IsSorted(ids) {
		t.Errorf("got %v", ids)
	}
	s.call("DELETE", "/api/deployables/"+d.ID, "").want(204)
	s.call("GET", "/api/deployables/"+d.ID, "").refused(404, "not-found", "id")
	s.call("DELETE", "/api/deployables/"+d.ID, "").refused(404, "not-found", "id")
	used := kept(s.call("POST", "/api/deployables?name=used", short, "Content-Type", "text/yaml").want(201))
	s.call("DELETE", "/api/deployables/"+used.ID, "").refused(409, "conflict", "id")
}

func TestWhatIsNoDeployable(t *testing.T) {
	s, sw := withSoftware(t)
	a := s.call("POST", "/api/deployables", "a cycle", "Content-Type", "text/yaml").refused(400, "invalid", "template")
	a.has(map[string]any{"findings": []any{map[string]any{"line": 3.0, "resource": "db", "severity": "error", "text": "db waits for itself"}}})
	for name, c := range map[string]struct {
		query, body, contentType string
		status                   int
		kind, field              string
	}{
		"nothing":                   {"", "", "text/yaml", 400, "invalid", "body"},
		"only blanks":               {"", " \n", "text/yaml", 400, "invalid", "body"},
		"JSON without a template":   {"", `{"name":"x"}`, jsonType, 400, "invalid", "template"},
		"a template that is a list": {"", `{"template":[1]}`, jsonType, 400, "invalid", "template"},
		"half a template":           {"", `{"template":{"a":1}`, jsonType, 400, "invalid", "body"},
		"a doubled resource":        {"", `{"template":{"a":1,"a":2}}`, jsonType, 400, "invalid", "template.a"},
		"files of no text":          {"", `{"template":"x","files":{"a":1}}`, jsonType, 400, "invalid", "files.a"},
		"a template by itself":      {"", `{"heat_template_version":"2013-05-23"}`, jsonType, 400, "invalid", "heat_template_version"},
		"two names":                 {"?name=a", `{"template":"x","name":"b"}`, jsonType, 400, "invalid", "name"},
		"a name of great length":    {"?name=" + strings.Repeat("x", 256), "x", "text/yaml", 400, "invalid", "name"},
		"YAML that is not UTF-8":    {"", "caf\xe9", "text/yaml", 400, "invalid", "template"},
		"YAML in another alphabet":  {"", "x", "text/yaml; charset=latin1", 415, "media-type", "Content-Type"},
		"a picture":                 {"", "x", "image/png", 415, "media-type", "Content-Type"},
		"too much":                  {"", strings.Repeat("x", 4<<20+1), "text/yaml", 413, "too-large", "body"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.in(t).call("POST", "/api/deployables"+c.query, c.body, "Content-Type", c.contentType).refused(c.status, c.kind, c.field)
			if c.status == 413 {
				a.has(map[string]any{"limit": 4194304.0, "detail": "the body is larger than 4 MiB"})
			}
		})
	}
	if found, _ := sw.Deployables(t.Context(), "", 1); len(found) > 0 {
		t.Errorf("kept %+v", found)
	}
}

func TestComponentsOfADeployment(t *testing.T) {
	s, _ := withSoftware(t)
	names := func(query string) (list []string) {
		t.Helper()
		components, _ := s.call("GET", "/api/deployments/shop/components"+query, "").want(200).field("components").([]any)
		for _, c := range components {
			list = append(list, c.(map[string]any)["name"].(string))
		}
		return list
	}
	for query, want := range map[string][]string{
		"": {"a.db", "web/1"}, "?state=waiting": {"web/1"}, "?instance=web-1": {"a.db"}, "?state=waiting&instance=web-1": nil,
	} {
		if d := cmp.Diff(want, names(query)); d != "" {
			t.Errorf("%s: (-want +got) %s", query, d)
		}
	}
	s.call("GET", "/api/deployments/shop/components/a.db", "").want(200).has(map[string]any{"name": "a.db", "state": "complete", "outputs": map[string]any{"address": "10.0.0.7"}})
	s.call("GET", "/api/deployments/shop/components/web%2F1", "").want(200).has(map[string]any{"name": "web/1", "waits_for": []any{"server_b"}})
	s.call("POST", "/api/deployments/shop/components/a.db/retry", "").want(200)
	s.call("POST", "/api/deployments/shop/components/web%2F1/cancel", "").want(200)
	s.call("GET", "/api/deployments/shop/outputs", "").want(200).has(map[string]any{"deployment_id": "shop", "outputs": map[string]any{"url": "http://10.0.0.7/", "later": nil}})

	handles, _ := s.call("GET", "/api/deployments/shop/handles", "").want(200).field("handles").(map[string]any)
	if url, _ := handles["ready"].(string); len(handles) != 1 || !strings.HasSuffix(url, "/api/signal/"+dbToken) {
		t.Errorf("handles %q", handles)
	}

	s.call("GET", "/api/deployments/shop/components?state=done", "").refused(400, "invalid", "state")
	s.call("GET", "/api/deployments/shop-9/components", "").refused(404, "not-found", "id")
	s.call("GET", "/api/deployments/shop-9/components/a.db", "").refused(404, "not-found", "id")
	s.call("GET", "/api/deployments/shop-9/outputs", "").refused(404, "not-found", "id")
	s.call("GET", "/api/deployments/shop-9/handles", "").refused(404, "not-found", "id")
	s.call("GET", "/api/deployments/shop/components/db", "").refused(404, "not-found", "name")
	s.call("POST", "/api/deployments/shop/components/web%2F1/retry", "").refused(409, "conflict", "name")
	s.call("POST", "/api/deployments/shop/components/a.db/cancel", "").refused(409, "conflict", "name")
}

func TestWithoutSoftwareThatIsSaid(t *testing.T) {
	s := open(t)
	s.call("GET", "/api/deployables", "").refused(503, "no-software", "")
	s.call("POST", "/api/signal/"+dbToken, "").refused(503, "no-software", "")
}
