package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"windsock"
)

func TestThingsAreFoundByAllTheyAreKnownBy(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		must[windsock.Deployment](t)(first(s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop", Name: "The shop", ProviderID: "stack-1"}, windsock.Cond{})))
		for _, spec := range []windsock.InstanceSpec{
			{ID: "web-1", Name: "web", ProviderID: "uuid-1", Address: "10.0.0.1", Metadata: map[string]string{"host": "node1", "a.b": "x"}},
			{ID: "web-2", Name: "web", Address: "10.0.0.2", Metadata: map[string]string{"host": "node1"}},
			{ID: "web-3", Metadata: map[string]string{"host": "node2"}}, {ID: "web-4"},
		} {
			spec.DeploymentID = "shop"
			must[windsock.Instance](t)(first(s.PutInstance(t.Context(), spec, windsock.Cond{})))
		}
		i, d := windsock.KindInstance, windsock.KindDeployment
		lookups := []windsock.Lookup{
			{Kind: i, By: windsock.ByID, Value: "web-1"}, {Kind: i, By: windsock.ByProviderID, Value: "uuid-1"}, {Kind: i, By: windsock.ByAddress, Value: "10.0.0.2"},
			{Kind: i, By: windsock.ByName, Value: "web"}, {Kind: i, By: windsock.ByName, Value: ""}, {Kind: i, By: windsock.ByMetadata("host"), Value: "node1"},
			{Kind: i, By: windsock.ByMetadata("a.b"), Value: "x"}, {Kind: d, By: windsock.ByName, Value: "The shop"}, {Kind: d, By: windsock.ByProviderID, Value: "stack-1"},
			{Kind: i, By: windsock.ByID, Value: "'; DROP TABLE instances; --"}, {Kind: i, By: windsock.ByMetadata("host"), Value: "node3"},
		}
		want := [][]string{{"web-1"}, {"web-1"}, {"web-2"}, {"web-1", "web-2"}, nil, {"web-1", "web-2"}, {"web-1"}, {"shop"}, {"shop"}, nil, nil}
		expect(t, "found", must[[][]string](t)(s.Find(t.Context(), lookups)), want)
	})
}

func first[T any](v T, _ bool, err error) (T, error) { return v, err }

func TestUnmatchedAreBoundedAndCounted(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		note := func(subjects ...string) {
			var list []windsock.Unmatched
			for _, id := range subjects {
				list = append(list, windsock.Unmatched{Report: "alertmanager", Kind: windsock.KindInstance, Subject: id, Why: "unknown", Word: windsock.FailDetected, Count: 1})
			}
			if err := s.NoteUnmatched(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			c.now = c.now.Add(time.Second)
		}
		note("old")
		note("twice", "other")
		note("twice")
		list := must[[]windsock.Unmatched](t)(s.Unmatched(t.Context()))
		if len(list) != 3 || list[0].Subject != "twice" || list[0].Count != 2 || list[0].LastAt.Sub(list[0].FirstAt) < time.Second || list[2].Subject != "old" {
			t.Errorf("%+v", list)
		}
		var many []string
		for n := range windsock.MaxUnmatched - 2 {
			many = append(many, fmt.Sprint("n", n))
		}
		note(many...)
		list = must[[]windsock.Unmatched](t)(s.Unmatched(t.Context()))
		if len(list) != windsock.MaxUnmatched || list[len(list)-2].Subject != "twice" || list[len(list)-1].Subject != "other" {
			t.Errorf("%d are kept, the last are %+v", len(list), list[max(0, len(list)-2):])
		}
	})
}

// Each alert is a source of its own, and there is no end of alerts.
func TestOldAlertsMakeRoomForNew(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		said := func(source string, state windsock.State) windsock.Outcome {
			return record(t, s, instanceSaid("web-1", source, state))[0]
		}
		for n := range 3 * maxSources {
			alert := fmt.Sprint("alertmanager:", n)
			if out := said(alert, windsock.Failed); out.Err != nil || !out.Changed {
				t.Fatalf("alert %d fires: %+v", n, out)
			}
			if out := said(alert, windsock.Running); out.Err != nil || !out.Changed {
				t.Fatalf("alert %d is resolved: %+v", n, out)
			}
		}
		if out := said("stranger", windsock.Failed); !errors.Is(out.Err, windsock.ErrTooMany) {
			t.Errorf("one of another family took the place of an alert: %+v", out)
		}
		for n := range maxSources {
			if out := said(fmt.Sprint("alertmanager:", n), windsock.Failed); out.Err != nil {
				t.Fatalf("alert %d fires again: %+v", n, out)
			}
		}
		if out := said("alertmanager:one-more", windsock.Failed); !errors.Is(out.Err, windsock.ErrTooMany) {
			t.Errorf("one took the place of an alert that fires: %+v", out)
		}
		kept := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1"))
		if len(kept.Evidence) != maxSources || len(kept.Sources) != maxSources {
			t.Errorf("%d are kept, %d of them fire", len(kept.Evidence), len(kept.Sources))
		}
	})
}

// What lifts a failure that nobody reported leaves no trace.
func TestLiftingNothing(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		web := instanceSaid("web-1", "cluster", windsock.Running)
		shop := web
		shop.Subject = windsock.Subject{Kind: windsock.KindDeployment, ID: "shop"}
		fails := instanceSaid("web-1", "other", windsock.Failed)
		web.Lifts, shop.Lifts = true, true
		record(t, s, web, fails, shop)
		i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1"))
		d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "shop"))
		if i.State != windsock.Failed || len(i.Evidence) != 1 || len(d.Evidence) != 0 {
			t.Errorf("instance %s by %+v, deployment by %+v", i.State, i.Evidence, d.Evidence)
		}
		web.Lifts, web.State = false, windsock.Failed
		lifts := web
		lifts.Lifts, lifts.State = true, windsock.Running
		if out := record(t, s, web, lifts); out[1].Err != nil {
			t.Errorf("%+v", out)
		}
		if i = must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")); len(i.Sources) != 1 || i.Sources[0] != "other" {
			t.Errorf("after the failure was lifted %v say %s", i.Sources, i.State)
		}
	})
}
