package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"windsock"
	"windsock/api"
)

// locked opens a site that asks who calls, of whom the store knows all by their tokens;
// ops is an administrator.
func locked(t *testing.T) (s *site, ops []string) {
	s = open(t, func(srv *api.Server) { srv.Verifiers = []api.Verifier{srv.Store.(api.Verifier)} })
	return s, bearing(s.token(windsock.TokenSpec{Name: "ops", Role: windsock.MayAdmin}))
}

func (s *site) token(spec windsock.TokenSpec) string {
	s.Helper()
	_, secret, err := s.store.AddToken(s.Context(), spec)
	if err != nil {
		s.Fatal(err)
	}
	return string(secret)
}

func TestTokensOverHTTP(t *testing.T) {
	s, ops := locked(t)
	made := s.call("POST", "/api/tokens", `{"name":"reader","ttl":"1h"}`, ops...).want(201)
	made.has(map[string]any{"name": "reader", "role": "read", "scope": "global"})
	if got := made.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("a token may be kept by caches: %q", got)
	}
	token := made.field("token").(string)
	reader := bearing(token)
	s.call("GET", "/api/deployments", "", reader...).want(200)
	s.call("GET", "/api/tokens", "", reader...).refused(403, "forbidden", "")

	s.call("POST", "/api/tokens", `{"name":"reader"}`, ops...).refused(409, "conflict", "name")
	s.call("POST", "/api/tokens", `{"role":"admin"}`, ops...).refused(400, "invalid", "name")
	s.call("POST", "/api/tokens", `{"name":"x","role":"root"}`, ops...).refused(400, "invalid", "role")
	s.call("POST", "/api/tokens", `{"name":"x","ttl":"9000h"}`, ops...).refused(400, "invalid", "ttl")
	s.call("POST", "/api/tokens", `{"name":"x","role":"report","monitor_id":"0198c5a2-7b7e-7c3e-9d53-0a8a4c5f9b10"}`, ops...).refused(404, "not-found", "monitor_id")

	if list := s.call("GET", "/api/tokens", "", ops...).want(200); strings.Contains(string(list.body), token) || !strings.Contains(string(list.body), `"name":"reader"`) {
		t.Errorf("listed are %s", list.body)
	}
	s.call("DELETE", "/api/tokens/reader", "", ops...).want(204)
	s.call("DELETE", "/api/tokens/reader", "", ops...).refused(404, "not-found", "id")
	s.call("GET", "/api/deployments", "", reader...).refused(401, "unauthorized", "Authorization")
	s.call("DELETE", "/api/tokens/ops", "", ops...).want(204)
	s.call("GET", "/api/deployments", "", ops...).refused(401, "unauthorized", "Authorization") // and not open to everybody
	if strings.Contains(s.logged.String(), token) {
		t.Error("a token is in the log")
	}
}

// Where that is wanted nobody is asked while there is no token, and everybody from then on.
func TestOpenUntilThereIsAToken(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		st := srv.Store.(interface {
			api.Verifier
			Tokenless(context.Context) (bool, error)
		})
		srv.Verifiers, srv.Open = []api.Verifier{st}, st.Tokenless
	})
	s.call("PUT", "/api/deployments/blog", `{}`).want(201)
	ops := s.call("POST", "/api/tokens", `{"name":"ops","role":"admin"}`).want(201).field("token").(string)
	s.call("GET", "/api/deployments", "").refused(401, "unauthorized", "Authorization")
	s.call("GET", "/api/deployments", "", bearing(ops)...).want(200)
	s.call("DELETE", "/api/tokens/ops", "", bearing(ops)...).want(204)
	s.call("GET", "/api/deployments", "").want(200)
}

