package main

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestEdgeSettings(t *testing.T) {
	file, err := LoadConfig(writeConfig(t, `
rate_limit: 50
trusted_proxies: [10.0.0.0/8, "::1"]
cors_origins: ["https://file.example.com"]
`))
	if err != nil {
		t.Fatal(err)
	}
	check := func(file Config, want string, args ...string) {
		t.Helper()
		e := parseServe(t, args...).options(file).Edge
		if got := fmt.Sprint(e.RateLimit, e.proxies(), e.CORSOrigins); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check(Config{}, "1000 [] []")
	check(file, "50 [10.0.0.0/8 ::1/128] [https://file.example.com]")
	t.Setenv("WINDSOCK_CORS_ORIGIN", "https://a.example.com,https://b.example.com")
	t.Setenv("WINDSOCK_TRUSTED_PROXY", "192.0.2.1")
	t.Setenv("WINDSOCK_RATE_LIMIT", "70")
	check(file, "70 [192.0.2.1/32] [https://a.example.com https://b.example.com]")
	check(file, "80 [192.0.2.0/24 192.0.2.7/32] [https://c.example.com]",
		"--rate-limit", "80", "--trusted-proxy", "192.0.2.0/24", "--trusted-proxy", "192.0.2.7", "--cors-origin", "https://c.example.com")
}

func TestEdgeSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rate_limit: -1":                             ":1: rate_limit: want 1 to",
		"rate_limit: 1000001":                        ":1: rate_limit: want 1 to",
		"trusted_proxies: [10.0.0.0]\nx: 1":          ":2: x: there is no such field",
		"trusted_proxies: [10.0.0.1/8]":              "want a network such as",
		"trusted_proxies: [proxy.example.com]":       "want a network such as",
		"trusted_proxies: [\"::ffff:10.0.0.0/104\"]": "want a network such as",
		"cors_origins: [\"*\"]":                      ":1: cors_origins: want an origin",
	} {
		if _, err := LoadConfig(writeConfig(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for flag, want := range map[string]string{"--rate-limit=-1": "rate_limit: want 1 to", "--cors-origin=null": "cors_origins: want an origin"} {
		err := parseServe(t, flag).Run(t.Context(), stdio{io.Discard, io.Discard})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
}

// A guess by a trusted proxy on loopback is one of the address that it names; the others
// are as they were, and so is loopback itself.
func TestServeIsLimited(t *testing.T) {
	t.Parallel()
	edge := EdgeConfig{1, []Network{{netip.MustParsePrefix("127.0.0.1/32")}}, []string{"https://ops.example.com"}}
	base := "http://" + serveWith(t, ServeOptions{Edge: edge})
	ask := func(address string) *http.Response {
		t.Helper()
		resp, _ := call(t, http.DefaultClient, "GET", base+"/api/pools", "", "X-Forwarded-For", address, "Origin", "https://ops.example.com")
		return resp
	}
	resp := ask("192.0.2.1")
	for end := time.Now().Add(patience); resp.StatusCode == http.StatusOK && time.Now().Before(end); {
		resp = ask("192.0.2.1") // some more are let in each second
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Access-Control-Allow-Origin") == "" || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %s", resp.Status, resp.Header)
	}
	if resp := ask("192.0.2.2"); resp.StatusCode != http.StatusOK {
		t.Errorf("another: %s", resp.Status)
	}
	_, metrics := call(t, http.DefaultClient, "GET", base+"/metrics", "")
	if want := `windsock_http_requests_limited_total{limit="address"} `; !strings.Contains(metrics, want) {
		t.Errorf("the metrics do not have %s", want)
	}
}
