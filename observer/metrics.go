package observer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"windsock"
	"windsock/observer/probe"
)

// Metrics counts what the observer does.
type Metrics struct {
	duration *prometheus.HistogramVec
	results  *prometheus.CounterVec
	watched  prometheus.Gauge
	inflight prometheus.Gauge
	late     prometheus.Counter
	lost     prometheus.Counter
}

// NewMetrics registers the observer's metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windsock_probe_duration_seconds",
			Help:    "How long a look of a probe took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"type"}),
		results: f.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_probe_results_total",
			Help: "Looks of probes, by what they saw; unknown: they could not look.",
		}, []string{"type", "result"}),
		watched: f.NewGauge(prometheus.GaugeOpts{
			Name: "windsock_probes",
			Help: "Instances that are looked at by a probe.",
		}),
		inflight: f.NewGauge(prometheus.GaugeOpts{
			Name: "windsock_probes_inflight",
			Help: "Looks that are under way.",
		}),
		late: f.NewCounter(prometheus.CounterOpts{
			Name: "windsock_probes_late_total",
			Help: "Looks that began more than a second, or their interval, after they were due, as all workers were busy.",
		}),
		lost: f.NewCounter(prometheus.CounterOpts{
			Name: "windsock_probe_samples_lost_total",
			Help: "Results of looks that could not be recorded; the next look tells again.",
		}),
	}
	for _, t := range [...]windsock.ProbeType{windsock.ProbeHTTP, windsock.ProbeTCP, windsock.ProbeExec} {
		m.duration.WithLabelValues(string(t))
		for _, s := range [...]windsock.State{windsock.Running, windsock.Failed, windsock.Unknown} {
			m.results.WithLabelValues(string(t), string(s))
		}
	}
	return m
}

// looked counts one look.
func (m *Metrics) looked(t windsock.ProbeType, r probe.Result, took time.Duration) {
	m.duration.WithLabelValues(string(t)).Observe(took.Seconds())
	m.results.WithLabelValues(string(t), string(r.State)).Inc()
}
