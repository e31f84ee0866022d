package store

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"windsock"
)

var everyAction = []windsock.Action{windsock.ActionCreate, windsock.ActionUpdate, windsock.ActionDelete}

// chain is three components, each of which comes after the one before, and an independent one.
func chain() []node {
	ip := []windsock.Output{{Name: "ip"}}
	return []node{
		{Name: "a", On: "s1", Text: "$word", Outputs: ip, Actions: everyAction},
		{Name: "b", On: "s2", Gets: map[string]string{"A": "a.ip"}, Outputs: ip, Actions: everyAction},
		{Name: "c", On: "s2", Gets: map[string]string{"B": "b.ip"}, Actions: everyAction},
		{Name: "d", On: "s1", Actions: everyAction},
	}
}

// up has the chain be complete.
func (s *site) up() {
	s.Helper()
	s.deploy(chain(), "word=one", "secret=xyzzy")
	s.runs("s1", "s2")
	s.done("s1", "a", "ip=1")
	s.done("s1", "d")
	s.done("s2", "b", "ip=2")
	s.done("s2", "c")
	s.want("a:complete b:complete c:complete d:complete")
	s.wantShop(windsock.Running, "")
}

func (s *site) patch(change func(*windsock.DeploymentSpec)) error {
	s.Helper()
	_, err := s.PatchDeployment(s.Context(), "shop", windsock.Cond{}, func(spec *windsock.DeploymentSpec) error {
		change(spec)
		return nil
	})
	s.consistent()
	return err
}

func (s *site) word(word string) {
	s.Helper()
	if err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Parameters["word"] = word }); err != nil {
		s.Fatal(err)
	}
}

func TestUpdateRunsWhatChangedAndWhatDependsOnIt(t *testing.T) {
	eachDB(t, updateRunsWhatChangedAndWhatDependsOnIt)
}

func updateRunsWhatChangedAndWhatDependsOnIt(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	head := s.Head()
	s.word("two")
	s.want("a:available:UPDATE b:waiting:UPDATE c:waiting:UPDATE d:complete:UPDATE")
	s.wantShop(windsock.Starting, "3 of 4 components")
	s.done("s1", "a", "ip=1") // as before
	s.want("a:complete:UPDATE b:complete:UPDATE c:complete:UPDATE d:complete:UPDATE")
	s.wantShop(windsock.Running, "")
	want := []string{"a waiting>available", "a available>complete"}
	if got := s.told(head); !slices.Equal(got, want) {
		t.Errorf("told\n%q, want\n%q", got, want)
	}
	s.word("three")
	s.done("s1", "a", "ip=11")
	s.want("a:complete:UPDATE b:available:UPDATE c:waiting:UPDATE d:complete:UPDATE")
	task := s.done("s2", "b", "ip=2")
	if task.Action != windsock.ActionUpdate || task.Inputs[0].Value != "11" {
		t.Errorf("task %+v", task)
	}
	s.want("a:complete:UPDATE b:complete:UPDATE c:complete:UPDATE d:complete:UPDATE")
	if c := s.component("c"); c.Run != 1 {
		t.Errorf("c ran %d times", c.Run)
	}
	head = s.Head()
	if err := s.patch(func(*windsock.DeploymentSpec) {}); err != nil {
		t.Fatal(err)
	}
	if s.Head() != head {
		t.Error("a patch of nothing is told")
	}
}

func TestUpdateSupersedesWhatIsUnderWay(t *testing.T) { eachDB(t, updateSupersedesWhatIsUnderWay) }

func updateSupersedesWhatIsUnderWay(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(chain(), "word=one")
	s.runs("s1", "s2")
	old := s.tokenOf("s1", "a")
	s.says(old, windsock.Signal{Status: windsock.SignalStarted})
	before := s.revisionOf("s1")
	s.word("two")
	if s.revisionOf("s1") == before {
		t.Error("the instance's revision did not move")
	}
	s.want("a:available b:waiting c:waiting d:available")
	s.late(old, success("ip=1"), windsock.ComponentAvailable)
	if task := s.task("s1", "a"); task.Config != "two" || task.Action != windsock.ActionCreate {
		t.Errorf("task %+v", task)
	}
}

// An update that failed leaves nobody knows what: to go back runs it again.
func TestUpdateBackFromFailureRuns(t *testing.T) { eachDB(t, updateBackFromFailureRuns) }

func updateBackFromFailureRuns(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	s.word("two")
	s.says(s.tokenOf("s1", "a"), failure)
	s.word("one")
	s.want("a:available:UPDATE b:waiting:UPDATE c:waiting:UPDATE d:complete:UPDATE")
	s.done("s1", "a", "ip=1")
	s.want("a:complete:UPDATE b:complete:UPDATE c:complete:UPDATE d:complete:UPDATE")
}

