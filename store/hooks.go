package store

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
)

// hooks collects how many components are in which state, by the group whose hook runs
// them.
type hooks struct{ *Store }

// hooksShown bounds the series: anybody who may deploy can invent groups.
const hooksShown = 20

var hooksDesc = prometheus.NewDesc("windsock_components",
	"Software components by state, and by the group whose hook runs them. Groups beyond the first "+strconv.Itoa(hooksShown)+" are counted as other.",
	[]string{"group", "state"}, nil)

func (hooks) Describe(ch chan<- *prometheus.Desc) { ch <- hooksDesc }

func (c hooks) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var rows []struct {
		Hook  string                  `db:"hook"`
		State windsock.ComponentState `db:"state"`
		N     int                     `db:"n"`
	}
	if err := c.read.SelectContext(ctx, &rows, `SELECT hook, state, count(*) AS n FROM components GROUP BY hook, state ORDER BY hook, state`); err != nil {
		ch <- prometheus.NewInvalidMetric(hooksDesc, err)
		return
	}
	counts := map[string]map[windsock.ComponentState]int{}
	for _, row := range rows {
		hook := row.Hook
		if counts[hook] == nil && len(counts) >= hooksShown {
			hook = "other"
		}
		if counts[hook] == nil {
			counts[hook] = map[windsock.ComponentState]int{}
		}
		counts[hook][row.State] += row.N
	}
	for hook, by := range counts {
		for _, state := range windsock.ComponentStates { // an absent series is no zero
			ch <- prometheus.MustNewConstMetric(hooksDesc, prometheus.GaugeValue, float64(by[state]), hook, string(state))
		}
	}
}

// countSignal counts a signal once it is committed.
func (t *tx) countSignal(status windsock.SignalStatus, late bool) {
	label := string(status)
	if late {
		label = "late"
	}
	t.after = append(t.after, func() { t.s.Metrics.signals.WithLabelValues(label).Inc() })
}

// tellTime tells how long it took a component that ended.
func (w *working) tellTime(c *component, was windsock.ComponentState) {
	if was.Offered() && c.State.Final() {
		took := time.Duration(w.micros-c.AvailableAt) * time.Microsecond
		w.after = append(w.after, func() { w.s.Metrics.took.Observe(took.Seconds()) })
	}
}
