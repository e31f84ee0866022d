package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"windsock"
)

// panicky is a planner with a fault.
type panicky struct {
	planner
	also *string // a text that it cannot bear
}

func (p panicky) Resolve(spec []byte, action windsock.Action, known windsock.Known) (windsock.Job, error) {
	if strings.Contains(string(spec), "panic") || *p.also != "" && strings.Contains(string(spec), *p.also) {
		panic("no job")
	}
	return p.planner.Resolve(spec, action, known)
}

func (p panicky) Plan(d windsock.Deployable, spec windsock.DeploymentSpec) (windsock.Plan, error) {
	if d.ID == "panic" {
		panic("no plan")
	}
	return p.planner.Plan(d, spec)
}

func TestAPanicOfThePlannerIsOneComponentsFailure(t *testing.T) {
	s := newSite(t, freshFile)
	var log bytes.Buffer
	var also string
	s.Planner, s.Logger = panicky{also: &also}, slog.New(slog.NewTextHandler(&log, nil))
	s.deploy([]node{
		{Name: "a", On: "s1"}, {Name: "b", On: "s1", Text: "panic"}, {Name: "c", On: "s1", Text: "later"},
		{Name: "d", On: "s1", Text: "panic", After: []string{"a"}}, {Name: "e", On: "s1", After: []string{"a"}},
	})
	s.runs("s1")
	s.want("a:available b:failed c:available d:waiting e:waiting")
	s.wantShop(windsock.Failed, "component b on s1 failed: internal error")
	s.done("s1", "a")
	s.want("a:complete b:failed c:available d:failed e:available")
	also = "later"
	if got := s.offered("s1"); len(got) != 1 {
		t.Errorf("s1 may run %v", got)
	}
	s.want("a:complete b:failed c:failed d:failed e:available")
	if !strings.Contains(log.String(), "no job") {
		t.Errorf("nobody is told why: %s", log.String())
	}
	must[windsock.Deployable](t)(s.AddDeployable(t.Context(), windsock.Deployable{ID: "panic", Source: "[]"}))
	if err := s.patch(func(d *windsock.DeploymentSpec) { d.Deployable = "panic" }); err == nil {
		t.Error("there is a plan")
	}
	s.done("s1", "e")
	s.want("a:complete b:failed c:failed d:failed e:complete")
}
