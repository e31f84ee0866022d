package store

import (
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"windsock"
	"windsock/tracing"
)

// begin has o be in the trace of its context. If that is recorded o has a span there, from
// when it is queued to the end of its commit, and what comes of it comes of that.
func (o *op) begin() {
	ctx := o.ctx
	o.span = trace.SpanFromContext(ctx)
	if o.span.IsRecording() {
		ctx, o.span = o.span.TracerProvider().Tracer(tracing.Scope).Start(ctx, "commit")
	}
	o.trace = tracing.Of(ctx)
}

// end ends its span. So many were committed together.
func (o *op) end(together int) {
	if !o.span.IsRecording() {
		return
	}
	o.span.SetAttributes(attribute.Int("windsock.commit.writes", together))
	if o.err == nil && o.seq > 0 {
		o.span.SetAttributes(attribute.Int64("windsock.event.seq", o.seq))
	}
	if errors.Is(o.err, windsock.ErrUnavailable) {
		o.span.SetStatus(codes.Error, "") // its text may show what is not to be seen
	}
	o.span.End()
}

// sampled returns the trace of the first of ops that is in one which somebody keeps.
func sampled(ops []*op) (in trace.SpanContext) {
	for _, o := range ops {
		if in = trace.SpanContextFromContext(o.ctx); in.IsSampled() {
			break
		}
	}
	return in
}

// traceText is a trace as a column has it; traceOf reads that.
func traceText(t windsock.Trace) string { return strings.TrimSpace(t.TraceParent + " " + t.TraceState) }

func traceOf(column string) (t windsock.Trace) {
	t.TraceParent, t.TraceState, _ = strings.Cut(column, " ")
	return t
}
