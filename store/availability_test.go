package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windsock"
)

// availability checks how a subject was of late, as JSON from "truncated" on; the clock
// of the tests goes on by some milliseconds, which are left out.
func availability(t *testing.T, s *Store, kind windsock.Kind, id string, back time.Duration, want string) windsock.Availability {
	t.Helper()
	a, err := s.Availability(t.Context(), windsock.Subject{Kind: kind, ID: id}, s.now().Add(-back), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for state, d := range a.Seconds {
		if a.Seconds[state] = whole(d); a.Seconds[state] == 0 {
			delete(a.Seconds, state)
		}
	}
	a.Planned, a.Outage = whole(a.Planned), whole(a.Outage)
	data, err := json.Marshal(struct {
		Truncated bool                                `json:"truncated"`
		Seconds   map[windsock.State]windsock.Seconds `json:"seconds"`
		Planned   windsock.Seconds                    `json:"planned"`
		Failures  int                                 `json:"failures"`
		Outage    windsock.Seconds                    `json:"outage"`
	}{a.Truncated, a.Seconds, a.Planned, a.Failures, a.Outage})
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != want {
		t.Errorf("%s %s: %s\nwant %s", kind, id, data, want)
	}
	return a
}

func whole(d windsock.Seconds) windsock.Seconds {
	return windsock.Seconds(time.Duration(d).Round(time.Minute))
}

func TestAvailabilityIsOfTheLog(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		record(t, s, instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-2", "a", windsock.Running))
		c.advance(time.Hour)
		record(t, s, instanceSaid("web-1", "a", windsock.Failed))
		c.advance(10 * time.Minute)
		record(t, s, instanceSaid("web-1", "a", windsock.Running))
		c.advance(20 * time.Minute)
		must[windsock.Instance](t)(s.PatchInstance(t.Context(), "web-2", windsock.Cond{}, func(i *windsock.InstanceSpec) error {
			i.Expected = windsock.Stopped
			return nil
		}))
		record(t, s, instanceSaid("web-2", "a", windsock.Stopped))
		c.advance(30 * time.Minute)

		availability(t, s, windsock.KindInstance, "web-1", 3*time.Hour, `{"truncated":true,"seconds":{"failed":600,"running":6600},"planned":0,"failures":1,"outage":600}`)
		availability(t, s, windsock.KindInstance, "web-1", 90*time.Minute, `{"truncated":false,"seconds":{"failed":600,"running":4800},"planned":0,"failures":1,"outage":600}`)
		availability(t, s, windsock.KindInstance, "web-1", 55*time.Minute, `{"truncated":false,"seconds":{"failed":300,"running":3000},"planned":0,"failures":0,"outage":300}`)
		availability(t, s, windsock.KindInstance, "web-1", 45*time.Minute, `{"truncated":false,"seconds":{"running":2700},"planned":0,"failures":0,"outage":0}`)
		availability(t, s, windsock.KindInstance, "web-2", 24*time.Hour, `{"truncated":true,"seconds":{"running":5400,"stopped":1800},"planned":1800,"failures":0,"outage":0}`)
		availability(t, s, windsock.KindInstance, "web-2", 5*time.Minute, `{"truncated":false,"seconds":{"stopped":300},"planned":300,"failures":0,"outage":0}`)
		a := availability(t, s, windsock.KindDeployment, "shop", 24*time.Hour, `{"truncated":true,"seconds":{"degraded":600,"running":6600},"planned":0,"failures":1,"outage":600}`)
		if d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "shop")); !a.From.Equal(d.CreatedAt) {
			t.Errorf("it begins at %v, the deployment was declared at %v", a.From, d.CreatedAt)
		}

		past := must[windsock.Availability](t)(s.Availability(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, s.now().Add(-59*time.Minute), s.now().Add(-58*time.Minute)))
		if whole(past.Seconds[windsock.Failed]) != windsock.Seconds(time.Minute) || len(past.Seconds) != 1 {
			t.Errorf("a minute within the outage is %+v", past)
		}
	})
}

