package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"windsock"
	"windsock/api"

	"github.com/google/go-cmp/cmp"
)

// evidence of one source about web-1, as the API shows it.
func (s *site) evidence(source string) map[string]any {
	s.Helper()
	list, _ := s.call("GET", "/api/instances/web-1", "").want(200).field("evidence").([]any)
	for _, e := range list {
		if e := e.(map[string]any); e["source"] == source {
			return e
		}
	}
	return nil
}

func TestDetectionChangesTheStateOnce(t *testing.T) {
	s := open(t)
	head := s.store.Head()
	s.detect("web-1", "FAIL DETECTED", "source", "nagios", "reason", "connection refused").want(200).
		has(map[string]any{"result": "success", "changed": true, "observed_state": "failed", "event_seq": float64(head + 1), "instance_id": "web-1"})
	s.detect("web-1", "FAIL DETECTED", "source", "nagios").want(200).
		has(map[string]any{"result": "success", "changed": false, "observed_state": "failed", "event_seq": nil})
	s.detect("web-1", "START DETECTED", "source", "nagios").want(200).
		has(map[string]any{"changed": true, "observed_state": "running"})
	s.detect("web-1", "STOP DETECTED", "source", "nagios", "intent", "requested").want(200).
		has(map[string]any{"changed": true, "observed_state": "stopped"})
	if got := s.evidence("nagios")["requested"]; got != true {
		t.Errorf("requested: got %v", got)
	}
}

func TestDetectionIsTakenUnderTheProvidersID(t *testing.T) {
	s := open(t)
	s.call("PATCH", "/api/instances/web-1", `{"provider_id":"nova/7 b"}`).want(200)
	s.call("POST", "/api/monitors/deployment/instance/nova%2F7%20b", `{"state":"FAIL DETECTED"}`).want(200).has(map[string]any{"instance_id": "web-1"})
	s.call("GET", "/api/instances/nova%2F7%20b", "").want(200).has(map[string]any{"id": "web-1"})
	s.call("PATCH", "/api/instances/web-2", `{"provider_id":"nova/7 b"}`).want(200)
	s.call("POST", "/api/monitors/deployment/instance/nova%2F7%20b", `{"state":"FAIL DETECTED"}`).refused(409, "conflict", "id")
	s.call("GET", "/api/instances/nova%2F7%20b", "").refused(409, "conflict", "id")
}

// What GET shows is what was posted: times to the microsecond, reasons whole or cut.
func TestDetectionIsKeptAsItWasMade(t *testing.T) {
	s := open(t)
	s.detect("web-1", "FAIL DETECTED", "source", "nagios", "detected_at", "2026-01-02T16:04:05.678901999+01:00", "reason", "first\nsecond\tü").want(200)
	got := s.evidence("nagios")
	if got["observed_at"] != "2026-01-02T15:04:05.678901Z" || got["reason"] != "first\nsecond\tü" {
		t.Errorf("got %v", got)
	}
	s.detect("web-1", "FAIL DETECTED", "source", "late", "detected_at", "2026-01-02T15:04:05.678901Z", "reason", strings.Repeat("ü", 4000)).want(200)
	if got := s.evidence("late")["reason"].(string); len(got) > 4096 || !strings.HasPrefix(got, "üü") {
		t.Errorf("a long reason became %d bytes", len(got))
	}
	s.detect("web-1", "START DETECTED", "source", "late", "detected_at", "2026-01-02T15:04:05.678901Z").want(200).has(map[string]any{"changed": false})
	s.detect("web-1", "START DETECTED", "source", "beat", "ttl", "90s").want(200)
	if got := s.evidence("beat"); got["expires_at"] == nil {
		t.Errorf("ttl: got %v", got)
	}
}

func TestSourceIsWhoSaysSo(t *testing.T) {
	s := open(t)
	s.detect("web-1", "FAIL DETECTED").want(200)
	if s.evidence("unnamed") == nil {
		t.Error("without a name it is not unnamed")
	}
	id := s.call("POST", "/api/monitors/add", `{"address":"127.0.0.1","port":9000}`).want(201).field("monitor_id").(string)
	s.detect("web-1", "FAIL DETECTED", "monitor_id", id).want(200)
	if s.evidence(windsock.MonitorSource(id)) == nil {
		t.Error("a monitor is not the source of what it reports")
	}
}