func (s *site) revisionOf(instance string) int64 {
	s.Helper()
	return must[int64](s.T)(s.revision(s.Context(), instance))
}

func TestWhatIsNotPlannedAnyMoreIsDeletedInReverse(t *testing.T) {
	eachDB(t, whatIsNotPlannedAnyMoreIsDeletedInReverse)
}

func whatIsNotPlannedAnyMoreIsDeletedInReverse(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	s.deploy([]node{{Name: "d", On: "s1", Actions: everyAction}, {Name: "e", On: "s2", After: []string{"d"}}})
	s.want("a:waiting:DELETE b:waiting:DELETE c:available:DELETE d:complete:UPDATE e:available")
	s.done("s2", "c")
	s.want("a:waiting:DELETE b:available:DELETE d:complete:UPDATE e:available")
	if task := s.done("s2", "b"); task.Action != windsock.ActionDelete {
		t.Errorf("task %+v", task)
	}
	s.done("s1", "a")
	s.want("d:complete:UPDATE e:available")
	s.done("s2", "e")
	s.wantShop(windsock.Running, "")
}

// What is to go waits until those that used it do without.
func TestDeleteWaitsForTheUpdateOfWhatUsedIt(t *testing.T) {
	eachDB(t, deleteWaitsForTheUpdateOfWhatUsedIt)
}

func deleteWaitsForTheUpdateOfWhatUsedIt(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	s.deploy([]node{
		{Name: "b", On: "s2", Text: "alone", Actions: everyAction},
		{Name: "c", On: "s2", Gets: map[string]string{"B": "b.ip"}, Actions: everyAction},
		{Name: "d", On: "s1", Actions: everyAction},
	})
	s.want("a:waiting:DELETE b:available:UPDATE c:waiting:UPDATE d:complete:UPDATE")
	if w := s.component("a").WaitsFor; !slices.Equal(w, []string{"b"}) {
		t.Errorf("a waits for %q", w)
	}
	s.done("s2", "b", "ip=2")
	s.want("a:available:DELETE b:complete:UPDATE c:available:UPDATE d:complete:UPDATE") // c was given nothing: b declares no ip now
	s.says(s.tokenOf("s1", "a"), failure)
	s.wantShop(windsock.Failed, "component a on s1 failed")
	if c := must[windsock.Component](t)(s.CancelComponent(t.Context(), "shop", "c")); c.State != windsock.ComponentCancelled {
		t.Errorf("c is %+v", c)
	}
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "a"))
	if c := must[windsock.Component](t)(s.CancelComponent(t.Context(), "shop", "a")); c.State != windsock.ComponentCancelled {
		t.Errorf("a is %+v", c)
	}
	s.want("b:complete:UPDATE c:cancelled:UPDATE d:complete:UPDATE")
}

func TestDeploymentIsTakenDownInReverseAndUpAgain(t *testing.T) {
	eachDB(t, deploymentIsTakenDownInReverseAndUpAgain)
}

