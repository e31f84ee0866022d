package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// The whole service keeps to itself what monitors give it: here one that sends back all
// that it was sent, and takes nothing.
func TestKeysStayInTheService(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		r.Header.Write(w)
		io.WriteString(w, secret)
	}))
	defer echo.Close()
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "windsock.db"), "--log-level", "debug", "--log-format", "json")
	_, url, _ := strings.Cut(await(t, p.Err, `"msg":"ready"`), `"address":"`)
	url, _, _ = strings.Cut(url, `"`)
	call := func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode > 299 {
			t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, said, err)
		}
		return string(said)
	}
	_, port, _ := strings.Cut(echo.Listener.Addr().String(), ":")
	answers := []string{call("POST", "/api/monitors/add", `{"address":"127.0.0.1","port":`+port+`,
		"secret":"`+secret+`","bearer":"PLANTED-bearer","headers":{"X-Key":"PLANTED-header"}}`)}
	_, id, _ := strings.Cut(answers[0], `"monitor_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	call("PUT", "/api/deployments/shop", "{}")
	call("PUT", "/api/instances/web-1", `{"deployment_id":"shop"}`)
	call("POST", "/api/monitors/deployment/instance/web-1", `{"state":"FAIL DETECTED"}`)
	lines := []string{await(t, p.Err, "callback refused")}
	pong := call("POST", "/api/monitors/"+id+"/ping", "")
	if !strings.Contains(pong, `"taken":false,"status":500`) || !strings.Contains(pong, "Authorization: Bearer [hidden]") || !strings.Contains(pong, "X-Key: [hidden]") {
		t.Errorf("pinged: %s", pong)
	}
	made := call("POST", "/api/monitors/"+id+"/secret", "")
	_, other, _ := strings.Cut(made, `"secret":"whsec_`)
	other, _, _ = strings.Cut(other, `"`)
	tries := ""
	for !strings.Contains(tries, `"result":"refused"`) { // it is about to be saved
		tries = call("GET", "/api/monitors/"+id+"/deliveries", "")
	}
	answers = append(answers, pong, tries, call("POST", "/api/monitors/"+id+"/ping", ""),
		call("GET", "/api/monitors/"+id, ""), call("GET", "/api/monitors/list", ""), call("GET", "/api/events", ""), call("GET", "/metrics", ""))
	p.Stop()
	p.exits(t, 0)
	for _, text := range append(append(lines, all(p.Err)...), answers...) {
		for _, planted := range []string{"PLANTED", secret[6:], other} {
			if strings.Contains(text, planted) {
				t.Errorf("%s is shown: %s", planted, text)
			}
		}
	}
}
