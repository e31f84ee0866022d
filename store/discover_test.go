package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

func shown(kind windsock.Kind, id string, state windsock.State, as windsock.Description) windsock.Observation {
	return windsock.Observation{
		Subject: windsock.Subject{Kind: kind, ID: id}, Provider: "east", As: &as,
		Source: "provider:east", Origin: windsock.FromProvider, State: state, Raw: strings.ToUpper(string(state)),
	}
}

// seen is a look at what was described before.
func seen(id string, state windsock.State) windsock.Observation {
	o := shown(windsock.KindInstance, id, state, windsock.Description{})
	o.As = nil
	return o
}

func stack(id, name string) windsock.Observation {
	return shown(windsock.KindDeployment, id, windsock.Running, windsock.Description{Name: name, Pool: "p1"})
}

func server(id, deployment string, state windsock.State) windsock.Observation {
	return shown(windsock.KindInstance, id, state, windsock.Description{Deployment: deployment, Name: "name of " + id, Address: "10.0.0.1"})
}

func TestWhatAProviderShowsIsDeclared(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		out := record(t, s, stack("d1", "shop"), server("s1", "d1", windsock.Running), server("s2", "d1", windsock.Failed), server("s3", "nowhere", windsock.Running))
		if !errors.Is(out[3].Err, windsock.ErrNotFound) || out[0].Err != nil || !out[2].Changed {
			t.Errorf("outcomes are %+v", out)
		}
		d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "d1"))
		if d.Name != "shop" || d.Provider != "east" || d.ProviderID != "d1" || d.Pool != "p1" || d.State != windsock.Degraded || d.Instances[windsock.Running] != 1 {
			t.Errorf("the deployment is %+v", d)
		}
		i := must[windsock.Instance](t)(s.Instance(t.Context(), "s1"))
		if i.Name != "name of s1" || i.DeploymentID != "d1" || i.ProviderID != "s1" || i.Address != "10.0.0.1" || i.State != windsock.Running || i.Evidence[0].Raw != "RUNNING" {
			t.Errorf("the instance is %+v", i)
		}
	})
}

func TestADescriptionLeavesWhatTheOwnerWants(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		record(t, s, stack("d1", "shop"), server("s1", "d1", windsock.Running))
		must[windsock.Deployment](t)(s.PatchDeployment(t.Context(), "d1", windsock.Cond{}, func(d *windsock.DeploymentSpec) error {
			d.Rule, d.Quorum = "any", 2
			return nil
		}))
		must[windsock.Instance](t)(s.PatchInstance(t.Context(), "s1", windsock.Cond{}, func(i *windsock.InstanceSpec) error {
			i.Expected = windsock.Stopped
			return nil
		}))
		record(t, s, stack("d1", "another name"), server("s1", "d1", windsock.Running))
		d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "d1"))
		i := must[windsock.Instance](t)(s.Instance(t.Context(), "s1"))
		if d.Name != "another name" || d.Rule != "any" || d.Quorum != 2 || i.Expected != windsock.Stopped || !i.Drift {
			t.Errorf("%+v, %+v", d, i)
		}
	})
}

// What says nothing new is no event, whatever it is about.
func TestShownAgainTheSameIsNothing(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		all := []windsock.Observation{stack("d1", "shop"), server("s1", "d1", windsock.Running)}
		record(t, s, all...)
		head := s.Head()
		record(t, s, all...)
		record(t, s, seen("s1", windsock.Running))
		if s.Head() != head {
			t.Errorf("logged %+v", must[[]windsock.Event](t)(s.Events(t.Context(), head, 10, windsock.EventFilter{})))
		}
	})
}

