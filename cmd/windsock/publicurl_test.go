package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPublicURLIsSetAndChecked(t *testing.T) {
	file, err := parseConfig("windsock.yaml", []byte("public_url: https://file.example.com\n"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, args ...string) {
		t.Helper()
		if got := parseServe(t, args...).options(file).PublicURL; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("https://file.example.com")
	t.Setenv("WINDSOCK_PUBLIC_URL", "https://env.example.com")
	check("https://env.example.com")
	check("https://flag.example.com", "--public-url", "https://flag.example.com")

	if _, err := parseConfig("windsock.yaml", []byte("listen: 127.0.0.1:0\npublic_url: windsock.example.com\n")); err == nil || !strings.Contains(err.Error(), "windsock.yaml:2: public_url") {
		t.Errorf("got %v", err)
	}
	var said bytes.Buffer
	if status := run(t.Context(), []string{"serve", "--public-url", "windsock.example.com"}, &said, &said); status != 1 || !strings.Contains(said.String(), "public_url: want a URL") {
		t.Errorf("got %d, %s", status, &said)
	}
}

// A public URL that leads elsewhere is warned of at the start; one that leads here is not.
func TestPublicURLThatLeadsElsewhere(t *testing.T) {
	other := httptest.NewServer(http.RedirectHandler("/somewhere", http.StatusFound))
	t.Cleanup(other.Close)
	serve := func(publicURL string) *program {
		return start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "windsock.db"), "--public-url", publicURL)
	}
	await(t, serve(other.URL).Err, "something else answers there, with status 302")
	await(t, serve("http://127.0.0.1:1").Err, "connection refused")

	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "windsock.db"))
	_, url, _ := strings.Cut(await(t, p.Err, "msg=ready"), "address=")
	url, _, _ = strings.Cut(url, " ")
	if err := reachesSelf(t.Context(), url+"/", "another"); err == nil || !strings.Contains(err.Error(), "status 405") {
		t.Errorf("another windsock is taken for oneself: %v", err)
	}
	resp, err := http.Post(url+"/api/deployments", "application/json", strings.NewReader(`{"id":"shop"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp, err = http.Get(url + "/api/events"); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events, err := io.ReadAll(resp.Body)
	id := regexp.MustCompile(`"evt_([^_"]+)_1"`).FindSubmatch(events)
	if err != nil || id == nil {
		t.Fatalf("got %s, %v", events, err)
	}
	if err := reachesSelf(t.Context(), url, string(id[1])); err != nil {
		t.Errorf("it does not know itself: %v", err)
	}
}
