package tracing

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"windsock"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestWhatARequestNames(t *testing.T) {
	long := "a=" + strings.Repeat("x", maxState)
	for name, tc := range map[string]struct {
		parent, state []string
		want          windsock.Trace
	}{
		"nothing":                               {},
		"a trace":                               {parent: []string{parent}, want: windsock.Trace{TraceParent: parent}},
		"what vendors say of it":                {[]string{parent}, []string{"a=1,b=2"}, windsock.Trace{TraceParent: parent, TraceState: "a=1,b=2"}},
		"the same in two headers":               {[]string{parent}, []string{"a=1", "b=2"}, windsock.Trace{TraceParent: parent, TraceState: "a=1,b=2"}},
		"what vendors say is no list":           {[]string{parent}, []string{"?"}, windsock.Trace{TraceParent: parent}},
		"what vendors say is too long":          {[]string{parent}, []string{long}, windsock.Trace{TraceParent: parent}},
		"what vendors say of nothing":           {state: []string{"a=1"}},
		"a trace that nobody keeps":             {parent: []string{parent[:53] + "00"}, want: windsock.Trace{TraceParent: parent[:53] + "00"}},
		"a random trace id":                     {parent: []string{parent[:53] + "03"}, want: windsock.Trace{TraceParent: parent[:53] + "03"}},
		"a later version, read as far as known": {parent: []string{"01" + parent[2:] + "-more"}, want: windsock.Trace{TraceParent: parent}},
		"two traces":                            {parent: []string{parent, parent}},
		"no version":                            {parent: []string{"ff" + parent[2:]}},
		"no trace id":                           {parent: []string{strings.Replace(parent, traceID, strings.Repeat("0", 32), 1)}},
		"capital letters":                       {parent: []string{strings.ToUpper(parent)}},
		"too much":                              {parent: []string{parent + "-00"}},
		"half of it":                            {parent: []string{parent[:30]}},
	} {
		got := Of(Enter(t.Context(), http.Header{"Traceparent": tc.parent, "Tracestate": tc.state}))
		if got != tc.want {
			t.Errorf("%s: %q %q: in %+v, want %+v", name, tc.parent, tc.state, got, tc.want)
		}
	}
}

func TestOnlyATraceThatIsKeptIsAnExample(t *testing.T) {
	for flags, want := range map[string]string{"00": "", "01": traceID} {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1}})
		Observe(h, 0.5, Parse(windsock.Trace{TraceParent: parent[:53] + flags}))
		var m dto.Metric
		if err := h.Write(&m); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, l := range m.Histogram.Bucket[0].GetExemplar().GetLabel() {
			got += l.GetValue()
		}
		if got != want || m.Histogram.GetSampleCount() != 1 {
			t.Errorf("flags %s: %d values, with the example %q, want %q", flags, m.Histogram.GetSampleCount(), got, want)
		}
	}
}

// Whom nobody names a trace it costs nothing.
func TestNoTraceIsFree(t *testing.T) {
	ctx, h, hist := context.Background(), http.Header{"Accept": {"*/*"}}, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h"})
	if n := testing.AllocsPerRun(100, func() {
		t := Of(Enter(ctx, h))
		Observe(hist, 1, Parse(t))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
