package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"windsock"
	"windsock/api"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
)

func TestEveryOperationKeepsTheContract(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		srv.Lister = listed{Things: []windsock.Shown{{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "any id"}, State: windsock.Running}}}
		srv.Software = newSoftware()
		srv.Checker, srv.Pinger = eyes{"shop": {running}, "web-3": {running}}, pongs{Taken: true, Status: 200}
	})

	added := s.call("POST", "/api/monitors/add", s.example("addMonitor", "everything")).want(201)
	s.call("POST", "/api/monitors/add", s.example("addMonitor", "everything")).want(200)
	s.call("POST", "/api/monitors/add", s.example("addMonitor", "pool")).want(201).has(map[string]any{"signed": true, "secret": nil})
	s.call("POST", "/api/monitors/add", "address=pager.example.com&port=8000&detections=START+DETECTED,FAIL+DETECTED&echo=true", "Content-Type", formType).want(201)
	s.call("POST", "/api/monitors/add", s.example("addMonitor", "leased")).want(201).has(map[string]any{"ttl": "1h0m0s"})
	s.call("POST", "/api/monitors/add", "address=127.0.0.1&port=9002&ttl=90", "Content-Type", formType).want(200).has(map[string]any{"ttl": "1m30s"})
	s.call("POST", "/api/monitors/add", s.example("addMonitor", "asked")).want(201).has(map[string]any{"verify": true})
	s.call("POST", "/api/monitors/add", "address=127.0.0.1&port=9003&path=/hooks&verify=true", "Content-Type", formType).want(200).has(map[string]any{"verify": true})
	s.call("POST", "/api/monitors/add", s.example("addMonitor", "generated")).want(201).has(map[string]any{"signed": true, "authorized": true, "header_names": []any{"X-Team"}})
	id := added.field("monitor_id").(string)
	s.call("GET", "/api/monitors/"+id, "").want(200)
	s.call("POST", "/api/monitors/"+id+"/secret", s.example("rotateSecret", "given")).want(200)
	s.call("POST", "/api/monitors/"+id+"/secret", "").want(200)
	s.call("POST", "/api/monitors/"+id+"/ping", "").want(200)
	s.call("GET", "/api/monitors/list?version=1&limit=2", "").want(200)
	s.call("POST", "/api/monitors/"+id+"/pause", "").want(200)
	s.call("POST", "/api/monitors/"+id+"/resume", s.example("resumeMonitor", "skip")).want(200)
	s.call("POST", "/api/monitors/"+id+"/resume", s.example("resumeMonitor", "latest")).want(200)
	s.call("POST", "/api/monitors/"+id+"/replay", s.example("replayMonitor", "range")).want(200)
	s.call("POST", "/api/monitors/"+id+"/replay", s.example("replayMonitor", "cursor")).want(202)
	s.call("GET", "/api/monitors/"+id+"/deliveries?result=failed&event=1&instance=web-1&since=2026-01-02T15:04:05Z&limit=1&after=1", "").want(200)
	s.call("GET", "/api/monitors/"+id+"/explain?event=1", "").want(200)
	s.call("POST", "/api/monitors/remove", "monitor_id="+id+"&port=9000", "Content-Type", formType).want(200)

	for _, name := range []string{"fail", "stop", "beat"} {
		s.call("POST", "/api/monitors/deployment/instance/web-1", s.example("detectInstance", name)).want(200)
	}
	s.call("POST", "/api/monitors/deployment/instance/web-1", "state=FAIL+DETECTED&ttl=90&source=form", "Content-Type", formType).want(200)
	s.call("POST", "/api/monitors/deployment/shop", s.example("detectDeployment", "fail")).want(200)
	s.call("POST", "/api/monitors/detections", s.example("detectMany", "two")).want(200)
	s.call("POST", "/api/monitors/detections", s.example("detectMany", "bare")).want(200)
	s.call("POST", "/api/monitors/detections", `[{"instance_id":"no","state":"FAIL DETECTED"}]`).want(200)

	s.call("GET", "/api/reports", "").want(200)
	s.call("POST", "/api/reports/alertmanager?dry_run=true", s.example("takeReport", "alert")).want(200).has(map[string]any{"recorded": 1.})
	s.call("POST", "/api/reports/alertmanager", s.example("takeReport", "alert")).want(200).has(map[string]any{"recorded": 1.})
	s.call("POST", "/v1/notifications", s.example("notify", "host")).want(202)
	s.call("POST", "/v1/any/notifications", s.example("notify", "host")).refused(409, "conflict", "")
	s.call("POST", "/v1/any/notifications", strings.Replace(s.example("notify", "host"), "node1", "node2", 1)).want(202)
	s.call("GET", "/api/reports/unmatched", "").want(200)
	s.call("PATCH", "/v1/any/stacks/shop/any/resources/web-1", s.example("markUnhealthy", "unhealthy")).want(200)
	s.call("PATCH", "/v1/any/stacks/shop/any/resources/web-1", `{"mark_unhealthy":false}`, "Content-Type", patchType).want(200)

	s.call("POST", "/api/deployments", `{"name":"anonymous"}`).want(201)
	s.call("POST", "/api/deployments", s.example("createDeployment", "shop")).refused(409, "conflict", "id")
	s.call("PUT", "/api/deployments/shop", s.example("putDeployment", "shop")).want(200)
	s.call("PUT", "/api/deployments/shop-2", s.example("putDeployment", "shop")).want(201)
	s.call("PATCH", "/api/deployments/shop", s.example("patchDeployment", "stop"), "Content-Type", patchType).want(200)
	s.call("PATCH", "/api/deployments/shop", `{"expected_state":null}`).want(200).has(map[string]any{"expected_state": "running"})
	s.call("GET", "/api/deployments/shop", "").want(200)
	s.call("GET", "/api/deployments/shop?await=degraded&timeout=1s", "").want(200)
	s.call("GET", "/api/deployments?state=degraded&drift=true&stale=false&provider=static&pool=east&limit=1", "").want(200)
	s.call("GET", "/api/deployments/shop/instances?assembly=web", "").want(200)
	s.call("DELETE", "/api/deployments/shop-2", "").want(204)

	s.call("PUT", "/api/instances/web-3", s.example("putInstance", "web")).want(201)
	s.call("PUT", "/api/instances/web-3", s.example("putInstance", "web")).want(200)
	s.call("PUT", "/api/instances/web-4", s.example("putInstance", "plain")).want(201)
	s.call("PATCH", "/api/instances/web-3", s.example("patchInstance", "slower"), "Content-Type", patchType).want(200)
	s.call("POST", "/api/instances/web-3/check", "").want(200)
	s.call("POST", "/api/deployments/shop/check", "").want(200)
	s.call("GET", "/api/instances/web-1/availability", "").want(200)
	s.call("GET", "/api/deployments/shop/availability?from=2026-01-02T15:04:05Z", "").want(200)
	s.call("GET", "/api/instances/web-1", "").want(200)
	s.call("GET", "/api/instances?deployment=shop&limit=1", "").want(200)
	s.call("DELETE", "/api/instances/web-1/evidence/agent", "").want(204)
	s.call("DELETE", "/api/deployments/shop/evidence/synthetic-login", "").want(204)
	s.call("DELETE", "/api/instances/web-4", "").want(204)

	silence := s.call("POST", "/api/silences", s.example("addSilence", "pool")).want(201).has(map[string]any{"active": true, "author": "alice"}).field("id").(string)
	s.call("POST", "/api/silences", s.example("addSilence", "team")).want(201)
	s.call("GET", "/api/silences?limit=1", "").want(200)
	s.call("GET", "/api/silences/"+silence, "").want(200)
	s.call("DELETE", "/api/silences/"+silence, "").want(204)
	s.call("DELETE", "/api/silences/"+silence, "").want(204)

	deployable := s.call("POST", "/api/deployables", s.example("addDeployable", "text")).want(201).field("id").(string)
	s.call("POST", "/api/deployables", s.example("addDeployable", "object")).want(201)
	s.call("POST", "/api/deployables?name=blog", "components: {}\n", "Content-Type", "application/yaml").want(201)
	s.call("GET", "/api/deployables?limit=1", "").want(200)
	s.call("GET", "/api/deployables/"+deployable, "").want(200)
	s.call("DELETE", "/api/deployables/"+deployable, "").want(204)
	s.call("GET", "/api/deployments/shop/components?state=complete&instance=web-1", "").want(200)
	s.call("GET", "/api/deployments/shop/components/a.db", "").want(200)
	s.call("POST", "/api/deployments/shop/components/a.db/retry", "").want(200)
	s.call("POST", "/api/deployments/shop/components/web%2F1/cancel", "").want(200)
	s.call("GET", "/api/deployments/shop/outputs", "").want(200)
	s.call("GET", "/api/deployments/shop/handles", "").want(200)
	s.call("POST", "/api/instances/web-1/token", "").want(201)
	s.call("GET", "/api/instances/web-1/components?wait=30s", "", "Authorization", "Bearer "+agentToken).want(200)
	for _, name := range []string{"started", "deployment", "condition", "cfn"} {
		s.call("POST", "/api/signal/"+dbToken, s.example("signal", name)).want(200)
		s.call("PUT", "/api/signal/"+dbToken, s.example("signal", name), "Content-Type", "").want(200)
	}

	if err := s.store.SaveProvider(t.Context(), windsock.ProviderStatus{ID: "static", Kind: "static", Watched: 1}); err != nil {
		t.Fatal(err)
	}
	s.call("GET", "/api/providers", "").want(200)
	s.call("GET", "/api/providers/static", "").want(200)
	s.call("GET", "/api/providers/static?dry_run=true&limit=1", "").want(200)
	s.call("GET", "/api/pools", "").want(200)
	s.call("GET", "/api/summary", "").want(200)
	s.call("GET", "/api/events?after=0&limit=1000&wait=1s", "").want(200)
	s.call("GET", "/api/events?before=2", "").want(200)
	s.call("GET", "/api/replicas", "").want(200)
	s.call("POST", "/api/tokens", s.example("addToken", "reporter")).want(201)
	s.call("POST", "/api/tokens", "name=ops&role=admin&ttl=90", "Content-Type", formType).want(201)
	s.call("GET", "/api/tokens", "").want(200)
	s.call("DELETE", "/api/tokens/nagios", "").want(204)
	s.call("GET", "/api/audit?limit=1&after=1", "").want(200)
	s.call("GET", "/api/whoami", "").want(200)
	s.call("GET", "/livez", "").want(200)
	s.call("GET", "/readyz", "").want(200)
	s.call("GET", "/metrics", "").want(200)
	s.call("GET", "/openapi.yaml", "").want(200)

	for path, item := range s.doc().Paths.Map() {
		for method, op := range item.Operations() {
			if _, driven := s.driven.Load(op.OperationID); !driven {
				t.Errorf("%s %s (%s) was not driven", method, path, op.OperationID)
			}
		}
	}
}

