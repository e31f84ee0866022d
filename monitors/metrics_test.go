package monitors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"windsock"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		for i := range maxNamed + 3 {
			id := fmt.Sprintf("m%02d", i)
			l.add(id, named(id), "")
		}
		p := start(t, l, n)
		ill := []string{"m07", "m50", "m52"} // one that has its own metrics and two of the others
		for _, host := range ill {
			n.at(host, respond(500, ""))
		}
		l.append(change("web", windsock.Failed))
		pass(2 * time.Second)
		l.append(change("web", windsock.Running))
		pass(time.Second)

		want(t, "tries that failed", testutil.ToFloat64(p.Metrics.tries.WithLabelValues("failure")), 3)
		want(t, "tries that succeeded", testutil.ToFloat64(p.Metrics.tries.WithLabelValues("success")), 2*50)
		wanted := `
# HELP windsock_monitors Registered monitors, by how their callbacks go.
# TYPE windsock_monitors gauge
windsock_monitors{state="delivering"} 0
windsock_monitors{state="idle"} 50
windsock_monitors{state="paused"} 0
windsock_monitors{state="pending"} 0
windsock_monitors{state="retrying"} 3
`
		for _, m := range []struct {
			name, help  string
			ill, others float64
		}{
			{"windsock_monitor_backlog_events", "Events that wait for the monitor; the sum, for other.", 2, 4},
			{"windsock_monitor_lag_seconds", "Age of the oldest event that waits for the monitor; of the slowest, for other.", 3, 3},
		} {
			wanted += "# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " gauge\n"
			for i := range maxNamed {
				v := 0.0
				if i == 7 {
					v = m.ill
				}
				wanted += fmt.Sprintf("%s{monitor=\"m%02d\"} %v\n", m.name, i, v)
			}
			wanted += fmt.Sprintf("%s{monitor=\"other\"} %v\n", m.name, m.others)
		}
		err := testutil.GatherAndCompare(p.reg, strings.NewReader(wanted),
			"windsock_monitors", "windsock_monitor_backlog_events", "windsock_monitor_lag_seconds")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestMetricsAreNamedByTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.add("m", named("a"), "")
		p := start(t, l, newNetwork())
		l.append(change("web", windsock.Failed))
		synctest.Wait()
		problems, err := testutil.GatherAndLint(p.reg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
}

func TestMetricsBeforeAnythingRuns(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	NewMetrics(reg)
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}
