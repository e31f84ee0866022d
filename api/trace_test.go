package api_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"windsock"
	"windsock/api"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A request is a span that shows its route and its status, and nothing of what was sent. What
// is asked again and again by those who watch over us is none.
func TestARequestIsASpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	s := open(t, func(srv *api.Server) {
		srv.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
	})
	s.call("GET", "/livez", "").want(200)
	s.call("GET", "/metrics", "").want(200)
	s.call("GET", "/api/instances/web-1?await=SECRET", "", "Traceparent", traceparent).want(400)
	s.call("POST", "/api/monitors/deployment/instance/web-1", `{"state": "FAIL DETECTED", "reason": "SECRET"}`, "Traceparent", traceparent).want(200)
	eventually(t, "the spans have ended", func() bool { return len(spans.Ended()) == 3 })
	var shown []string
	for _, span := range spans.Ended() {
		line := span.Name()
		for _, a := range span.Attributes() {
			line += " " + string(a.Key) + "=" + a.Value.String()
		}
		if span.Parent().SpanID().String() != traceparent[36:52] && span.Name() != "commit" {
			t.Errorf("%s: its parent is %v", line, span.Parent())
		}
		shown = append(shown, line)
	}
	slices.Sort(shown)
	if diff := cmp.Diff([]string{
		"GET /api/instances/{id} http.request.method=GET http.route=/api/instances/{id} http.response.status_code=400",
		"POST /api/monitors/deployment/instance/{id} http.request.method=POST http.route=/api/monitors/deployment/instance/{id} http.response.status_code=200",
		"commit windsock.commit.writes=1 windsock.event.seq=5",
	}, shown); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// A trace that a request names is that of the events, and the example of how long it took,
// also where nobody is shown spans.
func TestARequestIsInTheTraceThatItNames(t *testing.T) {
	s := open(t)
	s.call("POST", "/api/monitors/deployment/instance/web-1", `{"state": "FAIL DETECTED"}`, "Traceparent", traceparent, "Tracestate", "vendor=1").want(200)
	s.call("POST", "/api/monitors/deployment/instance/web-2", `{"state": "FAIL DETECTED"}`, "Traceparent", strings.ToUpper(traceparent)).want(200)
	events, err := s.store.Events(t.Context(), 0, 100, windsock.EventFilter{Word: windsock.FailDetected, Kind: windsock.KindInstance})
	if err != nil || len(events) != 2 {
		t.Fatal(events, err)
	}
	for i, want := range []windsock.Trace{{TraceParent: traceparent, TraceState: "vendor=1"}, {}} {
		if events[i].Trace != want {
			t.Errorf("%s is in %+v, want %+v", events[i].SubjectID, events[i].Trace, want)
		}
	}
	examples := func(accept string) (n int, kind string) {
		got := s.call("GET", "/metrics", "", "Accept", accept).want(http.StatusOK)
		return len(example.FindAll(got.body, -1)), got.header.Get("Content-Type")
	}
	eventually(t, "there is an example", func() bool {
		n, kind := examples("application/openmetrics-text; version=1.0.0")
		return n == 1 && strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0")
	})
	if n, kind := examples(""); n != 0 || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("to who asks for nothing %d examples are shown as %s", n, kind)
	}
}

var example = regexp.MustCompile(`windsock_http_request_duration_seconds_bucket\{.*# \{trace_id="4bf92f3577b34da6a3ce929d0e0e4736"\}`)
