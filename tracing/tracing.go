// Package tracing is what several packages need of W3C Trace Context and of OpenTelemetry's
// interface. Who makes spans is decided by cmd/windsock. Baggage is not passed on.
package tracing

import (
	"context"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"windsock"
)

// Scope is what makes our spans, as they say.
const Scope = "windsock"

// maxState is how long a tracestate may be to be passed on: as long as the specification
// has everybody pass on (section 3.3.1.5).
const maxState = 512

// Enter returns a context in the trace that a request names, if it does.
func Enter(ctx context.Context, h http.Header) context.Context {
	parent := h["Traceparent"]
	if len(parent) != 1 { // mostly there is none, and several are invalid
		return ctx
	}
	state := strings.Join(h["Tracestate"], ",")
	if len(state) > maxState {
		state = ""
	}
	return Continue(ctx, windsock.Trace{TraceParent: parent[0], TraceState: state})
}

// Continue returns a context in a trace, if t is one.
func Continue(ctx context.Context, t windsock.Trace) context.Context {
	if t.TraceParent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": t.TraceParent, "tracestate": t.TraceState})
}

// Parse returns what a trace is to OpenTelemetry; nothing valid, if t is none.
func Parse(t windsock.Trace) trace.SpanContext {
	return trace.SpanContextFromContext(Continue(context.Background(), t))
}

// Of returns the trace that ctx is in.
func Of(ctx context.Context) (t windsock.Trace) {
	if !trace.SpanContextFromContext(ctx).IsValid() { // mostly
		return t
	}
	named := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, named)
	return windsock.Trace{TraceParent: named["traceparent"], TraceState: named["tracestate"]}
}

// Observe notes a value, with the trace that it was seen in as its example, if anybody keeps
// that.
func Observe(h prometheus.Observer, v float64, in trace.SpanContext) {
	if e, ok := h.(prometheus.ExemplarObserver); ok && in.IsSampled() {
		e.ObserveWithExemplar(v, prometheus.Labels{"trace_id": in.TraceID().String()})
		return
	}
	h.Observe(v)
}
