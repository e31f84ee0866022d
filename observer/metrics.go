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

	listing *prometheus.HistogramVec
	up      *prometheus.GaugeVec
	things  *prometheus.GaugeVec
	unknown *prometheus.GaugeVec
	heard   *prometheus.GaugeVec
	hints   *prometheus.CounterVec
}

// rest has them show that nothing is looked at.
func (m *Metrics) rest() {
	m.watched.Set(0)
	for _, v := range []*prometheus.GaugeVec{m.up, m.things, m.unknown, m.heard} {
		v.Reset()
	}
}

// forget has them show nothing of a provider.
func (m *Metrics) forget(provider string) {
	for _, v := range []*prometheus.GaugeVec{m.up, m.things, m.unknown, m.heard} {
		v.DeletePartialMatch(prometheus.Labels{"provider": provider})
	}
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
		listing: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windsock_provider_listing_duration_seconds",
			Help:    "How long a look at all of a provider took, of those that came to their end.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, []string{"provider"}),
		up: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "windsock_provider_up",
			Help: "1 if the last look at all of the provider came to its end, else 0.",
		}, []string{"provider"}),
		things: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "windsock_provider_subjects",
			Help: "Deployments and instances that the provider shows.",
		}, []string{"provider", "kind"}),
		unknown: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "windsock_provider_unknown_states",
			Help: "Of these, how many have a state that the provider does not know, or a word for it that we do not.",
		}, []string{"provider"}),
		heard: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "windsock_provider_listening",
			Help: "1 while the provider's notifications are heard, else 0.",
		}, []string{"provider"}),
		hints: f.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_provider_hints_total",
			Help: "Notifications of the provider that said where to look.",
		}, []string{"provider"}),
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

// polled notes a look at all of a provider.
func (m *Metrics) polled(st *windsock.ProviderStatus, ok bool) {
	if !ok {
		m.up.WithLabelValues(st.ID).Set(0)
		return
	}
	m.up.WithLabelValues(st.ID).Set(1)
	m.listing.WithLabelValues(st.ID).Observe(time.Duration(st.Took).Seconds())
	m.things.WithLabelValues(st.ID, string(windsock.KindDeployment)).Set(float64(st.Deployments))
	m.things.WithLabelValues(st.ID, string(windsock.KindInstance)).Set(float64(st.Instances))
	m.unknown.WithLabelValues(st.ID).Set(float64(st.Blind))
}

func (m *Metrics) listening(provider string, yes bool) {
	v := 0.0
	if yes {
		v = 1
	}
	m.heard.WithLabelValues(provider).Set(v)
}

func (m *Metrics) hinted(provider string) { m.hints.WithLabelValues(provider).Inc() }