func TestAnInstanceThatMovesTakesItsStateAlong(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		record(t, s, stack("d1", ""), stack("d2", ""), server("s1", "d1", windsock.Running), server("s2", "d1", windsock.Failed), server("s3", "d2", windsock.Running))
		after := s.Head()
		record(t, s, server("s2", "d2", windsock.Failed))
		if got, want := told(t, s, after), []string{"deployment d2 running>degraded", "deployment d1 degraded>running"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// A new instance counts even when nobody knows its state.
func TestANewInstanceOfUnknownStateCounts(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		record(t, s, stack("d1", ""), server("s1", "d1", windsock.Running))
		record(t, s, server("s2", "d1", windsock.Unknown))
		if d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "d1")); d.State != windsock.Unknown || d.Instances[windsock.Unknown] != 1 {
			t.Errorf("the deployment is %+v", d)
		}
	})
}

// Two providers, and an owner, may use one id for different things.
func TestProvidersDoNotMeddleWithEachOther(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "d1", "s1")
		record(t, s, stack("d1", ""), server("s1", "d1", windsock.Running))
		west := []windsock.Observation{stack("d1", ""), server("s1", "d1", windsock.Failed)}
		for i := range west {
			west[i].Provider, west[i].Source = "west", "provider:west"
		}
		record(t, s, west...)
		for id, want := range map[string]windsock.State{"s1": windsock.Unknown, "east.s1": windsock.Running, "west.s1": windsock.Failed} {
			if i := must[windsock.Instance](t)(s.Instance(t.Context(), id)); i.State != want {
				t.Errorf("%s is %s, want %s", id, i.State, want)
			}
		}
		record(t, s, seen("s1", windsock.Stopped))
		if i := must[windsock.Instance](t)(s.Instance(t.Context(), "east.s1")); i.State != windsock.Stopped {
			t.Errorf("it is %s", i.State)
		}
	})
}

// An owner may declare beforehand what a provider will show.
func TestWhatWasDeclaredIsAdopted(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		must[windsock.Deployment](t)(second(s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop", Provider: "east", ProviderID: "d1", Quorum: 2}, windsock.Cond{})))
		must[windsock.Instance](t)(second(s.PutInstance(t.Context(), windsock.InstanceSpec{ID: "web-1", DeploymentID: "shop", ProviderID: "s1"}, windsock.Cond{})))
		record(t, s, stack("d1", "n"), server("s1", "d1", windsock.Running))
		d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "shop"))
		if d.Name != "n" || d.Quorum != 2 || d.Instances[windsock.Running] != 1 {
			t.Errorf("the deployment is %+v", d)
		}
		if list := must[[]windsock.Instance](t)(s.Instances(t.Context(), windsock.Filter{Limit: 10})); len(list) != 1 || list[0].ID != "web-1" {
			t.Errorf("there are %+v", list)
		}
	})
}

func second[T any](v T, _ bool, err error) (T, error) { return v, err }

// A provider's word is no user's input.
func TestADescriptionIsMadeFit(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		o := stack("d1", strings.Repeat("ü", 1000)+"\x00\xff")
		o.As.Metadata = map[string]string{"bell\a": "v", "k": "line\nbreak\x1b[31m"}
		if out := record(t, s, o); out[0].Err != nil {
			t.Fatal(out[0].Err)
		}
		if d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "d1")); len(d.Name) > 255 || d.Metadata["k"] != "line break [31m" || len(d.Metadata) != 1 {
			t.Errorf("the deployment is %+v", d)
		}
		if out := record(t, s, stack(strings.Repeat("x", 300), "")); out[0].Err == nil {
			t.Error("an id that cannot be ours was taken")
		}
	})
}

func TestKnown(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		record(t, s, stack("d1", ""), server("s1", "d1", windsock.Running), server("s2", "d1", windsock.Unknown), server("s3", "d1", windsock.Running))
		record(t, s, seen("s3", windsock.Gone))
		declare(t, s, "other", "s9")
		if ids := must[[]string](t)(s.Known(t.Context(), "east", windsock.KindInstance, "", 10)); !slices.Equal(ids, []string{"s1", "s2"}) {
			t.Errorf("it knows %q", ids)
		}
		if ids := must[[]string](t)(s.Known(t.Context(), "east", windsock.KindInstance, "s1", 1)); !slices.Equal(ids, []string{"s2"}) {
			t.Errorf("it knows %q", ids)
		}
		if ids := must[[]string](t)(s.Known(t.Context(), "east", windsock.KindDeployment, "", 10)); !slices.Equal(ids, []string{"d1"}) {
			t.Errorf("it knows %q", ids)
		}
	})
}

