package api

import (
	"time"

	"windsock"
	"windsock/tracing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

type metrics struct {
	inFlight   prometheus.Gauge
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	detections *prometheus.CounterVec
	refused    *prometheus.CounterVec
	reports    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "windsock_http_requests_in_flight",
			Help: "Requests that are being answered, those that wait and streams among them.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_http_requests_total",
			Help: "Requests by method, path and class of the status that was answered.",
		}, []string{"method", "path", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windsock_http_request_duration_seconds",
			Help:    "Time from the header of a request to the end of its answer. Long polls and streams last as long as their clients wish.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
		}, []string{"method", "path"}),
		detections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_detections_total",
			Help: "Detections posted, by the kind of their subject and by what came of them.",
		}, []string{"kind", "detection", "result"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_report_items_total",
			Help: "Items of reports, by the rule by which they were read and by what came of them.",
		}, []string{"report", "result"}),
	}
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "windsock_http_refused_total",
		Help: "Callers that were refused, by why: a token that is missing or unknown, a role or a scope that is too small.",
	}, []string{"reason"})
	for _, why := range []string{refusedMissing, refusedUnknown, refusedRole, refusedScope} {
		m.refused.WithLabelValues(why)
	}
	reg.MustRegister(m.inFlight, m.requests, m.duration, m.detections, m.reports, m.refused)
	return m
}

// route returns what notes a served request of a route.
func (m *metrics) route(method, path string) func(status int, took time.Duration, in trace.SpanContext) {
	var byClass [6]prometheus.Counter
	for i, class := range []string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		byClass[i] = m.requests.WithLabelValues(method, path, class)
	}
	duration := m.duration.WithLabelValues(method, path)
	return func(status int, took time.Duration, in trace.SpanContext) {
		class := status / 100
		if class >= len(byClass) {
			class = 0
		}
		byClass[class].Inc()
		tracing.Observe(duration, took.Seconds(), in)
	}
}

// What came of a detection.
const (
	changed   = "changed"
	unchanged = "unchanged"
	refused   = "refused"
)

// detected notes what came of a detection; the word may be none.
func (m *metrics) detected(kind windsock.Kind, word windsock.Word, result string) {
	if word.State() == "" {
		word = other
	}
	m.detections.WithLabelValues(string(kind), string(word), result).Inc()
}