func TestReportsOfScopedTokens(t *testing.T) {
	s, ops := locked(t)
	s.call("PUT", "/api/deployments/blog", `{}`, ops...).want(201)
	s.call("PUT", "/api/instances/app-1", `{"deployment_id":"blog"}`, ops...).want(201)
	nagios := bearing(s.token(windsock.TokenSpec{Name: "nagios", Role: windsock.MayReport, Scope: "deployment:shop"}))
	const fail = `{"state":"FAIL DETECTED"}`
	s.call("POST", "/api/monitors/deployment/instance/web-1", fail, nagios...).want(200).has(map[string]any{"changed": true})
	s.call("POST", "/api/monitors/deployment/shop", fail, nagios...).want(200)
	for _, path := range []string{"instance/app-1", "blog", "instance/none", "none", "instance/shop", "instance/web-1:", "instance/web-1%2F..%2Fapp-1"} {
		got := s.call("POST", "/api/monitors/deployment/"+path, fail, nagios...)
		got.refused(403, "forbidden", "id")
		if detail := fmt.Sprint(got.field("detail")); !strings.Contains(detail, "deployment:shop") {
			t.Errorf("%s: the scope is not named: %s", path, detail)
		}
	}
	batch := s.call("POST", "/api/monitors/detections", `[
		{"instance_id":"web-2","state":"FAIL DETECTED"},
		{"instance_id":"app-1","state":"FAIL DETECTED"},
		{"deployment_id":"none","state":"FAIL DETECTED"},
		{"instance_id":"web-2","state":"START DETECTED"}]`, nagios...).want(200)
	got := ""
	for _, r := range batch.field("results").([]any) {
		got += fmt.Sprint(r.(map[string]any)["result"], " ", r.(map[string]any)["type"], "\n")
	}
	if want := "success <nil>\nfail /problems/forbidden\nfail /problems/forbidden\nsuccess <nil>\n"; got != want {
		t.Errorf("the batch is answered\n%swant\n%s", got, want)
	}
	if app := s.call("GET", "/api/instances/app-1", "", nagios...); app.field("observed_state") != "unknown" {
		t.Errorf("it was accused all the same: %s", app.body)
	}
	if events := s.call("GET", "/api/events?type=instance.state", "", nagios...); !strings.Contains(string(events.body), `"by":"nagios"`) {
		t.Errorf("the log does not say who reported: %s", events.body)
	}
	if text := s.call("GET", "/metrics", "", nagios...); !strings.Contains(string(text.body), `windsock_http_refused_total{reason="scope"} 9`) {
		t.Errorf("nine refusals are not counted:\n%s", text.body)
	}
}

// What a monitor reports by its token it reports as itself.
func TestTokenOfAMonitor(t *testing.T) {
	s, ops := locked(t)
	id := s.call("POST", "/api/monitors/add", `{"address":"127.0.0.1","port":9000}`, ops...).want(201).field("monitor_id").(string)
	other := s.call("POST", "/api/monitors/add", `{"address":"127.0.0.1","port":9001}`, ops...).want(201).field("monitor_id").(string)
	monitor := bearing(s.token(windsock.TokenSpec{Name: "m", Role: windsock.MayReport, MonitorID: id}))
	for _, claim := range []string{``, `,"source":"nagios"`, `,"monitor_id":"` + other + `"`, `,"monitor_id":"` + id + `"`} {
		s.call("POST", "/api/monitors/deployment/instance/web-1", `{"state":"FAIL DETECTED"`+claim+`}`, monitor...).want(200)
	}
	evidence := s.call("GET", "/api/instances/web-1", "", monitor...).field("evidence").([]any)
	if len(evidence) != 1 || evidence[0].(map[string]any)["source"] != "monitor:"+id {
		t.Errorf("the evidence is %v", evidence)
	}
}