// A provider that nobody can list any more makes what it showed stale, at the cost of one
// row and one event, and no state changes.
func TestAProviderIsLostAndComesBack(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		record(t, s, stack("d1", ""), server("s1", "d1", windsock.Running))
		status := windsock.ProviderStatus{ID: "east", Kind: "cloud", Every: windsock.Duration(10 * time.Second), CompleteAt: s.now()}
		save := func() {
			t.Helper()
			if err := s.SaveProvider(t.Context(), status); err != nil {
				t.Fatal(err)
			}
		}
		pass := func(d time.Duration) {
			t.Helper()
			c.advance(d)
			var alive time.Time
			if err := s.tick(t.Context(), &alive); err != nil {
				t.Fatal(err)
			}
		}
		stale := func() bool {
			t.Helper()
			yes := true
			list := must[[]windsock.Instance](t)(s.Instances(t.Context(), windsock.Filter{Limit: 10, Stale: &yes}))
			deployments := must[[]windsock.Deployment](t)(s.Deployments(t.Context(), windsock.Filter{Limit: 10, Stale: &yes}))
			if len(list) != len(deployments) || len(list) == 1 && !(list[0].Stale && deployments[0].Stale) {
				t.Errorf("stale are %+v and %+v", list, deployments)
			}
			return len(list) > 0
		}
		save()
		after := s.Head()
		pass(29 * time.Second)
		status.LastError = "HTTP 503"
		save()
		if stale() || s.Head() != after {
			t.Error("it was lost too early")
		}
		pass(2 * time.Second)
		pass(time.Hour)
		if !stale() {
			t.Error("it is not stale")
		}
		status.CompleteAt, status.LastError = s.now(), ""
		save()
		if stale() {
			t.Error("it is still stale")
		}
		var got []string
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), after, 10, windsock.EventFilter{Scope: "provider:east"})) {
			got = append(got, string(e.Type)+" "+e.SubjectID+" "+e.Reason)
		}
		if want := []string{"provider.lost east HTTP 503", "provider.back east "}; !slices.Equal(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
		if got := told(t, s, after); len(got) > 0 {
			t.Errorf("told %q", got)
		}
		status.CompleteAt, status.WholeTook = s.now(), windsock.Duration(time.Minute) // that much later can the next be expected
		save()
		if pass(89 * time.Second); stale() {
			t.Error("it was lost before a listing could come to its end")
		}
		if pass(2 * time.Second); !stale() {
			t.Error("it is not stale")
		}
	})
}

// group is a deployment of which a provider says what it is, and nothing of its state.
func group(id, name string) windsock.Observation {
	return shown(windsock.KindDeployment, id, "", windsock.Description{Name: name, Pool: "p1"})
}

func TestADeploymentThatIsOnlyDescribedIsWhatItsMembersAre(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		after := s.Head()
		out := record(t, s, group("g", "backends"), stack("d1", "shop"))
		if out[0].Err != nil || out[0].Changed || out[0].State != windsock.Unknown {
			t.Errorf("the outcome is %+v", out[0])
		}
		record(t, s, server("s1", "g", windsock.Starting))
		record(t, s, server("s1", "d1", windsock.Starting)) // of a new stack, which was not known to be one at first
		record(t, s, seen("s1", windsock.Running))
		want := []string{
			"deployment d1 unknown>running", "instance s1 unknown>starting", "deployment g unknown>starting",
			"deployment d1 running>starting", "deployment g starting>unknown", "instance s1 starting>running", "deployment d1 starting>running",
		}
		if got := told(t, s, after); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		record(t, s, group("g", "another name"))
		d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "g"))
		if d.Name != "another name" || d.Pool != "p1" || d.State != windsock.Unknown || len(d.Evidence) != 0 {
			t.Errorf("it is %+v", d)
		}
	})
}

