package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/readyz" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		w.Write([]byte("disk\nfull"))
	}))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())

	for _, listen := range []string{"127.0.0.1:" + port, "0.0.0.0:" + port, ":" + port} {
		t.Setenv("WINDSOCK_LISTEN", listen)
		p := start(t, "healthcheck")
		await(t, p.Err, "is ready")
		p.exits(t, 0)
	}
	t.Setenv("WINDSOCK_LISTEN", "127.0.0.1:1") // nobody; the URL wins
	for _, c := range []struct {
		status, exit int
		want         string
	}{
		{200, 0, srv.URL + "/ is ready"},
		{503, 1, "/readyz answered 503 Service Unavailable disk full"},
		{302, 1, "answered 302 Found"},
		{204, 1, "answered 204 No Content"},
	} {
		status = c.status
		p := start(t, "healthcheck", "--url", srv.URL+"/")
		p.exits(t, c.exit)
		line := strings.Join(all(p.Err), "\n")
		if !strings.Contains(line, c.want) || strings.Contains(line, "\n") {
			t.Errorf("%d: said %q, want one line with %q", c.status, line, c.want)
		}
	}
	p := start(t, "healthcheck")
	await(t, p.Err, "not ready: ")
	p.exits(t, 1)
}

// all returns the lines of a program that has ended.
func all(from <-chan string) (found []string) {
	for line := range from {
		found = append(found, line)
	}
	return found
}

func TestReachable(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80":      "127.0.0.1:80",
		":80":               "127.0.0.1:80",
		"0.0.0.0:80":        "127.0.0.1:80",
		"[::]:80":           "[::1]:80",
		"[::1]:80":          "[::1]:80",
		"10.0.0.7:80":       "10.0.0.7:80",
		"windsock.local:80": "windsock.local:80",
	} {
		if got := reachable(addr); got != want {
			t.Errorf("who listens on %s is reached at %s, want %s", addr, got, want)
		}
	}
}
