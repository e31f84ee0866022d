package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"windsock"
	"windsock/tracing"
)

// traced returns what is done for a request in a trace of its own, the n-th.
func traced(t *testing.T, n int) (context.Context, windsock.Trace) {
	in := windsock.Trace{TraceParent: fmt.Sprintf("00-%032x-%016x-01", n, n), TraceState: fmt.Sprintf("test=%d", n)}
	return tracing.Continue(t.Context(), in), in
}

// traces returns those of the newest events about a subject, the oldest first, up to n.
func traces(t *testing.T, s *Store, id string, n int) (list []windsock.Trace) {
	t.Helper()
	for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 1000, windsock.EventFilter{})) {
		if e.SubjectID == id {
			list = append(list, e.Trace)
		}
	}
	return list[max(len(list)-n, 0):]
}

// Each event keeps the trace of the request that it follows from, also where many are
// committed together, and so do those that follow from that.
func TestAnEventIsInTheTraceOfItsRequest(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		const n = 20
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprintf("web-%d", i))
		}
		declare(t, s, "shop", ids...)
		declare(t, s, "blog", "app-1")
		var wg sync.WaitGroup
		for i, id := range ids {
			ctx, _ := traced(t, i+1)
			if i%2 == 0 {
				ctx = t.Context()
			}
			wg.Go(func() {
				if _, err := s.Record(ctx, []windsock.Observation{instanceSaid(id, "m", windsock.Failed)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i, id := range ids {
			_, want := traced(t, i+1)
			if i%2 == 0 {
				want = windsock.Trace{}
			}
			if got := traces(t, s, id, 2); !slices.Equal(got, []windsock.Trace{{}, want}) {
				t.Errorf("%s was declared and failed in %+v, want none and %+v", id, got, want)
			}
		}
		ctx, want := traced(t, n+1)
		if _, err := s.Record(ctx, []windsock.Observation{instanceSaid("app-1", "m", windsock.Failed)}); err != nil {
			t.Fatal(err)
		}
		if got := traces(t, s, "blog", 1); !slices.Equal(got, []windsock.Trace{want}) {
			t.Errorf("the deployment failed with it in %+v, want %+v", got, want)
		}
	})
}

// What was held is told in the trace in which it happened, not in that which ended the hold.
func TestWhatIsHeldKeepsItsTrace(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1")
		record(t, s, instanceSaid("web-1", "m", windsock.Running))
		silence := must[windsock.Silence](t)(s.AddSilence(t.Context(), windsock.SilenceSpec{Scope: "deployment:shop", Author: "a", Reason: "r", EndsAt: c.Now().Add(time.Hour)}))
		first, ofShop := traced(t, 1) // which is failed from then on
		second, ofWeb := traced(t, 2)
		for i, state := range []windsock.State{windsock.Stopped, windsock.Failed} {
			c.advance(time.Second)
			if _, err := s.Record([]context.Context{first, second}[i], []windsock.Observation{instanceSaid("web-1", "m", state)}); err != nil {
				t.Fatal(err)
			}
		}
		other, _ := traced(t, 3)
		if err := s.EndSilence(other, silence.ID); err != nil {
			t.Fatal(err)
		}
		tick(t, s, c, time.Second)
		for id, want := range map[string]windsock.Trace{"web-1": ofWeb, "shop": ofShop} {
			if got := traces(t, s, id, 1); !slices.Equal(got, []windsock.Trace{want}) {
				t.Errorf("%s is told in %+v, want %+v", id, got, want)
			}
		}
		ctx, want := traced(t, 4)
		if _, err := s.Record(ctx, []windsock.Observation{instanceSaid("web-1", "m", windsock.Running)}); err != nil {
			t.Fatal(err)
		}
		if got := traces(t, s, "web-1", 1); !slices.Equal(got, []windsock.Trace{want}) {
			t.Errorf("it runs again in %+v, want %+v", got, want)
		}
	})
}

// A commit is a span of each recorded request that it served, and what comes of it comes of
// that span. What is not recorded has none.
func TestACommitIsASpan(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		spans := tracetest.NewSpanRecorder()
		tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
		ctx, request := tracer.Start(t.Context(), "request")
		out := must[[]windsock.Outcome](t)(s.Record(ctx, []windsock.Observation{instanceSaid("web-1", "m", windsock.Failed)}))
		record(t, s, instanceSaid("web-2", "m", windsock.Failed))
		ended := spans.Ended()
		if len(ended) != 1 || ended[0].Name() != "commit" || ended[0].Parent().SpanID() != request.SpanContext().SpanID() {
			t.Fatalf("spans %v", ended)
		}
		got := map[string]string{}
		for _, a := range ended[0].Attributes() {
			got[string(a.Key)] = a.Value.String()
		}
		if seq := fmt.Sprint(out[0].EventSeq + 1); got["windsock.commit.writes"] != "1" || got["windsock.event.seq"] != seq { // the deployment failed with it
			t.Errorf("it shows %v, want 1 write and %s as seq", got, seq)
		}
		if got := tracing.Parse(traces(t, s, "web-1", 1)[0]); got.SpanID() != ended[0].SpanContext().SpanID() || got.TraceID() != request.SpanContext().TraceID() {
			t.Errorf("the event comes of %v, want %v", got, ended[0].SpanContext())
		}
	})
}
