package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"windsock"
)

func acts(t *testing.T, s *Store) (list []string) {
	t.Helper()
	for _, a := range must[[]*windsock.Act](t)(s.Acts(t.Context(), 0, 100)) {
		list = append(list, fmt.Sprint(a.Name, " ", a.Method, " ", a.Route, " ", a.Subject, " ", a.Status))
	}
	return list
}

// An act is stored by the transaction that does it, once, and not if nothing was done.
func TestActsAreKeptWithWhatTheyDo(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		act := &windsock.Act{Name: "ops", Method: "PUT", Route: "/api/deployments/{id}", Subject: "shop", Status: 200, Address: "192.0.2.1"}
		ctx := windsock.WithAct(t.Context(), act)
		fails := errors.New("fails")
		if err := s.do(ctx, func(*tx) error { return fails }); err != fails || act.Kept() {
			t.Errorf("got %v, kept: %v", err, act.Kept())
		}
		if got := acts(t, s); len(got) > 0 {
			t.Errorf("of what failed there is %v", got)
		}
		for range 2 {
			if _, _, err := s.PutDeployment(ctx, windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := acts(t, s); !act.Kept() || len(got) != 1 || got[0] != "ops PUT /api/deployments/{id} shop 200" {
			t.Errorf("kept: %v, stored are %v", act.Kept(), got)
		}
		if _, _, err := s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "blog"}, windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
		if got := acts(t, s); len(got) != 1 {
			t.Errorf("who is nobody left %v", got)
		}
	})
}

// Acts are kept as long, and as many, as events.
func TestActsAreForgotten(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		keep := func(n int) {
			for i := range n {
				if err := s.KeepAct(t.Context(), &windsock.Act{Name: "ops", Method: "POST", Route: fmt.Sprint("/", i), Status: 404}); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := &Retention{Store: s, Age: time.Hour, Events: 3, Horizon: 1}
		keep(2)
		c.advance(time.Hour)
		keep(2)
		if err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := acts(t, s); fmt.Sprint(got) != "[ops POST /1  404 ops POST /0  404]" {
			t.Errorf("an hour later there are %v", got)
		}
		keep(4)
		if err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		list := must[[]*windsock.Act](t)(s.Acts(t.Context(), 0, 100))
		if len(list) != 3 || list[2].Route != "/1" {
			t.Errorf("of six there are %v", acts(t, s))
		}
		if page := must[[]*windsock.Act](t)(s.Acts(t.Context(), list[0].ID, 1)); len(page) != 1 || page[0].ID != list[1].ID {
			t.Errorf("the second page has %v, want %d", page, list[1].ID)
		}
	})
}
