package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
)

// presentSpans are how long deployments have been in their states, at a time. Those below
// 0 are of a clock that was set back.
const presentSpans = `SELECT state, CAST(? AS BIGINT) - CASE WHEN since > created_at THEN since ELSE created_at END AS micros FROM deployments`

// endSpans adds up how long deployments were in the states that they are about to leave:
// those that the database still has.
func (t *tx) endSpans(ids []string) {
	if len(ids) == 0 {
		return
	}
	t.exec(`INSERT INTO spans (state, micros) SELECT state, sum(micros) FROM (`+presentSpans+` WHERE `+inSet(`id`)+`) AS ended
		WHERE micros > 0 GROUP BY state
		ON CONFLICT (state) DO UPDATE SET micros = spans.micros + excluded.micros`, t.micros, set(ids))
}

// spans collects how long deployments have been in which state, present ones and those
// that were removed. They are read at one moment, so that the sums only rise.
type spans struct{ *Store }

var spansDesc = prometheus.NewDesc("windsock_deployment_state_seconds_total",
	"Seconds that deployments have been in each state, added up over all that there are and were.", []string{"observed_state"}, nil)

func (spans) Describe(ch chan<- *prometheus.Desc) { ch <- spansDesc }

func (c spans) Collect(ch chan<- prometheus.Metric) {
	if !c.tells() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var rows []struct {
		State  windsock.State `db:"state"`
		Micros int64          `db:"micros"`
	}
	err := reader{ctx, c.read}.query(&rows, `SELECT state, sum(micros) AS micros FROM
		(SELECT state, micros FROM spans UNION ALL `+presentSpans+`) AS each WHERE micros > 0 GROUP BY state`, micros(c.now()))
	if err != nil {
		ch <- prometheus.NewInvalidMetric(spansDesc, err)
		return
	}
	sums := map[windsock.State]int64{}
	for _, r := range rows {
		sums[r.State] = r.Micros
	}
	for _, state := range windsock.DeploymentStates { // an absent series is no zero
		ch <- prometheus.MustNewConstMetric(spansDesc, prometheus.CounterValue, float64(sums[state])/1e6, string(state))
	}
}
