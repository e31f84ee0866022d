package store

import (
	"slices"
	"testing"
	"time"

	"windsock"
)

// What comes after a failure says since when that was.
func TestWhatEndsAFailureSaysWhenItBegan(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		for _, state := range []windsock.State{windsock.Running, windsock.Failed, windsock.Running, windsock.Stopped} {
			for _, id := range []string{"web-1", "web-2"} {
				c.advance(time.Minute)
				record(t, s, instanceSaid(id, "m", state))
			}
		}
		began, over := map[string]time.Time{}, map[string][]windsock.State{}
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{})) {
			if e.Previous == windsock.Failed || e.Previous == windsock.Degraded {
				over[e.SubjectID] = append(over[e.SubjectID], e.Previous)
			}
			if !e.PreviousSince.Equal(began[e.SubjectID]) {
				t.Errorf("%s of %s after %s: since %s, want %s", e.Type, e.SubjectID, e.Previous, e.PreviousSince, began[e.SubjectID])
			}
			if delete(began, e.SubjectID); windsock.Heard(e.State) == windsock.FailDetected {
				began[e.SubjectID] = e.Time
			}
		}
		for id, want := range map[string][]windsock.State{
			"web-1": {windsock.Failed}, "web-2": {windsock.Failed}, "shop": {windsock.Degraded, windsock.Failed, windsock.Degraded, windsock.Degraded},
		} {
			if !slices.Equal(over[id], want) {
				t.Errorf("%s came out of %v, want %v", id, over[id], want)
			}
		}
	})
}
