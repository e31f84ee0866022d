package monitors

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// ready starts a Deliverer and returns once it can ping.
func ready(t *testing.T, l Log) *process {
	t.Helper()
	p := start(t, l, nil, ours)
	eventually(t, "a beat", func() bool { return !p.Beat().IsZero() })
	return p
}

func TestPing(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"result":"success"}`) })
	l := newLog()
	m := spec(r.URL)
	m.Path = "/hooks"
	l.add("m", m, newSecret)
	p := ready(t, l)
	before := p.delivery(t, "m")
	pong, err := p.Ping(t.Context(), "m")
	want(t, "error", err, nil)
	want(t, "what came back", []any{pong.Taken, pong.Status, pong.Class, pong.Error, pong.Answer}, []any{true, 200, "", "", `{"result":"success"}`})
	if pong.Duration <= 0 {
		t.Errorf("it took %d", pong.Duration)
	}
	got := r.await(t, 1)[0]
	want(t, "request", got.Method+" "+r.URL+got.URL.Path, "POST "+pong.URL)
	want(t, "path", got.URL.Path, "/hooks/api/ping")
	want(t, "type", got.Header.Get("Ce-Type"), "windsock.monitor.ping")
	want(t, "subject", got.Header.Get("Ce-Subject"), "monitor/m")
	want(t, "sequence", got.Header["Ce-Sequence"], nil)
	want(t, "id", got.Header.Get("Webhook-Id"), pong.WebhookID)
	want(t, "signed string", pong.SignedString, pong.WebhookID+"."+got.Header.Get("Webhook-Timestamp")+"."+string(got.body))
	want(t, "signature", got.Header.Get("Webhook-Signature"), pong.Signature)
	if !verifies(t, newSecret, got.Header, got.body) {
		t.Error("it does not verify")
	}
	var body map[string]any
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatal(err)
	}
	want(t, "body", []any{body["version"], body["type"], body["monitor_id"]}, []any{"1", "monitor.ping", "m"})
	want(t, "delivery", p.delivery(t, "m"), before)

	if _, err := p.Ping(t.Context(), "nobody"); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func TestPingThatFailsTouchesNothing(t *testing.T) {
	gone := newReceiver(t, nil)
	gone.Close()
	answers := map[string]struct {
		handler http.HandlerFunc
		want    windsock.Pong
	}{
		"500": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of order", 500) },
			windsock.Pong{Status: 500, Class: "status", Error: "HTTP 500: out of order ", Answer: "out of order "}},
		"a redirect": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/"); w.WriteHeader(302) },
			windsock.Pong{Status: 302, Class: "status", Error: "HTTP 302: redirects are not followed"}},
		"200 that says fail": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"result":"fail"}`) },
			windsock.Pong{Status: 200, Class: "refused", Error: `HTTP 200, but: {"result":"fail"}`, Answer: `{"result":"fail"}`}},
		"it breaks off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			windsock.Pong{Class: "connection", Error: "connection closed before the answer was complete"}},
		"nobody there": {nil, windsock.Pong{Class: "connect", Error: "connect: connection refused"}},
	}
	for name, tc := range answers {
		t.Run(name, func(t *testing.T) {
			l := newLog()
			if tc.handler == nil {
				l.add("m", spec(gone.URL), "")
			} else {
				l.add("m", spec(newReceiver(t, tc.handler).URL), "")
			}
			p := ready(t, l)
			got, err := p.Ping(t.Context(), "m")
			want(t, "error", err, nil)
			want(t, "what came back", windsock.Pong{Status: got.Status, Class: got.Class, Error: got.Error, Answer: got.Answer, Taken: got.Taken}, tc.want)
			d := p.delivery(t, "m")
			want(t, "attempts and error", []any{d.Attempts, d.LastError}, []any{0, ""})
		})
	}
}

func TestPingsAreBounded(t *testing.T) {
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	l := newLog()
	l.add("m", spec(r.URL), "")
	p := ready(t, l)
	var pings sync.WaitGroup
	for range maxPings {
		pings.Go(func() {
			if pong, err := p.Ping(t.Context(), "m"); err != nil || !pong.Taken {
				t.Errorf("got %+v, %v", pong, err)
			}
		})
	}
	r.await(t, maxPings)
	if _, err := p.Ping(t.Context(), "m"); !errors.Is(err, windsock.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	close(release)
	pings.Wait()
	if pong, err := p.Ping(t.Context(), "m"); err != nil || !pong.Taken {
		t.Errorf("after them: %+v, %v", pong, err)
	}
}

func TestPingEndsWithItsContext(t *testing.T) {
	came := make(chan struct{})
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) { close(came); <-req.Context().Done() })
	l := newLog()
	l.add("m", spec(r.URL), "")
	p := ready(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	pong, err := p.Ping(ctx, "m")
	if err != nil || pong.Taken || !strings.Contains(pong.Error, "cancel") {
		t.Errorf("got %+v, %v", pong, err)
	}
}

func TestPingBeforeCallbacksHaveBegun(t *testing.T) {
	if _, err := (&Deliverer{}).Ping(t.Context(), "m"); !errors.Is(err, windsock.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestPingWithASecretThatIsNoneSendsNothing(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	l.add("m", spec(r.URL), "whsec_not base64")
	pong, err := ready(t, l).Ping(t.Context(), "m")
	want(t, "error", err, nil)
	want(t, "class", pong.Class, "signature")
	want(t, "requests", len(r.all()), 0)
}

// roundTrip is a RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestPingGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.add("m", named("a"), "")
		p := start(t, l, roundTrip(hang))
		synctest.Wait()
		pong, err := p.Ping(t.Context(), "m")
		want(t, "error", err, nil)
		want(t, "what came back", []any{pong.Taken, pong.Class, pong.Error}, []any{false, "timeout", "timeout"})
		want(t, "duration", time.Duration(pong.Duration), pingTime)
	})
}

func TestClassOf(t *testing.T) {
	tests := map[string]struct {
		reply reply
		want  string
	}{
		"taken":             {reply{status: 200}, ""},
		"no such name":      {reply{failure: "dns: no such host"}, "dns"},
		"nobody accepts":    {reply{failure: "connect: timeout"}, "connect"},
		"its certificate":   {reply{failure: errCertificates.Error()}, "tls"},
		"no answer in time": {reply{failure: "timeout"}, "timeout"},
		"half in time":      {reply{failure: "HTTP 200, then timeout", status: 200, broken: true}, "timeout"},
		"half an answer":    {reply{failure: "HTTP 200, then connection reset by peer", status: 200, broken: true}, "connection"},
		"reset":             {reply{failure: "connection reset by peer"}, "connection"},
		"not found":         {reply{failure: "HTTP 404: tls: no", status: 404}, "status"},
		"it says fail":      {reply{failure: "HTTP 200, but: fail", status: 200}, "refused"},
	}
	for name, tc := range tests {
		if got := classOf(tc.reply); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
