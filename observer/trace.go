package observer

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// begin begins the span of a look, if anybody is shown spans: a trace of its own, unless it
// is part of a larger look. What is looked at is told by its id alone.
func begin(ctx context.Context, tracer trace.Tracer, name, kind, id string) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	return tracer.Start(ctx, name, trace.WithAttributes(attribute.String("windsock."+kind+".id", id)))
}

// finish ends the span of a look, which failed if it saw nothing.
func finish(span trace.Span, blind bool) {
	if blind && span.IsRecording() {
		span.SetStatus(codes.Error, "") // why may show what is not to be seen
	}
	span.End()
}

// recording begins the span in which what several looks saw is recorded.
func (o *Observer) recording(ctx context.Context, looks []trace.Link) (context.Context, trace.Span) {
	if o.Tracer == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	return o.Tracer.Start(ctx, "record", trace.WithLinks(looks...))
}
