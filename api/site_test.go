package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock"
	"windsock/api"
	"windsock/reports"
	"windsock/store"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	jsonType  = "application/json"
	formType  = "application/x-www-form-urlencoded"
	patchType = "application/merge-patch+json"
)

// contract is openapi.yaml, as a library that is not ours reads it.
var contract = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder("application/openmetrics-text", openapi3filter.PlainBodyDecoder)
	return openapi3.NewLoader().LoadFromData(windsock.Contract)
})

// operations finds what the contract says of a request. To make it validates the contract,
// which takes longer than most of the tests.
var operations = sync.OnceValues(func() (routers.Router, error) {
	doc, err := contract()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// site is a server over a real store. Every call holds request and answer against the
// contract.
type site struct {
	*testing.T
	store  *store.Store
	server *api.Server
	http   *httptest.Server
	router routers.Router
	stop   context.CancelFunc
	logged *bytes.Buffer
	driven *sync.Map // operations that were taken
}

// open starts a site with the deployment shop and its instances web-1 and web-2.
func open(t *testing.T, changes ...func(*api.Server)) *site {
	t.Helper()
	router, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, router: router, logged: new(bytes.Buffer), driven: new(sync.Map)}
	log := slog.New(slog.NewTextHandler(s.logged, nil))
	if s.store, err = store.Open(t.Context(), filepath.Join(t.TempDir(), "windsock.db"), store.Options{Logger: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Close() })
	stop, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	t.Cleanup(cancel)
	reg := prometheus.NewRegistry()
	s.server = &api.Server{
		Store: s.store, Contract: windsock.Contract, Version: "test", Logger: log,
		Registerer: reg, Gatherer: reg, Stop: stop, Reports: reports.Builtin(),
	}
	for _, change := range changes {
		change(s.server)
	}
	s.http = httptest.NewUnstartedServer(s.server.Handler())
	go s.http.Config.Serve(s.server.Parked())
	s.http.Start()
	t.Cleanup(s.http.Close)
	ctx := context.Background()
	if _, _, err := s.store.PutDeployment(ctx, windsock.DeploymentSpec{ID: "shop", Pool: "east"}, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"web-1", "web-2"} {
		if _, _, err := s.store.PutInstance(ctx, windsock.InstanceSpec{ID: id, DeploymentID: "shop"}, windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// in returns the site for a subtest.
func (s *site) in(t *testing.T) *site {
	sub := *s
	sub.T = t
	return &sub
}

// answer is what came back.
type answer struct {
	*testing.T
	name   string
	status int
	header http.Header
	body   []byte
}

// call sends a request; headers are names and values in turn. The type of a body is JSON
// if they do not say otherwise.
func (s *site) call(method, path, body string, headers ...string) answer {
	s.Helper()
	req, err := http.NewRequest(method, s.http.URL+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", jsonType)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return s.send(req, body)
}

// send sends a request as it is.
func (s *site) send(req *http.Request, body string) answer {
	s.Helper()
	name := req.Method + " " + req.URL.RequestURI()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.Errorf("%s: %v", name, err)
		return answer{T: s.T, name: name}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Errorf("%s: %v", name, err)
	}
	a := answer{s.T, name, resp.StatusCode, resp.Header, got}
	s.validate(req, []byte(body), a)
	return a
}

// validate fails the test when the request was taken although the contract does not
// allow it, or the answer is none that it tells of.
func (s *site) validate(req *http.Request, body []byte, a answer) {
	s.Helper()
	if a.status == http.StatusMethodNotAllowed || a.field("type") == "/problems/no-such-path" || req.Method == http.MethodHead {
		return // not of any operation
	}
	req = req.Clone(context.Background())
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.URL.Scheme, req.URL.Host, req.URL.Path, req.URL.RawPath = "", "", req.URL.EscapedPath(), ""
	route, params, err := s.router.FindRoute(req)
	if err != nil {
		s.Errorf("%s is served, but the contract has no such route: %v", a.name, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, RejectWhenRequestBodyNotSpecified: true, SkipSettingDefaults: true, ExcludeWriteOnlyValidations: true,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}
	if a.status < 400 {
		s.driven.Store(route.Operation.OperationID, true)
		err := openapi3filter.ValidateRequest(context.Background(), in)
		if partly := bytes.Contains(a.body, []byte(`"result":"fail"`)); err != nil && !partly { // many may hold bad ones
			s.Errorf("%s was taken, but the contract refuses the request: %v", a.name, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Options: in.Options, Body: io.NopCloser(bytes.NewReader(a.body)),
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		s.Errorf("%s is answered %d %s, against the contract: %v", a.name, a.status, a.body, err)
	}
}

// want fails the test unless the answer has this status.
func (a answer) want(status int) answer {
	a.Helper()
	if a.status != status {
		a.Errorf("%s: got %d %s, want %d", a.name, a.status, a.body, status)
	}
	return a
}

// refused fails the test unless the answer is a whole problem with these parts.
func (a answer) refused(status int, kind, field string) answer {
	a.Helper()
	a.want(status)
	if a.status != status {
		return a
	}
	got := map[string]any{
		"type": a.field("type"), "field": a.field("field"), "result": a.field("result"),
		"status": a.field("status"), "Content-Type": a.header.Get("Content-Type"),
	}
	var wantField any
	if field != "" {
		wantField = field
	}
	want := map[string]any{
		"type": "/problems/" + kind, "field": wantField, "result": "fail", "status": float64(status), "Content-Type": "application/problem+json",
	}
	if d := cmp.Diff(want, got); d != "" {
		a.Errorf("%s: %s\n(-want +got) %s", a.name, a.body, d)
	}
	return a
}

// field returns a member of the JSON object that was answered, or nil.
func (a answer) field(name string) any {
	var all map[string]any
	json.Unmarshal(a.body, &all)
	return all[name]
}

// has fails the test unless the JSON object that was answered has these members.
func (a answer) has(want map[string]any) answer {
	a.Helper()
	got := map[string]any{}
	for name := range want {
		got[name] = a.field(name)
	}
	if d := cmp.Diff(want, got); d != "" {
		a.Errorf("%s: %s\n(-want +got) %s", a.name, a.body, d)
	}
	return a
}

// ids lists the ids of a listing.
func (a answer) ids(list string) []string {
	ids := []string{}
	items, _ := a.field(list).([]any)
	for _, item := range items {
		id, _ := item.(map[string]any)["id"].(string)
		ids = append(ids, id)
	}
	return ids
}

func (s *site) detect(id, word string, more ...string) answer {
	s.Helper()
	body := map[string]string{"state": word}
	for i := 0; i < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	data, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	return s.call("POST", "/api/monitors/deployment/instance/"+id, string(data))
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
