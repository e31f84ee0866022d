package api_test

import (
	"context"
	"encoding/json"
	"fmt"
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
)

// An alert is what Alertmanager tells of one: firing until it has ended.
type alert struct {
	fingerprint, instance string
	starts, ends          time.Time
}

func (a alert) text() string {
	status, ends := "firing", "0001-01-01T00:00:00Z"
	if !a.ends.IsZero() {
		status, ends = "resolved", a.ends.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf(`{"status":%q,"labels":{"alertname":"Down","instance_id":%q,"severity":"critical"},"annotations":{"summary":"does not answer"},
		"startsAt":%q,"endsAt":%q,"generatorURL":"http://prometheus.example/","fingerprint":%q}`, status, a.instance, a.starts.Format(time.RFC3339Nano), ends, a.fingerprint)
}

func (s *site) alerts(alerts ...alert) answer {
	s.Helper()
	texts := make([]string, len(alerts))
	for i, a := range alerts {
		texts[i] = a.text()
	}
	return s.call("POST", "/api/reports/alertmanager", `{"version":"4","status":"firing","alerts":[`+strings.Join(texts, ",")+`]}`)
}

func (s *site) state(id string) any {
	s.Helper()
	return s.call("GET", "/api/instances/"+id, "").want(200).field("observed_state")
}

// words are what monitors hear of an instance, in order.
func (s *site) words(id string) (words []string) {
	s.Helper()
	var page struct {
		Events []windsock.Event `json:"events"`
	}
	if err := json.Unmarshal(s.call("GET", "/api/events?limit=1000&instance="+id, "").want(200).body, &page); err != nil {
		s.Fatal(err)
	}
	for _, e := range page.Events {
		if e.Word != "" {
			words = append(words, string(e.Word))
		}
	}
	return words
}

func minutes(n int) time.Time { return time.Now().Add(time.Duration(n-60) * time.Minute) }

func TestAlertsAreSourcesOfTheirOwn(t *testing.T) {
	s := open(t)
	disk, cpu := alert{"f1", "web-1", minutes(1), time.Time{}}, alert{"f2", "web-1", minutes(2), time.Time{}}
	s.alerts(disk, cpu, alert{"f3", "web-9", minutes(2), time.Time{}}).want(200).
		has(map[string]any{"recorded": 2., "unmatched": 1., "ignored": 0., "refused": 0.})
	disk.ends = minutes(3)
	s.alerts(disk, cpu).want(200)
	if got := s.state("web-1"); got != "failed" {
		t.Errorf("one of two alerts is resolved, and it is %v", got)
	}
	cpu.ends = minutes(4)
	s.alerts(disk, cpu).want(200)
	if got := s.state("web-1"); got != "running" {
		t.Errorf("both are resolved, and it is %v", got)
	}
}

// However often and in whatever order it arrives, monitors hear of it once.
func TestAlertsAgainAndOutOfOrder(t *testing.T) {
	s := open(t)
	fires := alert{"f1", "web-1", minutes(1), time.Time{}}
	over := fires
	over.ends = minutes(2)
	for range 3 {
		s.alerts(fires, fires).want(200)
	}
	s.alerts(over, over, fires).want(200)
	for range 3 {
		s.alerts(fires).want(200).has(map[string]any{"recorded": 1.})
		s.alerts(over).want(200)
	}
	if got := fmt.Sprint(s.words("web-1")); got != "[FAIL DETECTED START DETECTED]" {
		t.Errorf("monitors hear %s", got)
	}
	s.alerts(alert{"f1", "web-2", minutes(1), minutes(2)}).want(200)
	s.alerts(alert{"f1", "web-2", minutes(1), time.Time{}}).want(200)
	if got := s.state("web-2"); got != "running" {
		t.Errorf("resolved before it fired: %v", got)
	}
}

func TestUnmatchedAreListedUntilDeclared(t *testing.T) {
	s := open(t)
	fires := alert{"f1", "web-9", minutes(1), time.Time{}}
	s.alerts(fires, fires).want(200).has(map[string]any{"unmatched": 2.})
	s.alerts(fires).want(200)
	list := s.call("GET", "/api/reports/unmatched", "").want(200).field("unmatched").([]any)
	if len(list) != 1 {
		t.Fatalf("unmatched: %v", list)
	}
	if u := list[0].(map[string]any); u["subject"] != "web-9" || u["count"] != 3. || u["report"] != "alertmanager" || u["kind"] != "instance" || u["detection"] != "FAIL DETECTED" {
		t.Errorf("%v", u)
	}
	s.call("PUT", "/api/instances/web-9", `{"deployment_id":"shop"}`).want(201)
	s.alerts(fires).want(200).has(map[string]any{"recorded": 1.})
	if got := s.state("web-9"); got != "failed" {
		t.Errorf("it is %v", got)
	}
	metrics := string(s.call("GET", "/metrics", "").body)
	for _, want := range []string{`windsock_report_items_total{report="alertmanager",result="unmatched"} 3`, `windsock_report_items_total{report="alertmanager",result="recorded"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestAHostStandsForWhatIsOnIt(t *testing.T) {
	s := open(t)
	for _, id := range []string{"a", "b"} {
		s.call("PUT", "/api/instances/"+id, `{"deployment_id":"shop","metadata":{"host":"node1"}}`).want(201)
	}
	host := func(event, at string) string {
		return `{"notification":{"type":"COMPUTE_HOST","hostname":"node1","generated_time":"` + at + `","payload":{"event":"` + event + `","host_status":"NORMAL","cluster_status":"OFFLINE"}}}`
	}
	s.detect("a", "START DETECTED", "source", "probing")
	s.call("POST", "/v1/notifications", host("STARTED", "2026-01-02T15:00:00")).want(202)
	if a, b := s.state("a"), s.state("b"); a != "running" || b != "unknown" {
		t.Errorf("a host that is there says that its instances are %v and %v", a, b)
	}
	first := s.call("POST", "/v1/0123/notifications", host("STOPPED", "2026-01-02T15:04:05.000001")).want(202)
	if n := first.field("notification").(map[string]any); n["status"] != "finished" || n["type"] != "COMPUTE_HOST" || len(n["notification_uuid"].(string)) != 36 {
		t.Errorf("answered %v", n)
	}
	s.call("POST", "/v1/notifications", host("STOPPED", "2026-01-02T15:04:05.000001")).refused(409, "conflict", "")
	if a, b, c := s.state("a"), s.state("b"), s.state("web-1"); a != "failed" || b != "failed" || c != "unknown" {
		t.Errorf("a host stopped, its instances are %v and %v, another is %v", a, b, c)
	}
	s.call("POST", "/v1/notifications", host("STARTED", "2026-01-02T15:05:00")).want(202)
	if a, b := s.state("a"), s.state("b"); a != "running" || b != "running" {
		t.Errorf("the host is back, its instances are %v and %v", a, b)
	}
	s.call("POST", "/v1/notifications", strings.Replace(host("STOPPED", "2026-01-02T15:06:00"), "node1", "node2", 1)).want(202)
	if list := s.call("GET", "/api/reports/unmatched", "").field("unmatched").([]any); len(list) != 1 {
		t.Errorf("unmatched: %v", list)
	}
}

func TestSeveralOfOneNameAreNone(t *testing.T) {
	s := open(t)
	for _, id := range []string{"a", "b"} {
		s.call("PUT", "/api/instances/"+id, `{"deployment_id":"shop","name":"web"}`).want(201)
	}
	s.call("POST", "/api/reports/nagios", `{"host":"web","state":"DOWN"}`).want(200).has(map[string]any{"unmatched": 1.})
	if list := s.call("GET", "/api/reports/unmatched", "").field("unmatched").([]any); list[0].(map[string]any)["why"] != "several have this name" {
		t.Errorf("%v", list)
	}
}

func TestDryRunRecordsNothing(t *testing.T) {
	s := open(t)
	before := s.everything()
	body := `{"reports":[{"host":"web-1","state":"DOWN"},{"host":"web-9","state":"DOWN"},{"host":"web-2","state":"UNREACHABLE"}]}`
	a := s.call("POST", "/api/reports/nagios?dry_run=true", body).want(200).has(map[string]any{"dry_run": true, "recorded": 1., "unmatched": 1., "ignored": 1.})
	if got := a.field("items").([]any)[0].(map[string]any)["detections"]; fmt.Sprint(got) != "[map[changed:false detection:FAIL DETECTED instance_id:web-1 source:nagios]]" {
		t.Errorf("it would record %v", got)
	}
	if after := s.everything() + string(s.call("GET", "/api/reports/unmatched", "").body); after != before+`{"unmatched":[]}` {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

func TestHeatMarksInstances(t *testing.T) {
	s := open(t)
	path := "/v1/p/stacks/shop/s-1/resources/web-1"
	s.call("PATCH", path, `{"mark_unhealthy":false}`).want(200)
	if got := s.state("web-1"); got != "unknown" {
		t.Errorf("what was not marked is %v", got)
	}
	s.call("PATCH", path, `{"mark_unhealthy":true,"resource_status_reason":"it smokes"}`).want(200)
	s.call("GET", "/api/instances/web-1", "").has(map[string]any{"observed_state": "failed", "reason": "it smokes"})
	s.call("PATCH", path, `{"mark_unhealthy":false}`).want(200)
	if got := s.state("web-1"); got != "running" {
		t.Errorf("what is marked no more is %v", got)
	}
	s.call("PATCH", path, `{"resource_status_reason":"x"}`).refused(400, "invalid", "mark_unhealthy")
	s.call("PATCH", path, `{"mark_unhealthy":true,"force":true}`).refused(400, "invalid", "force")
	s.call("PATCH", strings.Replace(path, "web-1", "web-9", 1), `{"mark_unhealthy":true}`).refused(404, "not-found", "resource")
}

// What is wrong with a report is told with the field, and nothing of it is recorded.
func TestReportsThatAreRefused(t *testing.T) {
	s := open(t)
	before := s.everything()
	good := alert{"f1", "web-1", minutes(1), time.Time{}}.text()
	for name, c := range map[string]struct {
		path, body, contentType string
		status                  int
		kind, field             string
	}{
		"no such rule":        {"/api/reports/nobody", `{}`, jsonType, 404, "not-found", "name"},
		"half a body":         {"/api/reports/alertmanager", `{"version":"4","alerts":[` + good + `,{"status":`, jsonType, 400, "invalid", "alerts.1.status"},
		"a bad alert":         {"/api/reports/alertmanager", `{"version":"4","alerts":[` + good + `,{}]}`, jsonType, 400, "invalid", "alerts.1.fingerprint"},
		"another version":     {"/api/reports/alertmanager", `{"version":"5","alerts":[` + good + `]}`, jsonType, 400, "invalid", "version"},
		"no body":             {"/api/reports/alertmanager", ``, jsonType, 400, "invalid", "body"},
		"a form":              {"/api/reports/alertmanager", `a=b`, formType, 415, "media-type", "Content-Type"},
		"no UTF-8":            {"/v1/notifications", "{\"notification\":{\"hostname\":\"\xff\"}}", jsonType, 400, "invalid", "notification.hostname"},
		"no notification":     {"/v1/notifications", `{}`, jsonType, 400, "invalid", "notification"},
		"a deep one":          {"/api/reports/nagios", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), jsonType, 400, "invalid", "body"},
		"a dry run of a kind": {"/api/reports/nagios?dry_run=maybe", `{"host":"a","state":"UP"}`, jsonType, 400, "invalid", "dry_run"},
		"a large one":         {"/api/reports/nagios", `{"host":"` + strings.Repeat("a", 16<<20) + `"}`, jsonType, 413, "too-large", "body"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.call("POST", c.path, c.body, "Content-Type", c.contentType).refused(c.status, c.kind, c.field)
			if after := s.everything(); after != before {
				t.Errorf("something was stored: before %s\nafter %s", before, after)
			}
		})
	}
}

// What one subject has no room for is refused by itself.
func TestMoreAlertsThanASubjectBears(t *testing.T) {
	s := open(t)
	var alerts []alert
	for n := range 65 {
		alerts = append(alerts, alert{fmt.Sprint("f", n), "web-1", minutes(1), time.Time{}})
	}
	a := s.alerts(append(alerts, alert{"f", "web-2", minutes(1), time.Time{}})...).want(200).has(map[string]any{"recorded": 65., "refused": 1.})
	if last := a.field("items").([]any)[64].(map[string]any); last["result"] != "refused" || last["why"] == "" {
		t.Errorf("the last is answered %v", last)
	}
	for i := range alerts {
		alerts[i].ends = minutes(2)
	}
	s.alerts(alerts...).want(200).has(map[string]any{"recorded": 65.})
	if got := s.state("web-1"); got != "running" {
		t.Errorf("all are resolved, and it is %v", got)
	}
}

// Names that are meant to do harm are names that nobody declared.
func TestHostileNamesInReports(t *testing.T) {
	s := open(t)
	for _, name := range []string{"<script>alert(1)</script>", "../../web-1", "'; DROP TABLE instances; --", "\u202egnp.exe", strings.Repeat("ä", 10_000), "web-1\u0000", "{/host}", "%"} {
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		a := s.call("POST", "/api/reports/nagios", `{"host":`+string(text)+`,"state":"DOWN","output":`+string(text)+`}`).want(200)
		if a.field("recorded") != 0. {
			t.Errorf("%q: %s", name, a.body)
		}
	}
	if got := s.state("web-1"); got != "unknown" {
		t.Errorf("web-1 is %v", got)
	}
	s.call("GET", "/api/reports/unmatched", "").want(200)
}

// fleet declares so many instances, and returns an alert about each.
func fleet(tb testing.TB, st *store.Store, n int) (alerts []alert) {
	tb.Helper()
	seen := func(kind windsock.Kind, id string, as windsock.Description) windsock.Observation {
		return windsock.Observation{
			Subject: windsock.Subject{Kind: kind, ID: id}, As: &as,
			Provider: "east", Source: "provider:east", Origin: windsock.FromProvider, State: windsock.Running,
		}
	}
	all := []windsock.Observation{seen(windsock.KindDeployment, "fleet", windsock.Description{Name: "fleet"})}
	for i := range n {
		id := fmt.Sprint("i-", i)
		all = append(all, seen(windsock.KindInstance, id, windsock.Description{Deployment: "fleet"}))
		alerts = append(alerts, alert{fmt.Sprint("f", i), id, minutes(1), time.Time{}})
	}
	if _, err := st.Record(context.Background(), all); err != nil {
		tb.Fatal(err)
	}
	return alerts
}

// 10,000 alerts are one report: all of them are recorded, while others come.
func TestManyAlertsInOneBody(t *testing.T) {
	s := open(t)
	const n = 10_000
	alerts := fleet(t, s.store, n)
	var all sync.WaitGroup
	all.Go(func() { s.alerts(alerts...).want(200).has(map[string]any{"recorded": float64(n)}) })
	for range 3 {
		all.Go(func() { s.alerts(alerts[:100]...).want(200).has(map[string]any{"recorded": 100.}) })
	}
	all.Wait()
	for _, id := range []string{"i-0", "i-99", "i-100", "i-9999"} {
		if got := fmt.Sprint(s.words(id)); got != "[START DETECTED FAIL DETECTED]" {
			t.Errorf("monitors hear %s of %s", got, id)
		}
	}
	s.call("GET", "/api/deployments/fleet", "").want(200).has(map[string]any{"observed_state": "failed"})
}

func BenchmarkTenThousandAlerts(b *testing.B) {
	st, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "windsock.db"), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	alerts := fleet(b, st, 10_000)
	h := handler(st, func(srv *api.Server) { srv.Reports = reports.Builtin() })
	for b.Loop() {
		b.StopTimer()
		texts := make([]string, len(alerts))
		for i := range alerts {
			if a := &alerts[i]; a.ends.IsZero() {
				a.ends = a.starts.Add(time.Second)
			} else {
				a.starts, a.ends = a.ends.Add(time.Second), time.Time{}
			}
			texts[i] = alerts[i].text()
		}
		req := httptest.NewRequest("POST", "/api/reports/alertmanager", strings.NewReader(`{"version":"4","alerts":[`+strings.Join(texts, ",")+`]}`))
		req.Header.Set("Content-Type", jsonType)
		w := &devnull{header: http.Header{}}
		b.StartTimer()
		h.ServeHTTP(w, req)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}
