package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/api"
)

const (
	workOfWeb1 = "/api/instances/web-1/components"
	bearerOfIt = "Bearer " + agentToken
)

func TestAnInstanceIsToldWhatToRun(t *testing.T) {
	s, sw := withSoftware(t)
	a := s.call("POST", "/api/instances/web-1/token", "").want(201).has(map[string]any{"instance_id": "web-1", "token": agentToken})
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("a token may be kept: %q", got)
	}
	s.call("POST", "/api/instances/web-9/token", "").refused(404, "not-found", "id")

	for _, header := range []string{"", "Bearer", "Bearer  ", "Basic " + agentToken, "Bearer wsi_other", agentToken} {
		a := s.call("GET", workOfWeb1, "", "Authorization", header).refused(401, "unauthorized", "Authorization")
		if a.header.Get("WWW-Authenticate") != `Bearer realm="windsock"` {
			t.Errorf("%q: %v", header, a.header)
		}
	}
	a = s.call("GET", workOfWeb1, "", "Authorization", "bearer "+agentToken).want(200)
	tag := a.header.Get("ETag")
	if a.header.Get("Cache-Control") != "no-store" || tag == "" {
		t.Errorf("%v", a.header)
	}
	if want := `"signal_url":"` + s.http.URL + "/api/signal/" + dbToken + `"`; !strings.Contains(string(a.body), want) {
		t.Errorf("got %s, want %s", a.body, want)
	}
	if b := s.call("GET", workOfWeb1, "", "Authorization", bearerOfIt, "If-None-Match", tag).want(304); b.header.Get("ETag") != tag || len(b.body) > 0 {
		t.Errorf("%v %s", b.header, b.body)
	}
	sw.move()
	if b := s.call("GET", workOfWeb1+"?wait=60s", "", "Authorization", bearerOfIt, "If-None-Match", tag).want(200); b.header.Get("ETag") == tag {
		t.Errorf("%v %s", b.header, b.body)
	}
	s.call("GET", workOfWeb1+"?wait=61s", "", "Authorization", bearerOfIt).refused(400, "invalid", "wait")
}

// working is the API with that software, without a connection.
func working(sw api.Software, changes ...func(*api.Server)) http.Handler {
	return handler(quiet{}, append(changes, func(srv *api.Server) { srv.Software = sw })...)
}

func askForWork(h http.Handler, tag, host string, ctx context.Context) *httptest.ResponseRecorder {
	req := httptest.NewRequest("GET", workOfWeb1+"?wait=30s", nil).WithContext(ctx)
	req.Header.Set("Authorization", bearerOfIt)
	req.Header.Set("If-None-Match", tag)
	req.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestOneWhoHasAllWaitsForMore(t *testing.T) {
	const tag = `"1-"`
	for name, c := range map[string]struct {
		tag    string
		then   func(*software) // after ten seconds
		status int
		after  time.Duration
	}{
		"one who has nothing is told at once": {"", nil, 200, 0},
		"as is one who has something else":    {`"0-"`, nil, 200, 0},
		"nothing comes":                       {tag, nil, 304, 30 * time.Second},
		"something comes":                     {tag, (*software).move, 200, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sw, start := newSoftware(), time.Now()
				if c.then != nil {
					time.AfterFunc(10*time.Second, func() { c.then(sw) })
				}
				w := askForWork(working(sw), c.tag, "windsock.example", t.Context())
				if got := time.Since(start); w.Code != c.status || got != c.after {
					t.Errorf("got %d after %v: %s", w.Code, got, w.Body)
				}
				if c.status == 304 && len(sw.bases) > 0 {
					t.Error("components were read for one who has them")
				}
			})
		})
	}
}

func TestWaitingForWorkEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		start := time.Now()
		w := askForWork(working(newSoftware(), func(srv *api.Server) { srv.Stop = stop }), `"1-"`, "windsock.example", t.Context())
		if got := time.Since(start); w.Code != 304 || got != 10*time.Second {
			t.Errorf("got %d after %v: %s", w.Code, got, w.Body)
		}
	})
}

// A token that was replaced meanwhile is no good any more.
func TestWaitingForWorkWithATokenThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := &revoking{software: newSoftware()}
		time.AfterFunc(10*time.Second, sw.move)
		if w := askForWork(working(sw), `"1-"`, "windsock.example", t.Context()); w.Code != 401 {
			t.Errorf("got %d: %s", w.Code, w.Body)
		}
	})
}

// revoking knows the token once.
type revoking struct {
	*software
	asked int
}

func (r *revoking) Work(ctx context.Context, id string, token windsock.Secret, base string) (windsock.Work, error) {
	if r.asked++; r.asked > 1 {
		return windsock.Work{}, windsock.ErrUnauthorized
	}
	return r.software.Work(ctx, id, token, base)
}

func (r *revoking) WorkRevision(ctx context.Context, id string, token windsock.Secret) (windsock.Work, error) {
	if r.asked++; r.asked > 1 {
		return windsock.Work{}, windsock.ErrUnauthorized
	}
	return r.software.WorkRevision(ctx, id, token)
}

