package page_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"windsock/page"
)

var shown = page.New()

func get(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	shown.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var named = regexp.MustCompile(`"(/page/[0-9a-f]{16}/[a-z.]+)"`)

// assets are what the page names, each once.
func assets(t *testing.T) []string {
	t.Helper()
	var list []string
	seen := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(text(t, get(t, "GET", "/").Body), -1) {
		if !seen[m[1]] {
			list = append(list, m[1])
		}
		seen[m[1]] = true
	}
	if len(list) < 10 {
		t.Fatalf("the page names only %v", list)
	}
	return list
}

func TestPageIsSmallAndKept(t *testing.T) {
	bytes := 0
	for _, path := range append(assets(t), "/") {
		zipped := get(t, "GET", path, "Accept-Encoding", "gzip, br")
		body := text(t, zipped.Body)
		bytes += len(body)
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		plain := get(t, "GET", path)
		if text(t, z) != text(t, plain.Body) {
			t.Errorf("%s is another file when it is compressed", path)
		}
		if a, b := zipped.Header.Get("ETag"), plain.Header.Get("ETag"); a == b || a == "" {
			t.Errorf("%s has the entity tags %s and %s", path, a, b)
		}
		if again := get(t, "GET", path, "If-None-Match", plain.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s is sent again to one who has it: %s", path, again.Status)
		}
		cache := "public, max-age=31536000, immutable"
		if path == "/" {
			cache = "no-cache"
		}
		if got := plain.Header.Get("Cache-Control"); got != cache {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
	}
	t.Logf("%d bytes", bytes)
	if bytes > 150<<10 {
		t.Errorf("%d bytes are sent", bytes)
	}
}

func TestPageLoadsNothingFromElsewhere(t *testing.T) {
	for _, path := range append(assets(t), "/") {
		r := get(t, "GET", path)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", path, name, got, want)
			}
		}
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q, want %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: policy %q", path, policy)
		}
		body := strings.ReplaceAll(text(t, r.Body), "http://www.w3.org/2000/svg", "")
		if m := regexp.MustCompile(`https?://[a-z]|style="|\son\w+="|<script>|@import|url\(`).FindString(body); m != "" {
			t.Errorf("%s has %q", path, m)
		}
	}
}

// Whatever is shown is set as text: there is no other way in the scripts.
func TestScriptsMakeNoMarkup(t *testing.T) {
	scripts, err := filepath.Glob("static/*.js")
	if err != nil || len(scripts) < 10 {
		t.Fatal(scripts, err)
	}
	for _, name := range scripts {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|DOMParser`).Find(data); m != nil {
			t.Errorf("%s uses %s", name, m)
		}
		for _, m := range regexp.MustCompile(`from '([^']*)'`).FindAllSubmatch(data, -1) {
			if _, err := os.Stat(filepath.Join("static", string(m[1]))); err != nil {
				t.Errorf("%s imports %s: %v", name, m[1], err)
			}
		}
	}
}

func TestWhatThePageIsNot(t *testing.T) {
	for path, want := range map[string]bool{"/": true, "/page/x/main.js": true, "/api/events": false, "/livez": false, "/pages": false, "": false} {
		if page.Serves(path) != want {
			t.Errorf("%q is the page's: %t", path, !want)
		}
	}
	for request, status := range map[[2]string]int{
		{"GET", "/page/0000000000000000/main.js"}: 404, {"GET", "/page/../page.go"}: 404, {"GET", "/page/"}: 404,
		{"POST", "/"}: 405, {"HEAD", "/"}: 200, {"GET", "/?x=1"}: 200,
	} {
		if got := get(t, request[0], request[1]); got.StatusCode != status {
			t.Errorf("%v: %s, want %d", request, got.Status, status)
		}
	}
}
