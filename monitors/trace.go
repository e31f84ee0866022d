package monitors

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"windsock"
	"windsock/tracing"
)

// trace has the header of a callback name the trace of what it tells and, if anybody is shown
// spans, returns that of this try, of which then is what comes of it at the monitor. A list
// tells of many: its span is linked to those.
func (d *Deliverer) trace(ctx context.Context, t *windsock.Target, b *batch, header http.Header) oteltrace.Span {
	first, span := b.items[0], oteltrace.SpanFromContext(ctx)
	in := first.Trace
	if t.Format == windsock.Batch {
		in = windsock.Trace{}
	}
	if d.Tracer != nil {
		ctx = tracing.Continue(ctx, in)
		ctx, span = d.Tracer.Start(ctx, "callback", oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithLinks(b.links()...), oteltrace.WithAttributes(
			attribute.String("windsock.monitor.id", t.ID), attribute.Int("windsock.attempt", b.attempt), attribute.Int("windsock.events", len(b.items)),
			attribute.String("windsock.event.type", string(first.Type)), attribute.Int64("windsock.event.seq", first.Seq)))
		in = tracing.Of(ctx)
	}
	if in.TraceParent != "" {
		header["Traceparent"] = []string{in.TraceParent}
	}
	if in.TraceState != "" {
		header["Tracestate"] = []string{in.TraceState}
	}
	return span
}

// links returns those of a list of events; that of a single one is its parent.
func (b *batch) links() (links []oteltrace.Link) {
	if b.target.Format != windsock.Batch {
		return nil
	}
	for _, it := range b.items {
		if in := tracing.Parse(it.Trace); in.IsValid() {
			links = append(links, oteltrace.Link{SpanContext: in})
		}
	}
	return links
}

// finish ends the span of a try.
func finish(span oteltrace.Span, a *answer) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("windsock.result", string(results[a.meaning])))
	if a.reply.status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", a.reply.status))
	}
	if a.meaning != taken {
		span.SetAttributes(attribute.String("error.type", classOf(a.reply)))
		span.SetStatus(codes.Error, "") // why may show what is not to be seen
	}
	span.End()
}
