package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

func TestSummary(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		for i, spec := range []windsock.MonitorSpec{{Verify: true}, {}, {}} {
			spec.Address, spec.Port = "10.0.0.1", 80+i
			m := must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, windsock.Keys{}))
			if i == 2 {
				must[windsock.Monitor](t)(s.PauseMonitor(t.Context(), m.ID, windsock.PausedByOperator, "by an operator"))
			}
		}
		must[[]windsock.Outcome](t)(s.Record(t.Context(), []windsock.Observation{instanceSaid("web-1", "pager", windsock.Failed)}))
		got := must[windsock.ModelSummary](t)(s.Summary(t.Context()))
		deployments, instances := map[windsock.State]int{windsock.Degraded: 1}, map[windsock.State]int{windsock.Failed: 1, windsock.Unknown: 1}
		want := windsock.ModelSummary{
			Seq: s.Head(), Deployments: deployments, Instances: instances, Drift: 1,
			Pools:    []windsock.Pool{{Provider: "static", Pool: "east", Deployments: deployments, Instances: instances}},
			Monitors: map[string]int{"pending": 1, "idle": 1, "paused": 1},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got) %s", d)
		}
	})
}

func TestEventsBeforeOne(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		head := s.Head()
		got := must[[]windsock.Event](t)(s.Events(t.Context(), 0, 2, windsock.EventFilter{Before: head}))
		if len(got) != 2 || got[0].Seq != head-1 || got[1].Seq != head-2 {
			t.Errorf("before %d there are %+v", head, got)
		}
	})
}