// Every write of an administrator is in the audit, with whom and what it was about, and no
// read and no secret.
func TestAudit(t *testing.T) {
	s, ops := locked(t)
	s.call("POST", "/api/deployments", `{"id":"blog"}`, ops...).want(201)
	s.call("POST", "/api/deployments", `{"id":"blog"}`, ops...).want(409)
	s.call("PUT", "/api/deployments/blog", `{}`, ops...).want(200) // changes nothing
	s.call("PUT", "/api/instances/a%2Fb", `{"deployment_id":"blog"}`, ops...).want(400)
	id := s.call("POST", "/api/monitors/add", `{"address":"127.0.0.1","port":9000,"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`, ops...).want(201).field("monitor_id").(string)
	s.call("POST", "/api/monitors/"+id+"/pause", "", ops...).want(200)
	s.detectBy(ops).want(200)
	s.call("DELETE", "/api/instances/web-1/evidence/nagios", "", ops...).want(204)
	s.call("POST", "/api/monitors/remove", `{"monitor_id":"`+id+`"}`, ops...).want(200)
	token := s.call("POST", "/api/tokens", `{"name":"reader"}`, ops...).want(201).field("token").(string)
	s.call("PUT", "/api/deployments/blog", `{}`, bearing(token)...).want(403)
	s.call("GET", "/api/deployments", "", ops...).want(200)
	s.call("DELETE", "/api/deployments/none", "", ops...).want(404)

	var got strings.Builder
	for path := "/api/audit?limit=4"; path != ""; {
		page := s.call("GET", path, "", ops...).want(200)
		for _, a := range page.field("acts").([]any) {
			act := a.(map[string]any)
			fmt.Fprintln(&got, act["name"], act["method"], act["route"], act["subject"], act["status"], act["address"])
		}
		path = ""
		if next, ok := page.field("next").(string); ok {
			path = "/api/audit?limit=4&after=" + next
		}
		if text := string(page.body); strings.Contains(text, token) || strings.Contains(text, "whsec") {
			t.Errorf("a secret is in the audit: %s", text)
		}
	}
	want := `ops DELETE /api/deployments/{id} none 404 127.0.0.1
ops POST /api/tokens reader 200 127.0.0.1
ops POST /api/monitors/remove ` + id + ` 200 127.0.0.1
ops DELETE /api/instances/{id}/evidence/{source} web-1 nagios 200 127.0.0.1
ops POST /api/monitors/{id}/pause ` + id + ` 200 127.0.0.1
ops POST /api/monitors/add ` + id + ` 200 127.0.0.1
ops PUT /api/instances/{id} a/b 400 127.0.0.1
ops PUT /api/deployments/{id} blog 200 127.0.0.1
ops POST /api/deployments blog 409 127.0.0.1
ops POST /api/deployments blog 200 127.0.0.1
`
	if got.String() != want {
		t.Errorf("the audit has\n%swant\n%s", got.String(), want)
	}
}

func (s *site) detectBy(who []string) answer {
	s.Helper()
	return s.call("POST", "/api/monitors/deployment/instance/web-1", `{"state":"FAIL DETECTED","source":"nagios"}`, who...)
}

// Who was let in by a token that is revoked while he waits, or is sent a stream, hears no
// more: not the next event, and soon that it is over.
func TestRevokedWhileWaiting(t *testing.T) {
	for name, tc := range map[string]struct {
		path, accept string
		event        bool // there is one then
	}{
		"poll":         {"/api/events?wait=60s&after=3", "", true},
		"await":        {"/api/deployments/shop?timeout=60s&await=gone", "", true},
		"quiet-await":  {"/api/deployments/shop?timeout=60s&await=gone", "", false},
		"stream":       {"/api/events", "text/event-stream", true},
		"quiet-stream": {"/api/events", "text/event-stream", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := make(chan struct{}, 100)
			s := open(t, func(srv *api.Server) {
				srv.Verifiers = []api.Verifier{verifier(func(ctx context.Context, token windsock.Secret) (windsock.Principal, error) {
					defer func() { known <- struct{}{} }()
					return srv.Store.(api.Verifier).Principal(ctx, token)
				})}
			})
			ops := bearing(s.token(windsock.TokenSpec{Name: "ops", Role: windsock.MayAdmin}))
			if head := s.store.Head(); head != 3 {
				t.Fatalf("the newest event is %d", head)
			}
			req := must(http.NewRequest("GET", s.http.URL+tc.path, nil))
			req.Header.Set("Authorization", "Bearer "+s.token(windsock.TokenSpec{Name: "who"}))
			req.Header.Set("Accept", tc.accept)
			got := make(chan string)
			go func() {
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					got <- err.Error()
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				got <- fmt.Sprint(resp.StatusCode, " ", string(body), err)
			}()
			<-known
			if err := s.store.RevokeToken(t.Context(), "who"); err != nil {
				t.Fatal(err)
			}
			if tc.event {
				s.detectBy(ops).want(200)
			}
			answer := <-got
			want := "401 {"
			if tc.accept != "" {
				want = "200 <nil>" // and nothing else
			}
			if !strings.HasPrefix(answer, want) {
				t.Errorf("got %s, want %s", answer, want)
			}
		})
	}
}