func TestTooManySourcesAreRefused(t *testing.T) {
	s := open(t)
	for i := range 64 {
		s.detect("web-1", "FAIL DETECTED", "source", fmt.Sprint("source-", i)).want(200)
	}
	s.detect("web-1", "FAIL DETECTED", "source", "one-more").refused(409, "too-many", "source")
}

// A form says the same as the JSON object with the same fields.
func TestFormAndJSONAreEquivalent(t *testing.T) {
	pairs := []struct{ path, form, json string }{
		{web1, "state=FAIL+DETECTED&version=1&source=a&reason=why%3F&detected_at=2026-01-02T15:04:05Z&ttl=90&intent=requested",
			`{"state":"FAIL DETECTED","version":"1","source":"a","reason":"why?","detected_at":"2026-01-02T15:04:05Z","ttl":90,"intent":"requested"}`},
		{"/api/monitors/deployment/shop", "state=STOP+DETECTED&ttl=1m", `{"state":"STOP DETECTED","ttl":"1m"}`},
		{add, "address=127.0.0.1&port=9000&path=/x&scope=pool:east&detections=all&subjects=instances&echo=true&name=n&scheme=https&sign=true&secret=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3&bearer=t0k%2Fen",
			`{"address":"127.0.0.1","port":9000,"path":"/x","scope":"pool:east","detections":"all","subjects":"instances","echo":true,"name":"n","scheme":"https","sign":true,"secret":"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3","bearer":"t0k/en"}`},
		{add, "address=127.0.0.1&port=9000&detections=FAIL+DETECTED,STOP+DETECTED", `{"address":"127.0.0.1","port":9000,"detections":["FAIL DETECTED","STOP DETECTED"]}`},
		{"/api/monitors/remove", "monitor_id=m-1&address=127.0.0.1&port=9000&version=1", `{"monitor_id":"m-1","address":"127.0.0.1","port":9000,"version":"1"}`},
	}
	for _, p := range pairs {
		var taken []string
		s := open(t, func(srv *api.Server) { srv.Store = taker{Store: srv.Store, taken: &taken} })
		s.call("POST", p.path, p.form, "Content-Type", formType)
		s.call("POST", p.path, p.json)
		if len(taken) != 2 || taken[0] != taken[1] {
			t.Errorf("%s: form and JSON differ: %s", p.path, taken)
		}
	}
}

// taker is a store that writes down what it is asked to take in.
type taker struct {
	api.Store
	taken *[]string
}

func (s taker) note(what ...any) { *s.taken = append(*s.taken, fmt.Sprintf("%+v", what)) }

func (s taker) Record(ctx context.Context, obs []windsock.Observation) ([]windsock.Outcome, error) {
	s.note(obs)
	return s.Store.Record(ctx, obs)
}

func (s taker) AddMonitor(ctx context.Context, spec windsock.MonitorSpec, keys windsock.Keys) (windsock.Registration, error) {
	s.note(spec, keys.Sign != nil && *keys.Sign, written(keys.Secret), written(keys.Bearer))
	return s.Store.AddMonitor(ctx, spec, keys)
}

// written is a secret that does not hide itself.
func written(secret *windsock.Secret) string {
	if secret == nil {
		return ""
	}
	return string(*secret)
}

func (s taker) RemoveMonitor(ctx context.Context, id, address string, port int) error {
	s.note(id, address, port)
	return s.Store.RemoveMonitor(ctx, id, address, port)
}

