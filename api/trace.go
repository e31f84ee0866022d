package api

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"windsock/tracing"
)

// begin has a request be in the trace that it names, and begins its span, if that is to be
// shown to anybody. A span shows the route and the status, and nothing else that was sent.
func (s *Server) begin(rt route, r *http.Request) (*http.Request, trace.Span) {
	ctx := tracing.Enter(r.Context(), r.Header)
	span := trace.SpanFromContext(ctx)
	if s.Tracer != nil && rt.isAPI() {
		ctx, span = s.Tracer.Start(ctx, rt.method+" "+rt.path, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", rt.path)))
	}
	if ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	return r, span
}

// finish ends the span of a request that was answered with status; 0: it waits, as an agent
// does that has nothing to do.
func finish(span trace.Span, status int) {
	if !span.IsRecording() {
		return
	}
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
