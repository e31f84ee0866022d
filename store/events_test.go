package store

import (
	"testing"

	"windsock"
)

// What is read of an event in brief decides as the whole of it does.
func TestBriefEventsAreWantedAsWholeOnes(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		own := must[windsock.Registration](t)(s.AddMonitor(t.Context(), windsock.MonitorSpec{Address: "10.0.0.1", Port: 80, Detections: windsock.Detections{"all"}}, windsock.Keys{}))
		for _, source := range []string{"pager", windsock.MonitorSource(own.ID)} {
			for _, state := range []windsock.State{windsock.Failed, windsock.Running, windsock.Stopped} {
				must[[]windsock.Outcome](t)(s.Record(t.Context(), []windsock.Observation{instanceSaid("web-1", source, state)}))
			}
		}
		must[windsock.Monitor](t)(s.PauseMonitor(t.Context(), own.ID, windsock.PausedByGone, "it is gone"))
		whole := must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{}))
		brief := must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{Brief: true}))
		if len(whole) != len(brief) || len(whole) < 10 {
			t.Fatalf("%d events, %d in brief", len(whole), len(brief))
		}
		other := own.Monitor
		other.ID, other.Detections = "other", windsock.Detections{windsock.FailDetected}
		for i := range whole {
			w, b := &whole[i], &brief[i]
			if w.Seq != b.Seq || w.ID != b.ID || !w.Time.Equal(b.Time) {
				t.Errorf("%+v is in brief %+v", w, b)
			}
			for _, m := range []windsock.Monitor{own.Monitor, other} {
				if m.Wants(w) != m.Wants(b) {
					t.Errorf("%s wants %+v: %t, in brief %t", m.ID, w, m.Wants(w), m.Wants(b))
				}
			}
		}
	})
}