// Whatever is wrong with one of many, the others count.
func TestOneBadDetectionHidesNoOther(t *testing.T) {
	s := open(t)
	good := `{"instance_id":"web-1","state":"FAIL DETECTED","source":"%d"}`
	bad := map[string]struct {
		status int
		field  string
	}{
		`{"instance_id":"web-9","state":"FAIL DETECTED"}`:                             {404, "instance_id"},
		`{"deployment_id":"shop-9","state":"FAIL DETECTED"}`:                          {404, "deployment_id"},
		`{"instance_id":"web-1","state":"BROKEN"}`:                                    {400, "state"},
		`{"instance_id":"web-1"}`:                                                     {400, "state"},
		`{"state":"FAIL DETECTED"}`:                                                   {400, "instance_id"},
		`{"instance_id":"web-1","deployment_id":"shop","state":"FAIL DETECTED"}`:      {400, "deployment_id"},
		`{"instance_id":"web-1","state":"FAIL DETECTED","state":"FAIL DETECTED"}`:     {400, "state"},
		`{"instance_id":"web-1","state":"FAIL DETECTED","reason":"\ud800"}`:           {400, "reason"},
		"{\"instance_id\":\"web-1\",\"state\":\"FAIL DETECTED\",\"reason\":\"\xff\"}": {400, "reason"},
		`{"instance_id":"web-1","state":"FAIL DETECTED","colour":"red"}`:              {400, "colour"},
		`{"instance_id":"web-1","state":"FAIL DETECTED","version":"2"}`:               {400, "version"},
		`{"instance_id":"web-1","state":"FAIL DETECTED","monitor_id":"` + noID + `"}`: {404, "monitor_id"},
		`{"instance_id":"web-1","state":"FAIL DETECTED","ttl":"soon"}`:                {400, "ttl"},
		`{"instance_id":7,"state":"FAIL DETECTED"}`:                                   {400, "instance_id"},
		`{"instance_id":"` + strings.Repeat("x", 256) + `","state":"FAIL DETECTED"}`:  {400, "instance_id"},
		`"web-1"`: {400, "body"},
		`null`:    {400, "body"},
	}
	var list []string
	var want []string
	for entry, w := range bad {
		list = append(list, fmt.Sprintf(good, len(list)), entry)
		want = append(want, "200 ", fmt.Sprintf("%d %s", w.status, w.field))
	}
	a := s.call("POST", "/api/monitors/detections", `{"detections":[`+strings.Join(list, ",")+`]}`).want(200)
	var body struct {
		Result  string
		Results []struct {
			Result, Type, Field string
			Status              int
		}
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range body.Results {
		if r.Result == "success" {
			r.Status = 200
		}
		got = append(got, fmt.Sprintf("%d %s", r.Status, r.Field))
		if want[i] != got[i] {
			t.Errorf("%.200s\nwant %s, got %s", list[i], want[i], got[i])
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	if got := len(s.call("GET", "/api/instances/web-1", "").field("evidence").([]any)); got != len(bad) {
		t.Errorf("%d of %d good ones were taken", got, len(bad))
	}
}

func TestThousandDetectionsAreTaken(t *testing.T) {
	s := open(t)
	entry := `{"instance_id":"web-1","state":"FAIL DETECTED"}`
	a := s.call("POST", "/api/monitors/detections", "["+entry+strings.Repeat(","+entry, 999)+"]").want(200)
	if got := len(a.field("results").([]any)); got != 1000 {
		t.Errorf("got %d results", got)
	}
}

// failing is a store that cannot be used.
type failing struct {
	api.Store
	err error
}

func (s failing) Record(context.Context, []windsock.Observation) ([]windsock.Outcome, error) {
	return nil, s.err
}
func (s failing) Ping(context.Context) error { return s.err }
func (s failing) Instance(context.Context, string) (windsock.Instance, error) {
	return windsock.Instance{}, s.err
}
func (s failing) Deployment(context.Context, string) (windsock.Deployment, error) {
	panic("a bug")
}

func TestUnusableStoreIs503AndShowsNoInsides(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		srv.Store = failing{srv.Store, fmt.Errorf("disk /secret/path is full: %w", windsock.ErrUnavailable)}
	})
	for _, a := range []answer{
		s.detect("web-1", "FAIL DETECTED").refused(503, "unavailable", ""),
		s.call("POST", "/api/monitors/detections", `[{"instance_id":"web-1","state":"FAIL DETECTED"}]`).refused(503, "unavailable", ""),
		s.call("GET", "/api/instances/web-1", "").refused(503, "unavailable", ""),
		s.call("GET", "/readyz", "").refused(503, "not-ready", ""),
	} {
		if a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), "secret") {
			t.Errorf("%s: %v %s", a.name, a.header, a.body)
		}
	}
}

func TestOurOwnFaultIs500LoggedOnceAndShowsNoInsides(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Store = failing{srv.Store, errors.New("table secret is gone")} })
	for _, a := range []answer{
		s.call("GET", "/api/instances/web-1", "").refused(500, "internal", ""),
		s.call("GET", "/api/deployments/shop", "").refused(500, "internal", ""), // it panics
	} {
		if strings.Contains(string(a.body), "secret") || strings.Contains(string(a.body), "bug") {
			t.Errorf("%s shows %s", a.name, a.body)
		}
	}
	s.http.Close() // so that the log is whole
	if log := s.logged.String(); strings.Count(log, "level=ERROR") != 2 || !strings.Contains(log, "table secret is gone") || !strings.Contains(log, "a bug") {
		t.Errorf("got %s", log)
	}
}
