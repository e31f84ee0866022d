package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The page takes nothing from the API, whatever its paths look like.
func TestPageStandsBesideTheAPI(t *testing.T) {
	h := withPage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Seen", r.URL.EscapedPath()) }))
	for path, seen := range map[string]string{
		"/": "", "/page/x": "", "/api/instances/a%2F..%2Fb": "/api/instances/a%2F..%2Fb", "/api//x": "/api//x", "/livez": "/livez", "/page": "/page",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got := w.Header().Get("Seen"); got != seen {
			t.Errorf("of GET %s the API sees %q, want %q", path, got, seen)
		}
	}
}
