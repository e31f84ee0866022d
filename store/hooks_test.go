package store

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"windsock"
)

// gathered are the values of a metric by its labels; of a histogram, how many it counted.
func gathered(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetValue() + " "
			}
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()); v != 0 {
				values[labels] = v
			}
		}
	}
	return values
}

func TestComponentsAreCounted(t *testing.T) { eachDB(t, componentsAreCounted) }

func componentsAreCounted(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	reg := prometheus.NewRegistry()
	s.Metrics = NewMetrics(reg)
	s.Metrics.watch(s.Store)
	s.deploy(dbAndWeb)
	s.runs("s1", "s2")
	token := s.tokenOf("s1", "db")
	s.says(token, windsock.Signal{Status: windsock.SignalStarted})
	s.says(token, failure)
	s.late(token, success(), windsock.ComponentFailed)
	for name, want := range map[string]map[string]float64{
		"windsock_components":              {"script failed ": 1, "script waiting ": 1},
		"windsock_component_signals_total": {"started ": 1, "failure ": 1, "late ": 1},
		"windsock_component_seconds":       {"": 1},
	} {
		if diff := cmp.Diff(want, gathered(t, reg, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestGroupsBeyondSomeAreCountedTogether(t *testing.T) {
	eachDB(t, groupsBeyondSomeAreCountedTogether)
}

func groupsBeyondSomeAreCountedTogether(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	reg := prometheus.NewRegistry()
	reg.MustRegister(hooks{s.Store})
	s.deploy(dbAndWeb)
	for i := range 2 * hooksShown {
		if _, err := s.write.Exec(`INSERT INTO components (uid, deployment_id, name, kind, instance, instance_id, handle, hook, wanted, timeout, retries, silent, planned, action, state, since, unmet)
			VALUES (?, 'shop', ?, 'software', 's1', '', '', ?, 1, 1, 0, 0, 1, 'CREATE', 'waiting', 0, 0)`, uid(), fmt.Sprint("x", i), fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	got := gathered(t, reg, "windsock_components")
	if len(got) != hooksShown+1 || got["other waiting "] != 2*hooksShown+2-hooksShown {
		t.Errorf("shown are %v", got)
	}
}