func deploymentIsTakenDownInReverseAndUpAgain(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	gone := func(spec *windsock.DeploymentSpec) { spec.Expected = windsock.Gone }
	if err := s.patch(gone); err != nil {
		t.Fatal(err)
	}
	s.want("a:waiting:DELETE b:waiting:DELETE c:available:DELETE d:available:DELETE")
	s.wantShop(windsock.Stopping, "4 of 4 components")
	s.done("s2", "c")
	if err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Expected = windsock.Running }); err != nil {
		t.Fatal(err)
	}
	// b and d had been told already to go, a not.
	s.want("a:complete:UPDATE b:available c:waiting d:available")
	s.done("s2", "b", "ip=2")
	s.done("s2", "c")
	s.done("s1", "d")
	s.wantShop(windsock.Running, "")
	if err := s.patch(gone); err != nil {
		t.Fatal(err)
	}
	s.done("s2", "c")
	record(t, s.Store, instanceSaid("s2", "probe-s2", windsock.Stopped))
	s.want("a:waiting:DELETE b:available:DELETE c:complete:DELETE d:available:DELETE")
	record(t, s.Store, instanceSaid("s2", "probe-s2", windsock.Gone))
	s.consistent()
	s.want("a:available:DELETE b:complete:DELETE c:complete:DELETE d:available:DELETE")
	if err := s.DeleteInstance(t.Context(), "s1", windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	s.consistent()
	s.want("a:complete:DELETE b:complete:DELETE c:complete:DELETE d:complete:DELETE")
	if err := s.DeleteDeployment(t.Context(), "shop", windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.read.Get(&left, `SELECT (SELECT count(*) FROM components) + (SELECT count(*) FROM component_edges) + (SELECT count(*) FROM component_plans)
		+ (SELECT count(*) FROM component_signals) + (SELECT count(*) FROM component_outputs) + (SELECT count(*) FROM servers) + (SELECT count(*) FROM deployed)`); err != nil || left > 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

func TestInstanceThatTakesThePlaceOfAnotherIsSetUpAnew(t *testing.T) {
	eachDB(t, instanceThatTakesThePlaceOfAnotherIsSetUpAnew)
}

func instanceThatTakesThePlaceOfAnotherIsSetUpAnew(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	s.word("two")
	before := s.revisionOf("s1")
	if err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Members = map[string]string{"s1": "new"} }); err != nil {
		t.Fatal(err)
	}
	s.want("a:waiting b:waiting:UPDATE c:waiting:UPDATE d:waiting")
	if s.revisionOf("s1") == before {
		t.Error("the old instance is not told")
	}
	s.runs("new")
	s.want("a:available b:waiting:UPDATE c:waiting:UPDATE d:available")
	s.done("new", "a", "ip=1")
	s.done("new", "d")
	s.want("a:complete b:complete:UPDATE c:complete:UPDATE d:complete")
	record(t, s.Store, instanceSaid("new", "probe-new", windsock.Gone)) // nobody takes its place yet
	s.want("a:complete b:complete:UPDATE c:complete:UPDATE d:complete")
	if _, _, err := s.PutInstance(t.Context(), windsock.InstanceSpec{ID: "newer", DeploymentID: "shop", Assembly: "s1"}, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	s.consistent()
	s.want("a:waiting b:waiting:UPDATE c:waiting:UPDATE d:waiting")
	if _, _, err := s.PutInstance(t.Context(), windsock.InstanceSpec{ID: "another", DeploymentID: "shop", Assembly: "s1"}, windsock.Cond{}); err != nil { // there is one
		t.Fatal(err)
	}
	if c := s.component("a"); c.InstanceID != "newer" {
		t.Errorf("a is for %s", c.InstanceID)
	}
	if err := s.DeleteInstance(t.Context(), "newer", windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	s.consistent()
	if c := s.component("a"); c.InstanceID != "another" {
		t.Errorf("a is for %s", c.InstanceID)
	}
}

func TestHiddenParametersAreNeverShown(t *testing.T) { eachDB(t, hiddenParametersAreNeverShown) }

func hiddenParametersAreNeverShown(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.up()
	d := must[windsock.Deployment](t)(s.Deployment(t.Context(), "shop"))
	if d.Parameters["secret"] != mask || d.Parameters["word"] != "one" || d.Deployable != "d1" {
		t.Errorf("shown are %v", d.Parameters)
	}
	hidden := func() string {
		var text string
		if err := s.read.Get(&text, `SELECT parameters FROM deployed`); err != nil {
			t.Fatal(err)
		}
		return text
	}
	s.word("two") // and the mask as it was
	if text := hidden(); !strings.Contains(text, `"xyzzy"`) || !strings.Contains(text, `"two"`) {
		t.Errorf("kept are %s", text)
	}
	if err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Parameters["secret"] = "plugh" }); err != nil {
		t.Fatal(err)
	}
	if text := hidden(); !strings.Contains(text, `"plugh"`) {
		t.Errorf("kept are %s", text)
	}
	if list := must[[]windsock.Deployment](t)(s.Deployments(t.Context(), windsock.Filter{Limit: 10})); list[0].Parameters["secret"] != mask {
		t.Errorf("listed are %v", list[0].Parameters)
	}
}

func TestMembersAreDeclaredAsPartsOfTheDeployable(t *testing.T) {
	eachDB(t, membersAreDeclaredAsPartsOfTheDeployable)
}

func membersAreDeclaredAsPartsOfTheDeployable(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	declare(t, s.Store, "other", "theirs")
	for name, members := range map[string]map[string]string{
		"no such server":              {"s3": "x"},
		"of another deployment":       {"s1": "theirs"},
		"no id":                       {"s1": "//"},
		"one of several that are not": {"s1": "ok", "s4": "y"},
	} {
		err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Members = members })
		if f := (*windsock.FieldError)(nil); !errors.As(err, &f) || !strings.HasPrefix(f.Field, "instances/s") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Instance(t.Context(), "ok"); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("something was kept: %v", err)
	}
	head := s.Head()
	if err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Members = map[string]string{"s1": "s1"} }); err != nil {
		t.Fatal(err)
	}
	if s.Head() != head {
		t.Error("what is so already is told")
	}
	i := must[windsock.Instance](t)(s.Instance(t.Context(), "s1"))
	if i.Assembly != "s1" || i.DeploymentID != "shop" {
		t.Errorf("instance %+v", i)
	}
}

