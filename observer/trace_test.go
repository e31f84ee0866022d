package observer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"windsock"
)

// recorded is a model that notes in which spans it is asked to record.
type recorded struct {
	*model
	mu sync.Mutex
	in []trace.SpanID
}

func (m *recorded) Record(ctx context.Context, batch []windsock.Observation) ([]windsock.Outcome, error) {
	m.mu.Lock()
	m.in = append(m.in, trace.SpanContextFromContext(ctx).SpanID())
	m.mu.Unlock()
	return m.model.Record(ctx, batch)
}

// Each look is a trace of its own, and so is what records what several saw: it is linked to
// them.
func TestALookIsASpan(t *testing.T) {
	m, d := &recorded{model: newModel()}, &diary{}
	m.probes["web"], m.probes["db"] = every(time.Second, "web"), every(time.Second, "db")
	o := newObserver(m.model)
	o.Model, o.Look = m, d.look
	spans := tracetest.NewSpanRecorder()
	o.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
	bubble(t, o, func(*testing.T) { pass(10 * time.Second) })
	looks, of, links := map[trace.SpanID]bool{}, map[string]int{}, 0
	for _, span := range spans.Ended() {
		if span.Parent().IsValid() {
			t.Errorf("%s has the parent %v", span.Name(), span.Parent())
		}
		if span.Name() == "probe" {
			looks[span.SpanContext().SpanID()] = true
			of[span.Attributes()[0].Value.String()]++
		}
	}
	for _, span := range spans.Ended() {
		if span.Name() != "record" {
			continue
		}
		for _, l := range span.Links() {
			links++
			if !looks[l.SpanContext.SpanID()] {
				t.Errorf("what is recorded is linked to %v, which is no look", l.SpanContext)
			}
		}
		if !slices.Contains(m.in, span.SpanContext().SpanID()) {
			t.Errorf("nothing was recorded in %v", span.SpanContext())
		}
	}
	if of["web"] < 5 || of["db"] < 5 || links < 10 {
		t.Errorf("looks %v, %d of them recorded", of, links)
	}
}
