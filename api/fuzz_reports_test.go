package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"windsock"
	"windsock/api"
	"windsock/reports"
)

// knowing is a willing store that finds one thing by whatever it is named, unless by our id.
type knowing struct{ willing }

func (s *knowing) Find(_ context.Context, lookups []windsock.Lookup) ([][]string, error) {
	ids := make([][]string, len(lookups))
	for i, l := range lookups {
		s.text(l.Value)
		if l.By != windsock.ByID {
			ids[i] = []string{"web-1"}
		}
	}
	return ids, nil
}

func (s *knowing) NoteUnmatched(_ context.Context, list []windsock.Unmatched) error {
	for _, u := range list {
		s.text(u.Subject, u.Why, u.Reason)
	}
	return nil
}

// Each route that takes what others send, with the body and the last of its path as they like.
func FuzzReportRoutes(f *testing.F) {
	for _, body := range []string{
		`{"version":"4","alerts":[{"status":"firing","labels":{"instance":"web-1"},"fingerprint":"f","startsAt":"2026-01-02T15:04:05Z"}]}`,
		`{"version":"1","orgId":1,"alerts":[{"status":"resolved","labels":{"instance":"web-1"},"fingerprint":"f","startsAt":"2026-01-02T15:04:05Z","endsAt":"2026-01-02T15:05:05Z"}]}`,
		`{"notification":{"type":"COMPUTE_HOST","hostname":"node1","generated_time":"2026-01-02T15:00:00","payload":{"event":"STOPPED","host_status":"NORMAL"}}}`,
		`{"notification":{"payload":[[1,2],{"a":null}]}}`,
		`{"mark_unhealthy":true,"resource_status_reason":"it smokes"}`,
		`{"kind":"Pod","metadata":{"name":"web-1"},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
		`{"reports":[{"host":"web-1","service":"HTTP","state":"CRITICAL"},{"host":"web-1","state":"DOWN"}]}`,
		`{"items":[{"CRM_alert_kind":"node","CRM_alert_node":"node1","CRM_alert_desc":"lost"}]}`,
		`{"items":[null]}`, `[`, `null`, ``, "\xff",
	} {
		f.Add("alertmanager", body)
		f.Add("%00/../x", body)
	}
	store, rules := new(knowing), reports.Builtin()
	h := handler(store, func(srv *api.Server) { srv.Reports = rules })
	f.Fuzz(func(t *testing.T, name, body string) {
		store.T = t
		for _, rule := range rules.Names() {
			post(t, h, "/api/reports/"+rule, jsonType, body)
		}
		post(t, h, "/api/reports/"+url.PathEscape(name), jsonType, body)
		for method, path := range map[string]string{"POST": "/v1/notifications", "PATCH": "/v1/p/stacks/s/1/resources/" + url.PathEscape(name)} {
			for range 2 { // the second time it is the same
				req := httptest.NewRequest(method, path, strings.NewReader(body))
				req.Header.Set("Content-Type", jsonType)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, req); w.Code >= http.StatusInternalServerError {
					t.Errorf("%s %s is answered %d %s", method, path, w.Code, w.Body)
				}
			}
		}
	})
}