func TestDeployables(t *testing.T) { eachDB(t, deployables) }

func deployables(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	add := func(id, source string) error {
		_, err := s.AddDeployable(t.Context(), windsock.Deployable{ID: id, Source: source})
		return err
	}
	d, err := s.AddDeployable(t.Context(), windsock.Deployable{ID: "bad", Source: "{"})
	if f := (*windsock.FieldError)(nil); !errors.As(err, &f) || f.Field != "template" || len(d.Findings) != 1 {
		t.Errorf("what cannot be read: %v, %+v", err, d)
	}
	if err := add("big", strings.Repeat(" ", maxDeployable+1)); err == nil {
		t.Error("5 MiB are taken")
	}
	s.deploy(dbAndWeb)
	one := must[windsock.Deployable](t)(s.Deployable(t.Context(), "d1"))
	if len(one.Components) != 2 || one.Source == "" {
		t.Errorf("it is %+v", one)
	}
	if err := add("d1", one.Source); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	if err := add("d1", "[]"); !errors.Is(err, windsock.ErrConflict) {
		t.Errorf("another of the same id: %v", err)
	}
	if err := add("d2", "[]"); err != nil {
		t.Fatal(err)
	}
	if list := must[[]windsock.Deployable](t)(s.Deployables(t.Context(), "d1", 10)); len(list) != 1 || list[0].ID != "d2" || list[0].Source != "" {
		t.Errorf("list %+v", list)
	}
	if err := s.RemoveDeployable(t.Context(), "d1"); !errors.Is(err, windsock.ErrConflict) {
		t.Errorf("removed although a deployment is made by it: %v", err)
	}
	if err := s.RemoveDeployable(t.Context(), "d2"); err != nil {
		t.Error(err)
	}
	if err := s.RemoveDeployable(t.Context(), "d2"); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	_, _, err = s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "x", Deployable: "d2"}, windsock.Cond{})
	if f := (*windsock.FieldError)(nil); !errors.As(err, &f) || f.Field != "deployable" {
		t.Errorf("of what is not there: %v", err)
	}
	s.Planner = nil
	if err := add("d3", "[]"); err == nil {
		t.Error("without a planner it is taken")
	}
}

// One that went on without another, as that was cancelled, waits for it once it is to run
// after all.
func TestWhatWasCancelledIsWaitedForAgain(t *testing.T) {
	eachDB(t, whatWasCancelledIsWaitedForAgain)
}

func whatWasCancelledIsWaitedForAgain(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{
		{Name: "db", On: "s1", Text: "install", Outputs: []windsock.Output{{Name: "ip"}}},
		{Name: "web", On: "s1", Text: "install", Gets: map[string]string{"DB": "db.ip"}},
		{Name: "page", On: "s1", Text: "install", After: []string{"web"}},
	})
	s.runs("s1")
	must[windsock.Component](t)(s.CancelComponent(t.Context(), "shop", "db"))
	void := s.done("s1", "web")
	s.want("db:cancelled web:complete page:available")
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "db"))
	s.want("db:available web:waiting:UPDATE page:waiting")
	s.done("s1", "db", "ip=10.0.0.1")
	if again := s.task("s1", "web"); again.ID == void.ID || again.Action != windsock.ActionUpdate {
		t.Errorf("web is offered as %s of run %s, before that it was %s", again.Action, again.ID, void.ID)
	}
	s.done("s1", "web")
	s.done("s1", "page")
	s.want("db:complete web:complete:UPDATE page:complete")
}

func TestWhatIsDeletedMayLoseItsServer(t *testing.T) { eachDB(t, whatIsDeletedMayLoseItsServer) }

func whatIsDeletedMayLoseItsServer(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Actions: everyAction[:]}})
	s.runs("s1")
	s.done("s1", "a")
	gone := func(spec *windsock.DeploymentSpec) { spec.Expected = windsock.Gone }
	if err := s.patch(gone); err != nil {
		t.Fatal(err)
	}
	s.want("a:available:DELETE")
	condition := must[windsock.Deployable](t)(s.AddDeployable(t.Context(), windsock.Deployable{ID: "other", Source: jsonList([]node{{Name: "a", Handle: "h"}})}))
	if err := s.patch(func(spec *windsock.DeploymentSpec) { spec.Deployable = condition.ID }); err != nil {
		t.Fatal(err)
	}
	s.want("a:complete:DELETE")
}
