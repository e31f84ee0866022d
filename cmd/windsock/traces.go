package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"windsock"
	"windsock/tracing"
)

// lastExport is how long we wait at the end for the spans that were not sent yet.
const lastExport = 2 * time.Second

// exportTraces returns what makes spans, which are sent where the variables of OpenTelemetry
// say, and what ends that. They say all else, too; without such a place it returns nil. What
// cannot be sent is not worth a service.
func exportTraces(ctx context.Context, log *slog.Logger) (tracer trace.Tracer, end func()) {
	nowhere := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == ""
	if nowhere || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, func() {}
	}
	out, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Error("traces are not exported", "error", err)
		return nil, func() {}
	}
	us, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "windsock"), attribute.String("service.version", buildVersion()), attribute.String("service.instance.id", processName()),
	), resource.WithFromEnv())
	if err != nil {
		log.Warn("exported traces do not say all that they should of us", "error", err)
	}
	p := sdk.NewTracerProvider(sdk.WithResource(us), sdk.WithBatcher(&exporter{SpanExporter: out, log: log}))
	return p.Tracer(tracing.Scope), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
		defer cancel()
		p.Shutdown(ctx)
	}
}

// An exporter says that spans cannot be sent when that begins, and when it is over. Those
// that come while they cannot be, and for which there is no more room, are dropped.
type exporter struct {
	sdk.SpanExporter
	log     *slog.Logger
	failing bool
}

// ExportSpans is called by one goroutine at a time. It returns nil: all is said.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.failing:
		e.log.Warn("traces cannot be exported, will go on trying", "error", windsock.CutReason(err.Error()))
	case err == nil && e.failing:
		e.log.Info("traces are exported again")
	}
	e.failing = err != nil
	return nil
}
