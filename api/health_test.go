package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock/api"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestReadyOnlyWhileEveryLoopGoesRound(t *testing.T) {
	var mu sync.Mutex
	last := map[string]time.Time{"observer": time.Now(), "deliverer": time.Now()}
	beat := func(name string) api.Beat {
		return api.Beat{Name: name, Max: time.Minute, Beat: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return last[name]
		}}
	}
	s := open(t, func(srv *api.Server) { srv.Ready = []api.Beat{beat("observer"), beat("deliverer")} })
	s.call("GET", "/readyz", "").want(200)
	mu.Lock()
	last["observer"] = time.Now().Add(-2 * time.Minute)
	last["deliverer"] = time.Time{} // it never began
	mu.Unlock()
	s.call("GET", "/readyz", "").refused(503, "not-ready", "").has(map[string]any{"failing": []any{"observer", "deliverer"}})
	s.call("GET", "/livez", "").want(200).has(map[string]any{"status": "ok", "version": "test"})
}

func TestCheckWithoutAnObserverIsNotPossible(t *testing.T) {
	s := open(t)
	s.call("POST", "/api/instances/web-1/check", "").refused(503, "no-observer", "")
	s.call("POST", "/api/deployments/shop/check", "").refused(503, "no-observer", "")
}

func TestMethodsOfAPathAreNamed(t *testing.T) {
	s := open(t)
	for path, want := range map[string]string{
		"/api/monitors/add":                   "POST",
		"/api/monitors/remove":                "POST",
		"/api/monitors/detections":            "POST",
		"/api/monitors/deployment/shop":       "POST",
		"/api/monitors/list":                  "GET, HEAD",
		"/api/monitors/" + noID:               "GET, HEAD",
		"/api/deployments":                    "GET, POST, HEAD",
		"/api/instances/web-1":                "GET, PUT, PATCH, DELETE, HEAD",
		"/api/instances/web-1/evidence/a%2Fb": "DELETE",
		"/api/events":                         "GET, HEAD",
	} {
		a := s.call("OPTIONS", path, "").refused(405, "method-not-allowed", "")
		if got := a.header.Get("Allow"); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/", "/api/monitors/add/", "//api/deployments", "/api/monitors/nobody", "/api/instances/a/b"} {
		s.call("GET", path, "").refused(404, "no-such-path", "")
	}
}

func TestAnswersAreNotSniffed(t *testing.T) {
	s := open(t)
	for _, path := range []string{"/api/deployments", "/nothing", "/metrics", "/livez"} {
		if got := s.call("GET", path, "").header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

// A web page of somebody else cannot use the browser of who may reach us.
func TestForeignWebPagesAreRefused(t *testing.T) {
	s := open(t)
	form := "address=127.0.0.1&port=9000"
	s.call("POST", add, form, "Content-Type", formType, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").refused(403, "cross-origin", "")
	s.call("POST", add, form, "Content-Type", formType, "Origin", "https://evil.example").refused(403, "cross-origin", "")
	s.call("POST", add, form, "Content-Type", formType, "Origin", s.http.URL).want(201)
	if got := len(s.call("GET", "/api/monitors/list", "").field("monitors").([]any)); got != 1 {
		t.Errorf("%d monitors", got)
	}
}

// A callback of ours that comes back is no report, and ends here.
func TestOurOwnCallbackIsRefused(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.ID = "L0G" })
	fail := `{"state": "FAIL DETECTED"}`
	for _, path := range []string{"/api/monitors/deployment/instance/web-1", "/api/monitors/deployment/shop"} {
		s.call("POST", path, fail, "Windsock-Id", "L0G").refused(508, "loop", "")
	}
	req := must(http.NewRequest("POST", s.http.URL+"/api/deployment/instance/web-1", strings.NewReader(fail))) // where callbacks go to
	req.Header.Set("Windsock-Id", "L0G")
	resp := must(http.DefaultClient.Do(req))
	resp.Body.Close()
	if resp.StatusCode != 508 {
		t.Errorf("at the path of a callback: HTTP %d, want 508", resp.StatusCode)
	}
	s.call("GET", "/api/instances/web-1", "").want(200).has(map[string]any{"observed_state": "unknown"})

	s.call("POST", "/api/monitors/deployment/instance/web-1", fail, "Windsock-Id", "0THER").want(200)
	s.call("GET", "/api/instances/web-1", "", "Windsock-Id", "L0G").want(200).has(map[string]any{"observed_state": "failed"})
}

// Strangers cannot make series.
func TestRandomRequestsMakeNoSeries(t *testing.T) {
	s := open(t)
	count := func() int { return must(testutil.GatherAndCount(s.server.Gatherer)) }
	request := func(i int) {
		for _, path := range []string{
			fmt.Sprintf("/%d/%d", rand.Int(), i), fmt.Sprintf("/api/deployments/%d", rand.Int()), fmt.Sprintf("/api/monitors/%d", rand.Int()),
			fmt.Sprintf("/api/monitors/deployment/instance/%d", rand.Int()), fmt.Sprintf("/api/events?after=%d", rand.Int()),
		} {
			req := must(http.NewRequest(fmt.Sprintf("M%d", i), s.http.URL+path, nil))
			if i%2 == 0 {
				req.Method = "GET"
			}
			must(http.DefaultClient.Do(req)).Body.Close()
		}
		s.detect(fmt.Sprint(rand.Int()), fmt.Sprint("WORD ", i)).want(400)
		s.detect(fmt.Sprint(rand.Int()), "FAIL DETECTED", "source", fmt.Sprint(i)).want(404)
	}
	request(0)
	request(1)
	before := count()
	for i := range 100 {
		request(i)
	}
	if after := count(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
}

func TestDetectionsAreCounted(t *testing.T) {
	s := open(t)
	s.detect("web-1", "FAIL DETECTED").want(200)
	s.detect("web-1", "FAIL DETECTED").want(200)
	s.detect("web-9", "FAIL DETECTED").want(404)
	s.detect("web-1", "BROKEN").want(400)
	s.call("POST", "/api/monitors/detections", `[{"instance_id":"web-1","state":"START DETECTED"},{"deployment_id":"shop","state":"STOP DETECTED"},{"instance_id":"x","state":"STOP DETECTED"},7]`).want(200)
	want := []string{
		`windsock_detections_total{detection="FAIL DETECTED",kind="instance",result="changed"} 1`,
		`windsock_detections_total{detection="FAIL DETECTED",kind="instance",result="refused"} 1`,
		`windsock_detections_total{detection="FAIL DETECTED",kind="instance",result="unchanged"} 1`,
		`windsock_detections_total{detection="START DETECTED",kind="instance",result="changed"} 1`,
		`windsock_detections_total{detection="STOP DETECTED",kind="deployment",result="changed"} 1`,
		`windsock_detections_total{detection="STOP DETECTED",kind="instance",result="refused"} 1`,
		`windsock_detections_total{detection="other",kind="instance",result="refused"} 2`,
		`windsock_http_requests_total{code="4xx",method="POST",path="/api/monitors/deployment/instance/{id}"} 2`,
	}
	shown := string(s.call("GET", "/metrics", "").want(200).body)
	var got []string
	for line := range strings.Lines(shown) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "windsock_detections_total{") || line == want[len(want)-1] {
			got = append(got, line)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	problems := must(testutil.GatherAndLint(s.server.Gatherer))
	if len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}
