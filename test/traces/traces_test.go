// Package traces follows a detection through the real program: from the request, over the
// commit, to the callback.
package traces

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"windsock/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID      = "00f067aa0ba902b7"
	traceparent = "00-" + traceID + "-" + spanID + "-01"
)

// A backend takes spans, as those do that OpenTelemetry sends them to.
type backend struct {
	*httptest.Server

	mu    sync.Mutex
	away  bool
	spans []*otlp.Span
	text  string // of all that was sent
}

func receive(t *testing.T) *backend {
	b := &backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent collector.ExportTraceServiceRequest
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		data, err := io.ReadAll(body)
		if err == nil {
			err = proto.Unmarshal(data, &sent)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case err != nil || r.URL.Path != "/v1/traces":
			t.Errorf("%s: %v", r.URL, err)
		case b.away:
			w.WriteHeader(http.StatusForbidden)
			return
		}
		b.text += sent.String()
		for _, of := range sent.ResourceSpans {
			for _, by := range of.ScopeSpans {
				b.spans = append(b.spans, by.Spans...)
			}
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// await returns the first span with a name, of a trace.
func (b *backend) await(t *testing.T, name, trace string) (found *otlp.Span) {
	t.Helper()
	program.Eventually(t, "a span of "+name, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.spans {
			if found == nil && s.Name == name && hex.EncodeToString(s.TraceId) == trace {
				found = s
			}
		}
		return found != nil
	})
	return found
}

func (b *backend) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// seen returns all that was sent, as text.
func (b *backend) seen() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text
}

// serve starts windsock, with the deployment shop and a monitor whose callbacks it returns.
func serve(t *testing.T) (*program.Server, <-chan http.Header) {
	t.Helper()
	s := program.Serve(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "w.db"))
	callbacks := make(chan http.Header, 100)
	monitor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { callbacks <- r.Header }))
	t.Cleanup(monitor.Close)
	host, port, err := net.SplitHostPort(monitor.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "PUT", "/api/deployments/shop", map[string]any{"flap": "off"}, nil, 201)
	s.Must(t, "PUT", "/api/instances/web-1", map[string]any{"deployment_id": "shop"}, nil, 201)
	s.Must(t, "POST", "/api/monitors/add", map[string]any{
		"address": host, "port": json.Number(port), "path": "/SECRET-path", "subjects": "instances",
		"secret": "whsec_U0VDUkVULWtleS1vZi0yNC1ieXRlcyEh", "bearer": "SECRET-bearer", "headers": map[string]string{"X-Key": "SECRET-header"},
	}, nil, 201)
	return s, callbacks
}

// post reports that web-1 fails or runs, in a trace.
func post(t *testing.T, s *program.Server, word, traceparent string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.Addr+"/api/monitors/deployment/instance/web-1",
		strings.NewReader(fmt.Sprintf(`{"state": %q, "source": "test", "reason": "SECRET-reason"}`, word)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer SECRET-token"}, "Baggage": {"user=SECRET-baggage"}}
	req.Header.Set("Traceparent", traceparent)
	req.Header.Set("Tracestate", "vendor=1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s %v", resp.Status, answer, err)
	}
}

// From the request to the callback it is one trace, whose secrets stay with us.
func TestFromARequestToItsCallback(t *testing.T) {
	b := receive(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", b.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	s, callbacks := serve(t)
	post(t, s, "FAIL DETECTED", traceparent)
	header := <-callbacks

	request := b.await(t, "POST /api/monitors/deployment/instance/{id}", traceID)
	commit := b.await(t, "commit", traceID)
	callback := b.await(t, "callback", traceID)
	for _, tc := range []struct {
		span   *otlp.Span
		parent string
	}{{request, spanID}, {commit, hex.EncodeToString(request.SpanId)}, {callback, hex.EncodeToString(commit.SpanId)}} {
		if got := hex.EncodeToString(tc.span.ParentSpanId); got != tc.parent {
			t.Errorf("the parent of %v is %s, want %s", tc.span, got, tc.parent)
		}
	}
	if got, want := header.Get("Traceparent"), "00-"+traceID+"-"+hex.EncodeToString(callback.SpanId)+"-01"; got != want {
		t.Errorf("the callback names %s, want %s", got, want)
	}
	if got, want := header.Get("Ce-Traceparent"), "00-"+traceID+"-"+hex.EncodeToString(commit.SpanId)+"-01"; got != want {
		t.Errorf("the event is in %s, want %s", got, want)
	}
	if header.Get("Tracestate") != "vendor=1" || header.Get("Baggage") != "" {
		t.Errorf("the callback has %v", header)
	}
	if seen := b.seen(); strings.Contains(seen, "SECRET") || strings.Contains(seen, "U0VDUkVU") || !strings.Contains(seen, `string_value:"windsock"`) {
		t.Errorf("spans show %s", seen)
	}
	for _, name := range []string{"http_request_duration", "commit_duration", "delivery_duration", "delivery_latency"} {
		program.Eventually(t, "an example of "+name, func() bool { return examples(t, s, name) > 0 })
	}

	post(t, s, "START DETECTED", strings.Replace(traceparent, "-01", "-00", 1))
	if got := (<-callbacks).Get("Traceparent"); !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-00") || strings.Contains(got, spanID) {
		t.Errorf("of what nobody is to keep the callback names %s", got)
	}
}

// examples counts those that a histogram has of the trace.
func examples(t *testing.T, s *program.Server, name string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return len(regexp.MustCompile(`(?m)^windsock_`+name+`_seconds_bucket.*# \{trace_id="`+traceID+`"\}`).FindAll(text, -1))
}

// A backend that is away is said once, and holds up nothing.
func TestABackendThatIsAway(t *testing.T) {
	b := receive(t)
	b.setAway(true)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", b.URL+"/v1/traces")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	s, callbacks := serve(t)
	s.Until(t, regexp.MustCompile(`traces cannot be exported.*(403)`))
	words := []string{"FAIL DETECTED", "START DETECTED"}
	for i := range 10 {
		post(t, s, words[i%2], traceparent)
		<-callbacks
	}
	b.setAway(false)
	program.Eventually(t, "they are exported again", func() bool {
		post(t, s, "STOP DETECTED", traceparent)
		return strings.Contains(s.Logged(), "traces are exported again")
	})
	if n := strings.Count(s.Logged(), "traces cannot be exported"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, s.Logged())
	}
}

// Without a backend a trace is passed on as it is, and nothing is sent; so it is where
// OpenTelemetry is switched off.
func TestWithoutABackendATraceIsPassedOn(t *testing.T) {
	b := receive(t)
	for name, env := range map[string]map[string]string{
		"none":         {},
		"switched off": {"OTEL_EXPORTER_OTLP_ENDPOINT": b.URL, "OTEL_SDK_DISABLED": "true", "OTEL_BSP_SCHEDULE_DELAY": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range env {
				t.Setenv(k, v)
			}
			s, callbacks := serve(t)
			post(t, s, "FAIL DETECTED", traceparent)
			if got := <-callbacks; got.Get("Traceparent") != traceparent || got.Get("Tracestate") != "vendor=1" || got.Get("Ce-Traceparent") != traceparent {
				t.Errorf("the callback has %v", got)
			}
			post(t, s, "START DETECTED", traceparent+"-0")
			if got := <-callbacks; got.Get("Traceparent") != "" {
				t.Errorf("by a request that names no trace the callback has %v", got)
			}
			s.Interrupt()
			if got := b.seen(); got != "" {
				t.Errorf("sent %s", got)
			}
		})
	}
}
