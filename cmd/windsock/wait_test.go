package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// command is a run of the program that ended: its status and what it printed.
func command(t *testing.T, args ...string) (status int, out, err string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = run(t.Context(), args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// answering answers every request alike.
func answering(t *testing.T, wanted string, status int, body string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Method + " " + r.URL.EscapedPath(); got != wanted {
			t.Errorf("asked %s, want %s", got, wanted)
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func problemBody(kind, detail string) string {
	return fmt.Sprintf(`{"type":"/problems/%s","title":"title","detail":%q,"observed_state":"starting"}`, kind, detail)
}

func TestHowACheckEnds(t *testing.T) {
	saw := func(observed, seen string) string {
		return fmt.Sprintf(`{"observed_state":%q,"seen_state":%q,"looks":[{"source":"provider:east","seen_state":%q,"raw":"ACTIVE"},{"source":"probe","error":"no eyes"}]}`, observed, seen, seen)
	}
	for _, c := range []struct {
		status int
		body   string
		exit   int
		says   string
	}{
		{200, saw("running", "running"), 0, "instance web/1 is running; provider:east saw running (ACTIVE), probe could not look: no eyes\n"},
		{200, saw("starting", "starting"), 1, "is starting"},
		{200, saw("stopping", "running"), 1, "is stopping"},
		{200, saw("failed", "running"), 2, "is failed; provider:east saw running"}, // a monitor says so
		{200, saw("gone", "gone"), 2, "is gone"},
		{200, saw("suspended", "suspended"), 2, "is suspended"},
		{200, saw("unknown", "unknown"), 3, "is unknown"},
		{200, `{"observed_state":"running","looks":[{"source":"probe","error":"a\u001b[2J"}]}`, 3, "is running; probe could not look: a [2J\n"},
		{404, problemBody("not-found", "instance not found"), 3, "cannot be checked: instance not found"},
		{409, problemBody("not-probed", "nothing can look"), 3, "cannot be checked: nothing can look"},
		{503, problemBody("unavailable", "later"), 3, "cannot be checked: later"},
		{502, "<html>bad gateway", 3, "502 Bad Gateway is no answer of windsock"},
	} {
		url := answering(t, "POST /api/instances/web%2F1/check", c.status, c.body)
		status, out, errs := command(t, "check", "instance", "web/1", "--url", url+"/")
		if status != c.exit || !strings.Contains(out, c.says) || strings.Count(out, "\n") != 1 || errs != "" {
			t.Errorf("%d %s: ended with %d, want %d; printed %q, want %q; %s", c.status, c.body, status, c.exit, out, c.says, errs)
		}
		if status, out, _ := command(t, "check", "instance", "web/1", "--url", url, "--json"); status != c.exit || json.Valid([]byte(c.body)) && out != c.body+"\n" {
			t.Errorf("with --json %d, %s", status, out)
		}
	}
	url := answering(t, "POST /api/deployments/shop/check", 200, `{"observed_state":"degraded","looks":[],"instances":[{"seen_state":"running"},{"seen_state":"failed"},{"seen_state":"running"},{"error":"no time"}]}`)
	if status, out, _ := command(t, "check", "deployment", "shop", "--url", url); status != 1 || out != "deployment shop is degraded; of its instances seen 2 running, 1 failed, 1 by nobody\n" {
		t.Errorf("a deployment: %d %q", status, out)
	}
	if status, out, _ := command(t, "check", "deployment", "shop", "--url", "http://127.0.0.1:1"); status != 3 || !strings.Contains(out, "connection refused") {
		t.Errorf("nobody: %d %q", status, out)
	}
}

func TestHowAWaitEnds(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		exit   int
		says   string
	}{
		{200, `{"observed_state":"stopped","instances":{"stopped":2}}`, 0, "deployment shop is stopped\n"},
		{504, problemBody("await-timeout", "late"), 1, "is starting, not stopped, after 1ms"},
		{404, problemBody("not-found", "no such"), 2, "cannot be waited for: no such"},
		{400, problemBody("invalid", "want one of"), 2, "cannot be waited for: want one of"},
		{503, problemBody("unavailable", "disk full"), 3, "may be stopped or not, after 1ms: disk full"},
		{504, problemBody("gateway", "proxy"), 3, "proxy"},
		{502, "<html>", 3, "no answer of windsock"},
	} {
		url := answering(t, "GET /api/deployments/shop", c.status, c.body)
		status, out, errs := command(t, "wait", "deployment", "shop", "--for", "stopped", "--timeout", "1ms", "--url", url)
		if status != c.exit || !strings.Contains(out, c.says) || strings.Count(out, "\n") != 1 || errs != "" {
			t.Errorf("%d %s: ended with %d, want %d; printed %q, want %q; %s", c.status, c.body, status, c.exit, out, c.says, errs)
		}
		if status, out, _ := command(t, "wait", "deployment", "shop", "--for", "stopped", "--timeout", "0", "--url", url, "--json"); status != c.exit || json.Valid([]byte(c.body)) && out != c.body+"\n" {
			t.Errorf("with --json %d, %s", status, out)
		}
	}
}

// It waits over a restart, and for a state that comes after it.
func TestAWaitSurvivesARestart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	db := filepath.Join(t.TempDir(), "w.db")
	serve := func() *program {
		p := start(t, "serve", "--listen", addr, "--db", db)
		await(t, p.Err, "msg=ready")
		return p
	}
	first := serve()
	send(t, "PUT", "http://"+addr+"/api/deployments/shop", `{}`)
	waiter := start(t, "wait", "deployment", "shop", "--url", "http://"+addr)
	for asked := false; !asked; { // it has begun to
		body := send(t, "GET", "http://"+addr+"/metrics", "")
		asked = strings.Contains(body, "windsock_http_requests_in_flight 2")
	}
	first.Stop()
	first.exits(t, 0)
	serve()
	send(t, "POST", "http://"+addr+"/api/monitors/deployment/shop", `{"state":"START DETECTED"}`)
	await(t, waiter.Out, "deployment shop is running")
	waiter.exits(t, 0)
}

// send sends JSON and returns the answer.
func send(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got strings.Builder
	if err := resp.Write(&got); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %v", method, url, got.String(), err)
	}
	return got.String()
}