func TestWhereToSignal(t *testing.T) {
	for name, c := range map[string]struct{ public, host, base string }{
		"where it came to":    {"", "windsock.example:8080", "http://windsock.example:8080"},
		"an address":          {"", "[::1]:8080", "http://[::1]:8080"},
		"where it is told":    {"https://ws.example.com", "10.0.0.1:8080", "https://ws.example.com"},
		"below a path":        {"https://ws.example.com/ws/", "10.0.0.1:8080", "https://ws.example.com/ws"},
		"no host":             {"", "", ""},
		"a host with a path":  {"", "a/b", ""},
		"a host with a user":  {"", "a@b", ""},
		"a host with a query": {"", "a?b", ""},
		"a port that is none": {"", "a:99999", ""},
		"a host with a quote": {"", "a\"b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sw := newSoftware()
			w := askForWork(working(sw, func(srv *api.Server) { srv.PublicURL = c.public }), "", c.host, t.Context())
			if c.base == "" {
				if w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"Host"`) {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				return
			}
			if w.Code != 200 || sw.bases[0] != c.base {
				t.Errorf("got %d %s, %q", w.Code, w.Body, sw.bases)
			}
		})
	}
}

func TestSignals(t *testing.T) {
	s, sw := withSoftware(t)
	for _, method := range []string{"POST", "PUT"} {
		s.call(method, "/api/signal/"+dbToken, `{"status":"FAILURE","reason":"disk full"}`, "Content-Type", formType).want(200).
			has(map[string]any{"deployment_id": "shop", "component": "a.db", "state": "complete", "changed": true})
	}
	if got := sw.signals[1]; got.Status != windsock.SignalFailure || got.Reason != "disk full" {
		t.Errorf("got %+v", got)
	}
	s.call("POST", "/api/signal/"+dbToken, "").want(200)
	s.call("POST", "/api/signal/"+dbToken, "", "Content-Type", formType).want(200)
	s.call("POST", "/api/signal/"+dbToken, strings.Repeat("x", 2<<20), "Content-Type", "text/plain").want(200)
	late := s.call("POST", "/api/signal/"+lateToken, `{}`).refused(409, "over", "token")
	late.has(map[string]any{"deployment_id": "shop", "component": "a.db", "state": "complete"})
	s.call("POST", "/api/signal/wss_forged", `{}`).refused(404, "not-found", "token")
	s.call("POST", "/api/signal/"+dbToken, `{"status":"done"}`).refused(400, "invalid", "status")
	s.call("POST", "/api/signal/"+dbToken, `FAILURE`, "Content-Type", formType).refused(400, "invalid", "body")
	s.call("POST", "/api/signal/"+dbToken, strings.Repeat("x", 16<<20+1), "Content-Type", "text/plain").refused(413, "too-large", "body").
		has(map[string]any{"limit": 16777216.0, "detail": "the body is larger than 16 MiB"})
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		if a := s.call(method, "/api/signal/"+dbToken, "").want(405); a.header.Get("Allow") != "POST, PUT" {
			t.Errorf("%s: %v", method, a.header)
		}
	}
}

// A few large bodies are read at a time; the small ones are not held up by them.
func TestLargeBodiesWaitForOneAnother(t *testing.T) {
	for path, taken := range map[string]int{"/api/signal/" + dbToken: 200, "/api/deployables": 400} { // which has no template
		synctest.Test(t, func(t *testing.T) {
			h := working(newSoftware())
			send := func(body *slow) *httptest.ResponseRecorder {
				req := httptest.NewRequest("POST", path, body)
				req.ContentLength = body.size
				req.Header.Set("Content-Type", jsonType)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				return w
			}
			for range 8 {
				go send(&slow{2 << 20, 15 * time.Second})
			}
			synctest.Wait()
			start := time.Now()
			if w := send(&slow{size: 2}); w.Code != taken || time.Since(start) != 0 {
				t.Errorf("%s, small: got %d after %v", path, w.Code, time.Since(start))
			}
			if w := send(&slow{size: 2 << 20}); w.Code != 503 || w.Header().Get("Retry-After") == "" || time.Since(start) != 10*time.Second {
				t.Errorf("%s, large: got %d after %v", path, w.Code, time.Since(start))
			}
			if w := send(&slow{size: 2 << 20}); w.Code != taken || time.Since(start) != 15*time.Second {
				t.Errorf("%s, large: got %d after %v", path, w.Code, time.Since(start))
			}
		})
	}
}

// slow is an empty object that is a while on its way, and claims a size.
type slow struct {
	size int64
	time time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.time)
	return copy(p, "{}"), io.EOF
}

// Tokens and the URLs with them are seen by nobody but who is to have them.
func TestTokensAreNotShown(t *testing.T) {
	s, sw := withSoftware(t)
	sw.fails = errors.New("out of order")
	answers := new(bytes.Buffer)
	for _, a := range []answer{
		s.call("POST", "/api/signal/"+dbToken, `{}`).refused(500, "internal", ""),
		s.call("POST", "/api/signal/"+dbToken, `[`).want(400),
		s.call("POST", "/api/signal/"+lateToken, `{}`).want(409),
		s.call("POST", "/api/signal/wss_forged", `{}`).want(404),
		s.call("GET", "/api/signal/"+dbToken, ``).want(405),
		s.call("POST", "/api/signal/"+dbToken+"/x", ``).want(404),
		s.call("POST", "/api/signal/"+dbToken+"?x=1", ``).want(400),
		s.call("GET", workOfWeb1, "", "Authorization", bearerOfIt).refused(500, "internal", ""),
		s.call("GET", workOfWeb1, "", "Authorization", "Basic "+agentToken).want(401),
		s.call("GET", "/metrics", "").want(200),
	} {
		answers.Write(a.body)
	}
	for _, text := range []string{answers.String(), s.logged.String()} {
		for _, secret := range []string{dbToken, lateToken, "wss_forged", agentToken} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is shown in %s", secret, text)
			}
		}
	}
	if !strings.Contains(s.logged.String(), "path=/api/signal/…") {
		t.Errorf("the failure is not logged: %s", s.logged)
	}
}