// What nobody can know any more is left out, and that is said.
func TestAvailabilityOfWhatWasPruned(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1", "web-2", "web-3")
		record(t, s, instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-2", "a", windsock.Running))
		c.advance(time.Hour)
		record(t, s, instanceSaid("web-1", "a", windsock.Failed), instanceSaid("web-2", "a", windsock.Failed))
		c.advance(time.Hour)
		record(t, s, instanceSaid("web-1", "a", windsock.Running))
		pass(t, keep(s, 1)) // all but that, or what followed of it
		c.advance(time.Hour)
		record(t, s, instanceSaid("web-3", "a", windsock.Running))

		availability(t, s, windsock.KindInstance, "web-1", 24*time.Hour, `{"truncated":true,"seconds":{"running":3600},"planned":0,"failures":0,"outage":0}`)
		availability(t, s, windsock.KindInstance, "web-2", 24*time.Hour, `{"truncated":true,"seconds":{"failed":7200},"planned":0,"failures":0,"outage":7200}`)
		availability(t, s, windsock.KindInstance, "web-2", 90*time.Minute, `{"truncated":false,"seconds":{"failed":5400},"planned":0,"failures":0,"outage":5400}`)
		availability(t, s, windsock.KindInstance, "web-3", 30*time.Minute, `{"truncated":false,"seconds":{"unknown":1800},"planned":0,"failures":0,"outage":0}`)
	})
}

// An instance that moved has its former events elsewhere.
func TestAvailabilityOfWhatMoved(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "old", "web-1")
		declare(t, s, "new")
		record(t, s, instanceSaid("web-1", "a", windsock.Running))
		c.advance(time.Hour)
		must[windsock.Instance](t)(s.PatchInstance(t.Context(), "web-1", windsock.Cond{}, func(i *windsock.InstanceSpec) error {
			i.DeploymentID = "new"
			return nil
		}))
		c.advance(time.Hour)
		record(t, s, instanceSaid("web-1", "a", windsock.Failed))
		c.advance(time.Hour)
		availability(t, s, windsock.KindInstance, "web-1", 24*time.Hour, `{"truncated":true,"seconds":{"failed":3600,"running":3600},"planned":0,"failures":1,"outage":3600}`)
	})
}

func TestAvailabilityThatCannotBe(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop")
		shop := windsock.Subject{Kind: windsock.KindDeployment, ID: "shop"}
		c.advance(time.Hour)
		if _, err := s.Availability(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "shop"}, time.Time{}, time.Time{}); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		var invalid *windsock.FieldError
		if _, err := s.Availability(t.Context(), shop, s.now().Add(time.Hour), time.Time{}); !errors.As(err, &invalid) || invalid.Field != "from" {
			t.Errorf("from the future: %v", err)
		}
		before := must[windsock.Availability](t)(s.Availability(t.Context(), shop, s.now().Add(-10*time.Hour), s.now().Add(-9*time.Hour)))
		if !before.Truncated || !before.From.Equal(before.To) || len(before.Seconds) != 0 {
			t.Errorf("before it was there: %+v", before)
		}
	})
}

// The events of a deployment are found by the index, and no others read.
func TestChangesAreFoundByDeployment(t *testing.T) {
	onlySQLite(t, func(t *testing.T, s *Store, _ *clock) {
		l := life{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, deployment: "shop"}
		q := l.changes(5, 1000)
		var plan []struct {
			ID, Parent, NotUsed int
			Detail              string
		}
		for _, order := range []string{` ORDER BY seq`, ` ORDER BY seq DESC LIMIT 1`} {
			plan = nil
			if err := s.read.Select(&plan, `EXPLAIN QUERY PLAN `+q.text.String()+order, q.args...); err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(plan); !strings.Contains(text, "events_by_deployment (deployment_id=? AND seq>? AND seq<?)") && !strings.Contains(text, "events_by_deployment (deployment_id=? AND rowid>? AND rowid<?)") || strings.Contains(text, "B-TREE") {
				t.Errorf("the plan is %s", text)
			}
		}
	})
}

// BenchmarkAvailability adds up one of a thousand instances, in a deployment that has a
// hundredth of a million events.
func BenchmarkAvailability(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "w.db"), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Declare(b.Context(), []windsock.DeploymentSpec{{ID: "deployment-7"}}, []windsock.InstanceSpec{{ID: "instance-7", DeploymentID: "deployment-7"}}); err != nil {
		b.Fatal(err)
	}
	fill(b, s, 1_000_000)
	for b.Loop() {
		if _, err := s.Availability(b.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "instance-7"}, time.Time{}, time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
}
