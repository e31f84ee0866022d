package store

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"windsock"
	"windsock/tracing"
)

// Metrics count what the store does.
type Metrics struct {
	reg     prometheus.Registerer
	commit  prometheus.Histogram
	batch   prometheus.Histogram
	events  *prometheus.CounterVec
	pruned  prometheus.Counter
	signals *prometheus.CounterVec
	took    prometheus.Histogram
	watched sync.Once
}

// NewMetrics registers the store's metrics. With nil they are kept and shown to nobody.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reg: reg,
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "windsock_commit_duration_seconds", Help: "Time from the start of a writing transaction to its end, fsync included.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15), // 0.25 ms to 4 s
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "windsock_commit_batch_size", Help: "Writes that one commit served.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_events_total", Help: "Events appended to the log, by type.",
		}, []string{"type"}),
		pruned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "windsock_events_pruned_total", Help: "Old events deleted from the log.",
		}),
		signals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windsock_component_signals_total", Help: "Signals taken in, by what they said; late is what came when all was over.",
		}, []string{"status"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "windsock_component_seconds", Help: "Time from a component being available to its end.",
			Buckets: prometheus.ExponentialBuckets(0.1, 3, 11), // 0.1 s to 1.6 h
		}),
	}
	if reg != nil {
		reg.MustRegister(m.commit, m.batch, m.events, m.pruned, m.signals, m.took)
	}
	return m
}

func (m *Metrics) committed(took time.Duration, ops []*op) {
	tracing.Observe(m.commit, took.Seconds(), sampled(ops))
	m.batch.Observe(float64(len(ops)))
}

func (m *Metrics) logged(events []windsock.EventType) {
	for _, t := range events {
		m.events.WithLabelValues(string(t)).Inc()
	}
}

// watch adds what is read from the store when it is asked for.
func (m *Metrics) watch(s *Store) {
	if m.reg == nil {
		return
	}
	m.watched.Do(func() {
		m.reg.MustRegister(states{s}, spans{s}, hooks{s}, logSize{s}, leases{s},
			collectors.NewDBStatsCollector(s.write.DB, "write"), collectors.NewDBStatsCollector(s.read.DB, "read"))
	})
}

// states collects how many subjects are observed in which state.
type states struct{ *Store }

var statesDesc = prometheus.NewDesc("windsock_observed_subjects",
	"Deployments and instances by observed state. Pools beyond the first "+poolsShownText+" are counted as other.",
	[]string{"kind", "provider", "pool", "observed_state"}, nil)

// poolsShown bounds the series: anybody who may declare can invent pools.
const (
	poolsShown     = 50
	poolsShownText = "50"
)

func (states) Describe(ch chan<- *prometheus.Desc) { ch <- statesDesc }

func (c states) Collect(ch chan<- prometheus.Metric) {
	if !c.tells() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pools, err := c.Pools(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(statesDesc, err)
		return
	}
	type key struct {
		kind           windsock.Kind
		provider, pool string
		state          windsock.State
	}
	n := map[key]int{}
	for i, p := range pools {
		if i >= poolsShown {
			p.Provider, p.Pool = "other", "other"
		}
		for _, state := range windsock.DeploymentStates { // an absent series is no zero
			n[key{windsock.KindDeployment, p.Provider, p.Pool, state}] += 0
		}
		for _, state := range windsock.InstanceStates {
			n[key{windsock.KindInstance, p.Provider, p.Pool, state}] += 0
		}
		for state, k := range p.Deployments {
			n[key{windsock.KindDeployment, p.Provider, p.Pool, state}] += k
		}
		for state, k := range p.Instances {
			n[key{windsock.KindInstance, p.Provider, p.Pool, state}] += k
		}
	}
	for k, v := range n {
		ch <- prometheus.MustNewConstMetric(statesDesc, prometheus.GaugeValue, float64(v), string(k.kind), k.provider, k.pool, string(k.state))
	}
}

// logSize collects how much of the log is kept.
type logSize struct{ *Store }

var (
	logEventsDesc = prometheus.NewDesc("windsock_log_events", "Events that are kept in the log.", nil, nil)
	logOldestDesc = prometheus.NewDesc("windsock_log_oldest_seconds", "Age of the oldest event that is kept.", nil, nil)
)

func (logSize) Describe(ch chan<- *prometheus.Desc) { ch <- logEventsDesc; ch <- logOldestDesc }

func (c logSize) Collect(ch chan<- prometheus.Metric) {
	if !c.tells() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var at []int64
	l, err := c.extent(ctx)
	if err == nil {
		err = c.read.SelectContext(ctx, &at, `SELECT at FROM events ORDER BY seq LIMIT 1`)
	}
	if err != nil {
		ch <- prometheus.NewInvalidMetric(logEventsDesc, err)
		return
	}
	oldest := 0.0
	if len(at) > 0 {
		oldest = max(c.now().Sub(fromMicros(at[0])), 0).Seconds()
	}
	ch <- prometheus.MustNewConstMetric(logEventsDesc, prometheus.GaugeValue, float64(l.Head-l.Pruned))
	ch <- prometheus.MustNewConstMetric(logOldestDesc, prometheus.GaugeValue, oldest)
}

// tells reports whether it is this process that shows what all would show alike: whoever
// adds up all processes is to count it once.
func (s *Store) tells() bool { return s.alone() || s.Holds(windsock.UnitClock) }

// leases collects how much of what processes share is this one's.
type leases struct{ *Store }

var leaseDesc = prometheus.NewDesc("windsock_units_held",
	"What this process does of what processes share: shares of the monitors (deliverer) and of the probes, providers, and what only one does at a time.", []string{"group"}, nil)

func (leases) Describe(ch chan<- *prometheus.Desc) { ch <- leaseDesc }

func (c leases) Collect(ch chan<- prometheus.Metric) {
	held := map[string]float64{}
	c.terms.mu.Lock()
	for _, l := range c.terms.lots {
		for _, unit := range l.units {
			held[windsock.UnitGroup(unit)] += 0
		}
	}
	for unit := range c.terms.held {
		held[windsock.UnitGroup(unit)]++
	}
	c.terms.mu.Unlock()
	for group, n := range held {
		ch <- prometheus.MustNewConstMetric(leaseDesc, prometheus.GaugeValue, n, group)
	}
}