// It leaves the model when it has had no members for a day, and no monitor hears of it.
func TestADeploymentThatIsOnlyDescribedLeavesTheModelWithItsMembers(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		for _, id := range []string{"emptied", "new", "full", "reported", "owned", "declared"} {
			record(t, s, group(id, ""))
		}
		record(t, s, server("s1", "emptied", windsock.Running), server("s2", "full", windsock.Unknown))
		record(t, s, said(windsock.KindDeployment, "reported", "somebody", windsock.Running))
		must[windsock.Deployment](t)(second(s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "owned", Provider: "east", ProviderID: "owned"}, windsock.Cond{})))
		if err := s.Declare(t.Context(), []windsock.DeploymentSpec{{ID: "declared"}}, nil); err != nil {
			t.Fatal(err)
		}
		c.advance(20 * time.Hour)
		record(t, s, server("s1", "full", windsock.Running), group("new", "renamed"))
		after := s.Head()
		sweep := func() (ids []string) {
			t.Helper()
			must[bool](t)(s.sweepGone(t.Context()))
			for _, d := range must[[]windsock.Deployment](t)(s.Deployments(t.Context(), windsock.Filter{Limit: 10})) {
				ids = append(ids, d.ID)
			}
			return ids
		}
		c.advance(5 * time.Hour)
		if ids := sweep(); len(ids) != 6 {
			t.Errorf("left are %q", ids)
		}
		c.advance(20 * time.Hour)
		if ids := sweep(); !slices.Equal(ids, []string{"declared", "full", "owned", "reported"}) {
			t.Errorf("left are %q", ids)
		}
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), after, 10, windsock.EventFilter{})) {
			if e.Type != windsock.DeploymentRemoved || e.Word != "" {
				t.Errorf("logged %+v", e)
			}
		}
		if out := record(t, s, group("new", "renamed"), server("s3", "new", windsock.Running)); out[1].Err != nil {
			t.Errorf("shown again: %v", out[1].Err)
		}
	})
}

func TestWhatIsGoneForADayLeavesTheModel(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "ours", "mine")
		record(t, s, stack("d1", ""), stack("d2", ""), server("s1", "d1", windsock.Running), server("s2", "d1", windsock.Running), server("s3", "d2", windsock.Running))
		must[windsock.Instance](t)(second(s.PutInstance(t.Context(), windsock.InstanceSpec{ID: "s3", DeploymentID: "d2", ProviderID: "s3"}, windsock.Cond{})))
		gone := stack("d1", "")
		gone.As, gone.State = nil, windsock.Gone
		record(t, s, seen("s1", windsock.Gone), seen("s2", windsock.Gone), seen("s3", windsock.Gone), gone)
		sweep := func() (ids []string) {
			t.Helper()
			if more := must[bool](t)(s.sweepGone(t.Context())); more {
				t.Error("there is more")
			}
			for _, i := range must[[]windsock.Instance](t)(s.Instances(t.Context(), windsock.Filter{Limit: 10})) {
				ids = append(ids, i.ID)
			}
			for _, d := range must[[]windsock.Deployment](t)(s.Deployments(t.Context(), windsock.Filter{Limit: 10})) {
				ids = append(ids, d.ID)
			}
			return ids
		}
		c.advance(23 * time.Hour)
		if ids := sweep(); len(ids) != 7 {
			t.Errorf("left are %q", ids)
		}
		c.advance(2 * time.Hour)
		if ids := sweep(); !slices.Equal(ids, []string{"mine", "s3", "d2", "ours"}) {
			t.Errorf("left are %q", ids)
		}
	})
}
