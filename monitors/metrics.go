package monitors

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
	"windsock/tracing"
)

// maxNamed is how many monitors have metrics of their own: those that were added first,
// so that who is named does not change with who is slow. The others share one.
const maxNamed = 50

// Metrics count callbacks.
type Metrics struct {
	tries    *prometheus.CounterVec
	duration prometheus.Histogram
	latency  prometheus.Histogram
	shown    atomic.Pointer[Deliverer]
}

var (
	monitorsDesc = prometheus.NewDesc("windsock_monitors", "Registered monitors, by how their callbacks go.", []string{"state"}, nil)
	lagDesc      = prometheus.NewDesc("windsock_monitor_lag_seconds", "Age of the oldest event that waits for the monitor; of the slowest, for other.", []string{"monitor"}, nil)
	backlogDesc  = prometheus.NewDesc("windsock_monitor_backlog_events", "Events that wait for the monitor; the sum, for other.", []string{"monitor"}, nil)
)

// NewMetrics returns metrics that are registered with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_deliveries_total", Help: "Callbacks tried, by result.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "windsock_delivery_duration_seconds", Help: "Time a try took, from connecting to the end of the answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "windsock_delivery_latency_seconds", Help: "Time from an event to the moment a monitor had taken it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 60, 300, 1800, 7200, 86400},
		}),
	}
	m.tries.WithLabelValues("success")
	m.tries.WithLabelValues("failure")
	reg.MustRegister(m.tries, m.duration, m.latency, m)
	return m
}

// show has the metrics of single monitors taken from d.
func (m *Metrics) show(d *Deliverer) { m.shown.Store(d) }

// tried counts one try.
func (m *Metrics) tried(ok bool, took time.Duration, in windsock.Trace) {
	tracing.Observe(m.duration, took.Seconds(), tracing.Parse(in))
	result := "failure"
	if ok {
		result = "success"
	}
	m.tries.WithLabelValues(result).Inc()
}

// told counts an event that was taken.
func (m *Metrics) told(e *windsock.Event, now time.Time) {
	tracing.Observe(m.latency, max(now.Sub(e.Time), 0).Seconds(), tracing.Parse(e.Trace))
}

// Describe implements prometheus.Collector for what is counted only when it is asked for.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- monitorsDesc
	ch <- lagDesc
	ch <- backlogDesc
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	d := m.shown.Load()
	if d == nil {
		return
	}
	d.mu.RLock()
	ids := slices.Sorted(maps.Keys(d.byID)) // ids rise with the time of registration
	d.mu.RUnlock()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	states := map[string]float64{"pending": 0, "idle": 0, "delivering": 0, "retrying": 0, "paused": 0}
	now := time.Now()
	var otherLag, otherBacklog float64
	for i, id := range ids {
		how, there := d.Delivery(id)
		if there {
			states[how.State]++
		}
		lag, backlog := 0.0, float64(how.Backlog)
		if !how.OldestAt.IsZero() {
			lag = max(now.Sub(how.OldestAt), 0).Seconds()
		}
		if i < maxNamed {
			gauge(lagDesc, lag, id)
			gauge(backlogDesc, backlog, id)
			continue
		}
		otherLag = max(otherLag, lag)
		otherBacklog += backlog
	}
	for state, n := range states {
		gauge(monitorsDesc, n, state)
	}
	if len(ids) > maxNamed {
		gauge(lagDesc, otherLag, "other")
		gauge(backlogDesc, otherBacklog, "other")
	}
}