func (s *site) doc() *openapi3.T {
	doc, err := contract()
	if err != nil {
		s.Fatal(err)
	}
	return doc
}

// example returns a body that the contract shows.
func (s *site) example(operation, name string) string {
	s.Helper()
	for _, item := range s.doc().Paths.Map() {
		for _, op := range item.Operations() {
			if op.OperationID != operation {
				continue
			}
			for _, media := range op.RequestBody.Value.Content {
				if e := media.Examples[name]; e != nil {
					data, err := json.Marshal(e.Value.Value)
					if err != nil {
						s.Fatal(err)
					}
					return string(data)
				}
			}
		}
	}
	s.Fatalf("operation %s has no example %s", operation, name)
	return ""
}

var pathPattern = regexp.MustCompile(`\{(\w+):[^/]*\}`)

func TestRouterAndContractAgree(t *testing.T) {
	s := open(t)
	var served, told []string
	err := chi.Walk(s.http.Config.Handler.(chi.Routes), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+pathPattern.ReplaceAllString(path, "{$1}"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range s.doc().Paths.Map() {
		for method := range item.Operations() {
			told = append(told, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(told)
	if d := cmp.Diff(told, served); d != "" {
		t.Errorf("(-contract +router) %s", d)
	}
}

// Each parameter that the contract tells of is known to the server, and no other.
func TestQueryParametersAreThoseOfTheContract(t *testing.T) {
	s := open(t)
	all := map[string]bool{"nonsense": true}
	eachOperation(s, func(_, _ string, params map[string]bool) {
		for name := range params {
			all[name] = true
		}
	})
	eachOperation(s, func(method, path string, params map[string]bool) {
		for name := range all {
			resp, err := http.DefaultClient.Do(must(http.NewRequest(method, s.http.URL+path+"?"+name+"=%01", nil)))
			if err != nil {
				t.Fatal(err)
			}
			var p struct{ Field, Detail string }
			err = json.NewDecoder(resp.Body).Decode(&p)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 400 || p.Field != name {
				t.Errorf("%s %s with a bad %s: got %d %+v, %v", method, path, name, resp.StatusCode, p, err)
			}
			if known := p.Detail != "is not known here"; known != params[name] {
				t.Errorf("%s %s: parameter %s is known to the server: %t, to the contract: %t", method, path, name, known, params[name])
			}
		}
	})
}

// eachOperation calls f with every operation, its path filled in, and its query
// parameters.
func eachOperation(s *site, f func(method, path string, params map[string]bool)) {
	fill := strings.NewReplacer("{source}", "nagios", "{name}", "a.db", "{token}", dbToken, "monitors/{id}", "monitors/0198c5a2-7b7e-7c3e-9d53-0a8a4c5f9b10", "{id}", "shop")
	for path, item := range s.doc().Paths.Map() {
		for method, op := range item.Operations() {
			params := map[string]bool{}
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				if p.Value.In == openapi3.ParameterInQuery {
					params[p.Value.Name] = true
				}
			}
			f(method, fill.Replace(path), params)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The types of problems are the part of the contract that a library does not compare.
func TestEveryProblemTypeIsInTheContract(t *testing.T) {
	s := open(t)
	var told []string
	for _, kind := range s.doc().Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		told = append(told, kind.(string))
	}
	slices.Sort(told)
	if d := cmp.Diff(told, api.ProblemTypes()); d != "" {
		t.Errorf("(-contract +server) %s", d)
	}
}
