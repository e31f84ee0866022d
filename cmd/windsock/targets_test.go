package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"windsock/monitors"
)

func targets(t *testing.T, text string) (all monitors.Targets) {
	t.Helper()
	file, err := LoadConfig(writeConfig(t, "targets: "+text))
	if err != nil {
		t.Fatal(err)
	}
	return file.Targets
}

func TestTargetsByFlagEnvironmentAndFile(t *testing.T) {
	file := Config{Targets: targets(t, `{profile: strict, allow: ["10.0.0.0/8:9090", "fd00::/8:443"], deny: [8.8.8.0/24]}`)}
	if n := len(file.Targets.Allow) + len(file.Targets.Deny); n != 3 || file.Targets.Profile != monitors.Strict {
		t.Fatalf("the file is read as %+v", file.Targets)
	}
	check := func(want string, args ...string) {
		t.Helper()
		if got := parseServe(t, args...).options(file).Targets; !reflect.DeepEqual(got, targets(t, want)) {
			t.Errorf("%s: got %+v, want %s", args, got, want)
		}
	}
	if got := parseServe(t).options(Config{}).Targets; !reflect.DeepEqual(got, monitors.Targets{}) {
		t.Errorf("nothing said: %+v", got)
	}
	check(`{profile: strict, allow: ["10.0.0.0/8:9090", "fd00::/8:443"], deny: [8.8.8.0/24]}`)
	check(`{profile: internal, allow: [10.1.0.0/16, "::1/128"], deny: ["0.0.0.0/0:22"]}`,
		"--targets", "internal", "--allow-target", "10.1.0.0/16", "--allow-target", "::1/128", "--deny-target", "0.0.0.0/0:22")
	t.Setenv("WINDSOCK_TARGETS", "internal")
	t.Setenv("WINDSOCK_ALLOW_TARGET", "10.2.0.0/16,10.3.0.0/16")
	t.Setenv("WINDSOCK_DENY_TARGET", "10.2.9.0/24:80")
	check(`{profile: internal, allow: [10.2.0.0/16, 10.3.0.0/16], deny: ["10.2.9.0/24:80"]}`)
	check(`{profile: strict, allow: [10.2.0.0/16, 10.3.0.0/16], deny: ["10.2.9.0/24:80"]}`, "--targets", "strict")
}

// TestWhoIsNotCalledBack runs the whole service on loopback: a monitor there is called,
// one at the service's own address is not, and a callback that finds its way back is
// refused.
func TestWhoIsNotCalledBack(t *testing.T) {
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "windsock.db"), "--deny-target", "127.0.0.3/32")
	_, base, _ := strings.Cut(await(t, p.Err, "msg=ready"), "address=")
	base, _, _ = strings.Cut(base, " ")
	api, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan string, 10)
	monitor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.Header.Get("Windsock-Id") }))
	defer monitor.Close()
	relay := httptest.NewServer(httputil.NewSingleHostReverseProxy(api))
	defer relay.Close()
	send := func(method, path, body string) (said struct {
		Monitors []struct {
			Name     string `json:"name"`
			Delivery struct {
				LastError string `json:"last_error"`
			} `json:"delivery"`
		} `json:"monitors"`
	}) {
		t.Helper()
		req, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer bytes.Buffer
		answer.ReadFrom(resp.Body)
		if resp.StatusCode >= 300 {
			t.Fatalf("%s %s: HTTP %d: %s", method, path, resp.StatusCode, &answer)
		}
		json.Unmarshal(answer.Bytes(), &said)
		return said
	}
	add := func(name, address, port string) {
		t.Helper()
		send("POST", "/api/monitors/add", fmt.Sprintf(`{"name": %q, "address": %q, "port": %s}`, name, address, port))
	}
	at := func(s *httptest.Server) string { return s.URL[strings.LastIndexByte(s.URL, ':')+1:] }
	add("monitor", "127.0.0.1", at(monitor))
	add("ourselves", "127.0.0.1", api.Port())
	add("ourselves by name", "localhost", api.Port())
	add("relay", "127.0.0.1", at(relay))
	add("denied", "127.0.0.3", at(monitor))
	send("PUT", "/api/deployments/shop", "{}")
	send("POST", "/api/monitors/deployment/shop", `{"state": "FAIL DETECTED"}`)

	if id := <-called; id == "" {
		t.Error("the callback does not say who sends it")
	}
	want := map[string]string{
		"monitor":           "",
		"ourselves":         "blocked_address: our own API",
		"ourselves by name": "blocked_address: our own API",
		"relay":             "HTTP 508: ",
		"denied":            "blocked_address: denied by the settings",
	}
	got := map[string]string{}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for failed, deadline := 0, time.After(patience); failed < len(want)-1; {
		failed = 0
		for _, m := range send("GET", "/api/monitors/list", "").Monitors {
			if got[m.Name] = m.Delivery.LastError; got[m.Name] != "" {
				failed++
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still waiting for every failure: %q", got)
		}
	}
	for name, why := range want {
		if !strings.HasPrefix(got[name], why) || why == "" && got[name] != "" {
			t.Errorf("%s: last error %q, want %q", name, got[name], why)
		}
	}
	if !strings.Contains(got["relay"], "/problems/loop") {
		t.Errorf("relay: last error %q does not name the problem", got["relay"])
	}
}
