package monitors

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"windsock"
	"windsock/tracing"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// requested is an event that a request caused, which named a trace.
func requested(id string) windsock.Event {
	e := change(id, windsock.Failed)
	e.Trace = windsock.Trace{TraceParent: traceparent, TraceState: "vendor=1"}
	return e
}

// callbacks returns the requests by which a monitor with a format is told of events.
func callbacks(t *testing.T, f windsock.Format, spans *tracetest.SpanRecorder, events ...windsock.Event) []received {
	t.Helper()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	l := newLog()
	m := spec(r.URL)
	m.Format, m.Parallel = f, 1
	l.add("m", m, newSecret)
	l.append(events...)
	p := start(t, l, nil, ours, func(d *Deliverer) {
		if spans != nil {
			d.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer(tracing.Scope)
		}
	})
	eventually(t, "all is told", func() bool { d, _ := p.Delivery("m"); return d.Backlog == 0 && !d.SuccessAt.IsZero() })
	return r.all()
}

// Where nobody is shown spans a callback names the trace as it was given; where no trace was
// given it names none.
func TestATraceIsPassedOn(t *testing.T) {
	for _, f := range []windsock.Format{windsock.Seed, windsock.Alertmanager, windsock.CloudEvents, windsock.Slack} {
		got := callbacks(t, f, nil, requested("web-1"), change("web-2", windsock.Failed))
		for i, want := range []windsock.Trace{{TraceParent: traceparent, TraceState: "vendor=1"}, {}} {
			h := got[i].Header
			if h.Get("Traceparent") != want.TraceParent || h.Get("Tracestate") != want.TraceState {
				t.Errorf("%s: the header names %q %q, want %+v", f, h.Get("Traceparent"), h.Get("Tracestate"), want)
			}
			if _, is := h["Traceparent"]; is != (want.TraceParent != "") {
				t.Errorf("%s: the header is %v", f, h)
			}
			if f == windsock.Seed && (h.Get("Ce-Traceparent") != want.TraceParent || h.Get("Ce-Tracestate") != want.TraceState) {
				t.Errorf("the attributes are %q %q, want %+v", h.Get("Ce-Traceparent"), h.Get("Ce-Tracestate"), want)
			}
			if f == windsock.Seed || f == windsock.CloudEvents {
				var body windsock.Trace
				if err := json.Unmarshal(got[i].body, &body); err != nil || body != want {
					t.Errorf("%s: the body names %+v, want %+v (%v)", f, body, want, err)
				}
			}
		}
	}
}

func TestAListNamesTheTraceOfEachEvent(t *testing.T) {
	var named []windsock.Trace
	for _, got := range callbacks(t, windsock.Batch, nil, requested("web-1"), change("web-2", windsock.Failed)) {
		if _, is := got.Header["Traceparent"]; is {
			t.Errorf("the header is %v", got.Header)
		}
		var list []windsock.Trace
		if err := json.Unmarshal(got.body, &list); err != nil {
			t.Fatal(err)
		}
		named = append(named, list...)
	}
	want(t, "traces", named, []windsock.Trace{{TraceParent: traceparent, TraceState: "vendor=1"}, {}})
}

// Where spans are shown each try is one, of the event's trace, and the callback names it.
func TestATryIsASpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	got := callbacks(t, windsock.Seed, spans, requested("web-1"))[0]
	span := spans.Ended()[0]
	named := tracing.Parse(windsock.Trace{TraceParent: got.Header.Get("Traceparent")})
	want(t, "the span that it names", named.SpanID(), span.SpanContext().SpanID())
	want(t, "its trace", named.TraceID().String(), traceparent[3:35])
	want(t, "its parent", span.Parent().SpanID().String(), traceparent[36:52])
	want(t, "what vendors said", got.Header.Get("Tracestate"), "vendor=1")
	want(t, "the event's", got.Header.Get("Ce-Traceparent"), traceparent)
	shown := map[string]string{}
	for _, a := range span.Attributes() {
		shown[string(a.Key)] = a.Value.String()
	}
	want(t, "what it shows", shown, map[string]string{
		"windsock.monitor.id": "m", "windsock.attempt": "1", "windsock.events": "1", "windsock.event.type": "instance.state", "windsock.event.seq": "2",
		"windsock.result": "taken", "http.response.status_code": "200",
	})
}

func TestTheSpanOfAListIsLinked(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	requests := callbacks(t, windsock.Batch, spans, requested("web-1"), change("web-2", windsock.Failed))
	var links []string
	for i, span := range spans.Ended() {
		for _, l := range span.Links() {
			links = append(links, l.SpanContext.SpanID().String())
		}
		named := tracing.Parse(windsock.Trace{TraceParent: requests[i].Header.Get("Traceparent")})
		want(t, "the span that it names", named.SpanID(), span.SpanContext().SpanID())
		want(t, "it has a parent", span.Parent().IsValid(), false)
	}
	want(t, "links", links, []string{traceparent[36:52]})
}

// What is in no trace, where nobody is shown spans, costs nothing for that.
func TestACallbackInNoTraceIsAsCheapAsEver(t *testing.T) {
	d, e := &Deliverer{}, change("web-1", windsock.Failed)
	m := &windsock.Target{}
	b, header := &batch{target: m, items: []item{{notice: &notice{Event: e}}}}, http.Header{}
	if n := testing.AllocsPerRun(100, func() {
		a := answer{}
		finish(d.trace(t.Context(), m, b, header), &a)
	}); n != 0 || len(header) > 0 {
		t.Errorf("%v allocations, header %v", n, header)
	}
}
