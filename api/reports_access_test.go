package api_test

import (
	"strings"
	"testing"
	"time"

	"windsock"
	"windsock/api"
)

// Who may report on one deployment alone is refused what it says of another, and the rest
// is taken; who is a registered monitor has one source for all, and so no reports.
func TestReportsByToken(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		srv.Verifiers = []api.Verifier{callers{
			"shop":    {Name: "shop's", Permission: windsock.MayReport, Scope: "deployment:shop"},
			"monitor": {Name: "pager", Permission: windsock.MayReport, Scope: windsock.Global, MonitorID: "0198c5a2-7b7e-7c3e-9d53-0a8a4c5f9b10"},
			"admin":   {Name: "ops", Permission: windsock.MayAdmin},
		}}
	})
	s.call("PUT", "/api/deployments/other", `{}`, bearing("admin")...).want(201)
	s.call("PUT", "/api/instances/db-1", `{"deployment_id":"other"}`, bearing("admin")...).want(201)
	var texts []string
	for _, a := range []alert{{"f1", "web-1", minutes(1), time.Time{}}, {"f2", "db-1", minutes(1), time.Time{}}} {
		texts = append(texts, a.text())
	}
	body := `{"version":"4","status":"firing","alerts":[` + strings.Join(texts, ",") + `]}`
	s.call("POST", "/api/reports/alertmanager", body, bearing("shop")...).want(200).has(map[string]any{"recorded": 1., "refused": 1.})
	for id, want := range map[string]string{"web-1": "failed", "db-1": "unknown"} {
		if got := s.call("GET", "/api/instances/"+id, "", bearing("admin")...).want(200).field("observed_state"); got != want {
			t.Errorf("%s is %v, want %s", id, got, want)
		}
	}
	nobody := strings.ReplaceAll(body, "web-1", "web-9") // which is not declared
	a := s.call("POST", "/api/reports/alertmanager", nobody, bearing("shop")...).want(200).has(map[string]any{"recorded": 0., "unmatched": 0., "refused": 2.})
	if why := a.field("items").([]any)[0].(map[string]any)["why"].(string); !strings.Contains(why, "deployment:shop") {
		t.Errorf("what is not declared is refused as %q", why)
	}
	for _, resource := range []string{"db-1", "web-9"} {
		s.call("PATCH", "/v1/p/stacks/shop/s-1/resources/"+resource, `{"mark_unhealthy":true}`, bearing("shop")...).refused(403, "forbidden", "resource")
	}
	s.call("POST", "/api/reports/alertmanager", body, bearing("monitor")...).refused(403, "forbidden", "")

	vm := `{"notification":{"type":"VM","hostname":"node1","generated_time":"2026-01-02T15:00:00","payload":{"event":"LIFECYCLE","instance_uuid":"web-2","vir_domain_event":"STOPPED_FAILED"}}}`
	s.call("POST", "/v1/notifications", vm).refused(401, "unauthorized", "Authorization")
	s.call("POST", "/v1/notifications", vm, "X-Auth-Token", "stranger").refused(401, "unauthorized", "Authorization")
	s.call("POST", "/v1/notifications", vm, "X-Auth-Token", "shop").want(202)
	if got := s.call("GET", "/api/instances/web-2", "", "X-Auth-Token", "admin").want(200).field("observed_state"); got != "failed" {
		t.Errorf("web-2 is %v", got)
	}
}
