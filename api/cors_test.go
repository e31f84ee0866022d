package api_test

import (
	"net/http"
	"strings"
	"testing"

	"windsock/api"
)

const page = "https://ops.example.com"

func TestPagesOfOtherOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		origins []string // that are let in
		method  string
		headers []string
		status  int
		allowed string
	}{
		"none is let in by default":         {nil, "OPTIONS", []string{"Origin", page, "Access-Control-Request-Method", "POST"}, 405, ""},
		"nor may its scripts read":          {nil, "GET", []string{"Origin", page}, 200, ""},
		"nor write":                         {nil, "POST", []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, 403, ""},
		"one that is asks first":            {[]string{"https://a.example.com", page}, "OPTIONS", []string{"Origin", page, "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "authorization,content-type,if-match"}, 204, page},
		"it may not send any header":        {[]string{page}, "OPTIONS", []string{"Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-custom"}, 204, ""},
		"nor by any method":                 {[]string{page}, "OPTIONS", []string{"Origin", page, "Access-Control-Request-Method", "TRACE"}, 204, ""},
		"it reads":                          {[]string{page}, "GET", []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, 200, page},
		"and writes":                        {[]string{page}, "POST", []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, 400, page},
		"another asks in vain":              {[]string{page}, "OPTIONS", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 204, ""},
		"one of another scheme does":        {[]string{page}, "GET", []string{"Origin", "http://ops.example.com"}, 200, ""},
		"and one of another port":           {[]string{page}, "POST", []string{"Origin", page + ":8443", "Sec-Fetch-Site", "same-site"}, 403, ""},
		"one that only ends like it":        {[]string{page}, "POST", []string{"Origin", "https://evil-ops.example.com", "Sec-Fetch-Site", "cross-site"}, 403, ""},
		"who is no page needs none of this": {[]string{page}, "POST", nil, 400, ""},
	} {
		h := handler(nothing{}, func(s *api.Server) { s.Origins = c.origins })
		path := "/api/deployments"
		if c.method == "OPTIONS" {
			path += "/shop"
		}
		w := fromTo(h, "192.0.2.1", c.method, path, append(c.headers, "Content-Type", "application/json")...)
		got := w.Header()
		if w.Code != c.status || got.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%s: %d %s\n%s", name, w.Code, got, w.Body)
		}
		if got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: what the browser has of its own is let in", name)
		}
		if c.origins != nil && !strings.Contains(strings.Join(got.Values("Vary"), ","), "Origin") {
			t.Errorf("%s: a cache may keep the answer for others: Vary: %s", name, got.Values("Vary"))
		}
		if exposed := got.Get("Access-Control-Expose-Headers"); c.allowed != "" && c.method != "OPTIONS" && !strings.Contains(strings.ToLower(exposed), "etag") {
			t.Errorf("%s: scripts do not see the ETag: %s", name, exposed)
		}
	}
}

func TestARefusalIsReadByPagesToo(t *testing.T) {
	h := limited(func(s *api.Server) { s.Origins, s.Verifiers = []string{page}, []api.Verifier{byRole()} })
	for status, headers := range map[int][]string{http.StatusUnauthorized: {"Origin", page}, http.StatusOK: append(bearing("read"), "Origin", page)} {
		w := from(h, "192.0.2.1", headers...)
		if w.Code != status || w.Header().Get("Access-Control-Allow-Origin") != page || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "Ratelimit") {
			t.Errorf("%d: %d %s", status, w.Code, w.Header())
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, good := range []string{page, "http://127.0.0.1:3000", "http://localhost", "https://[2001:db8::1]:8443"} {
		if err := api.CheckOrigin("cors_origins", good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
		handler(quiet{}, func(s *api.Server) { s.Origins = []string{good} })
	}
	for _, bad := range []string{"", "*", "null", "ops.example.com", page + "/", page + "/x", "https://*.example.com", "https://", "ftp://a", "https://u:p@a", "HTTPS://a", "https://A"} {
		if api.CheckOrigin("cors_origins", bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
