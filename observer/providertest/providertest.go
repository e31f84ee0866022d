// Package providertest says what every provider has to do, whatever it talks to. The test
// of a provider writes a small fake of its cloud, and calls Run.
package providertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"windsock"
	"windsock/observer"
)

// PageSize is how many instances a fake shows on a page of a listing, at most.
const PageSize = 3

// A Cloud is a fake of what a provider talks to. The suite drives it.
type Cloud interface {
	// Provider returns a provider that talks to it, and remembers nothing.
	Provider() observer.Provider

	// Put makes an instance, or changes it.
	Put(Instance)

	// Remove deletes an instance, as its owner would.
	Remove(id string)

	// Lose has the cloud be without an instance as if it had never been, as one is that
	// lost our rights or a part of its database. Put brings it back.
	Lose(id string)

	// Word is the cloud's own word for an instance in a state: running, stopped or failed;
	// and for unknown one that nobody knows, or "" if any word is one.
	Word(windsock.State) string

	// Break has all that is asked of it go wrong once so many pages of instances of the
	// present listing were shown; with 0 it is everything that does. A Check, which is no
	// listing, goes wrong with 0 only. Fine mends it.
	Break(pages int, f Fault)
}

// An Instance is what the suite puts into a cloud.
type Instance struct {
	ID         string
	Name       string
	Deployment string // names it, as users of the cloud do
	Word       string // the cloud's own, for its state
}

// Run runs the suite, with a new cloud for each of its tests.
func Run(t *testing.T, newCloud func(t *testing.T) Cloud) {
	for name, test := range map[string]func(*testing.T, Cloud){
		"AListingIsComplete":               testListing,
		"AListingShowsEachThingOnce":       testRepeats,
		"AnEmptyListingIsOne":              testEmpty,
		"AnErrorOfPageEndsIt":              testPageError,
		"WhatGoesWrongIsAnError":           testFaults,
		"ACancelledListingReturns":         testCancelled,
		"ChangesAreShown":                  testChanges,
		"ChangesAreNotLostByAFault":        testChangesAfterFault,
		"CheckLooksAtOneThing":             testCheck,
		"CheckIsNotCertainOfWhatGoesWrong": testCheckFaults,
		"WordsHaveStates":                  testWords,
		"AnUnknownWordIsNoState":           testUnknownWord,
		"NothingIsGoneByAFault":            testNothingGone,
		"WhatIsGoneIsGone":                 testGone,
		"WhatIsLostIsGoneInTheEnd":         testLost,
		"MostDoNotVanishAtOnce":            testVanishGuard,
		"AHostIsShownBeforeWhatRunsOnIt":   testHosts,
	} {
		t.Run(name, func(t *testing.T) { test(t, newCloud(t)) })
	}
}

// id is the id of the nth instance: a UUID, as that is what clouds like best.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// fill puts n running instances into two deployments.
func fill(c Cloud, n int) (all []Instance) {
	for i := range n {
		all = append(all, Instance{ID: id(i), Name: fmt.Sprintf("web-%d", i), Deployment: []string{"shop", "blog"}[i%2], Word: c.Word(windsock.Running)})
		c.Put(all[i])
	}
	return all
}

// listing is what a provider showed, in order.
type listing []windsock.Sighting

// list has p show what look shows.
func list(ctx context.Context, look func(context.Context, func([]windsock.Sighting) error) error) (l listing, err error) {
	err = look(ctx, func(page []windsock.Sighting) error {
		for _, s := range page {
			if _, node := windsock.NodeHost(s.ID); !node { // those have a test of their own
				l = append(l, s)
			}
		}
		return nil
	})
	return l, err
}

func mustList(t *testing.T, look func(context.Context, func([]windsock.Sighting) error) error) listing {
	t.Helper()
	l, err := list(t.Context(), look)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l listing) find(id string) *windsock.Sighting {
	if i := slices.IndexFunc(l, func(s windsock.Sighting) bool { return s.ID == id }); i >= 0 {
		return &l[i]
	}
	return nil
}

// check has l show the instances as they are, each once and after its deployment.
func (l listing) check(t *testing.T, want []Instance, state windsock.State) {
	t.Helper()
	shown := map[windsock.Subject]*windsock.Sighting{}
	deployments := map[string]string{} // by the name that the suite gave it
	instances := 0
	for _, s := range l {
		if old := shown[s.Subject]; old != nil && slices.Equal(old.RunsOn, s.RunsOn) {
			t.Errorf("%s %q is shown twice", s.Kind, s.ID)
		}
		shown[s.Subject] = &s
		if s.Kind != windsock.KindInstance {
			continue
		}
		instances++
		i := slices.IndexFunc(want, func(w Instance) bool { return w.ID == s.ID })
		if i < 0 {
			t.Errorf("%q is not there", s.ID)
			continue
		}
		w := want[i]
		if s.State != state || s.Raw == "" || s.Name != w.Name {
			t.Errorf("%+v is shown as %+v", w, s)
		}
		if shown[windsock.Subject{Kind: windsock.KindDeployment, ID: s.Deployment}] == nil {
			t.Errorf("the deployment %q of %q was not shown before it", s.Deployment, s.ID)
		}
		if of, ok := deployments[w.Deployment]; ok && of != s.Deployment {
			t.Errorf("%q is of %q and of %q", w.Deployment, of, s.Deployment)
		}
		deployments[w.Deployment] = s.Deployment
	}
	if instances != len(want) {
		t.Errorf("%d instances are shown, there are %d", instances, len(want))
	}
	if len(deployments) == 2 && deployments["shop"] == deployments["blog"] {
		t.Error("two deployments are one")
	}
}

func testListing(t *testing.T, c Cloud) {
	want := fill(c, 3*PageSize+1)
	p := c.Provider()
	for range 2 {
		mustList(t, p.Observe).check(t, want, windsock.Running)
	}
}

func testRepeats(t *testing.T, c Cloud) {
	want := fill(c, 3*PageSize+1)
	c.Break(1, Repeating)
	mustList(t, c.Provider().Observe).check(t, want, windsock.Running)
}

func testEmpty(t *testing.T, c Cloud) {
	for _, s := range mustList(t, c.Provider().Observe) {
		if s.Kind == windsock.KindInstance {
			t.Errorf("%+v is shown", s)
		}
	}
}

func testPageError(t *testing.T, c Cloud) {
	fill(c, 3*PageSize+1)
	stop, pages := errors.New("stop"), 0
	err := c.Provider().Observe(t.Context(), func([]windsock.Sighting) error {
		if pages++; pages == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || pages != 2 {
		t.Errorf("it returned %v after %d pages", err, pages)
	}
}

// testFaults breaks the cloud after each number of good pages in each way there is.
func testFaults(t *testing.T, c Cloud) {
	want := fill(c, 3*PageSize+1)
	for _, f := range faults {
		for after := range 4 {
			t.Run(fmt.Sprintf("%s after %d pages", f, after), func(t *testing.T) {
				defer c.Break(0, Fine)
				p := c.Provider()
				c.Break(after, f)
				if l, err := list(t.Context(), p.Observe); err == nil {
					t.Errorf("there was no error, and %d things shown", len(l))
				}
				c.Break(0, Fine)
				mustList(t, p.Observe).check(t, want, windsock.Running)
			})
		}
	}
}

// testCancelled has page after page never come, and waits for no more than the return.
func testCancelled(t *testing.T, c Cloud) {
	fill(c, 3*PageSize+1)
	for after := range 3 {
		c.Break(after, Hanging(t))
		ctx, cancel := context.WithCancel(t.Context())
		hangs := c.Provider()
		done := make(chan error, 1)
		pages := make(chan int, 10)
		go func() {
			_, err := list(ctx, func(ctx context.Context, page func([]windsock.Sighting) error) error {
				return hangs.Observe(ctx, func(s []windsock.Sighting) error {
					pages <- len(s)
					return page(s)
				})
			})
			done <- err
		}()
		for range after {
			<-pages
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("a listing that was called off had no error")
		}
		c.Break(0, Fine)
	}
}

// changesOf returns the Changes of a provider, once everything was listed.
func changesOf(t *testing.T, c Cloud) func(context.Context, func([]windsock.Sighting) error) error {
	p := c.Provider()
	d, ok := p.(observer.Differ)
	if !ok {
		t.Skip("the provider does not tell what changed")
	}
	mustList(t, p.Observe)
	return d.Changes
}

func testChanges(t *testing.T, c Cloud) {
	all := fill(c, 2*PageSize)
	changes := changesOf(t, c)
	all[0].Word = c.Word(windsock.Failed)
	c.Put(all[0])
	c.Remove(all[1].ID)
	fresh := Instance{ID: id(100), Name: "new", Deployment: "shop", Word: c.Word(windsock.Running)}
	c.Put(fresh)
	l := mustList(t, changes)
	if s := l.find(all[0].ID); s == nil || s.State != windsock.Failed {
		t.Errorf("what failed is shown as %+v", s)
	}
	if s := l.find(all[1].ID); s != nil && s.State != windsock.Gone {
		t.Errorf("what is gone is shown as %+v", s)
	}
	if s := l.find(fresh.ID); s == nil || s.State != windsock.Running || l.find(s.Deployment) == nil {
		t.Errorf("what is new is shown as %+v", s)
	}
}

func testChangesAfterFault(t *testing.T, c Cloud) {
	all := fill(c, 2*PageSize)
	changes := changesOf(t, c)
	all[0].Word = c.Word(windsock.Failed)
	c.Put(all[0])
	for _, f := range faults {
		c.Break(0, f)
		if l, err := list(t.Context(), changes); err == nil {
			t.Errorf("%s: there was no error, and %d things shown", f, len(l))
		}
	}
	c.Break(0, Fine)
	if s := mustList(t, changes).find(all[0].ID); s == nil || s.State != windsock.Failed {
		t.Errorf("what failed is shown as %+v", s)
	}
}

func testCheck(t *testing.T, c Cloud) {
	all := fill(c, 4)
	all[1].Word = c.Word(windsock.Stopped)
	c.Put(all[1])
	p := c.Provider()
	l := mustList(t, p.Observe)
	for _, want := range l {
		if want.Kind != windsock.KindInstance {
			continue
		}
		got, err := p.Check(t.Context(), want.Subject)
		if err != nil || got.Subject != want.Subject || got.State != want.State || got.Raw != want.Raw || got.Name != want.Name || got.Deployment != want.Deployment {
			t.Errorf("listed as %+v, looked at as %+v, %v", want, got, err)
		}
	}
	c.Remove(all[2].ID)
	c.Lose(all[3].ID)
	if s, err := p.Check(t.Context(), l.find(all[3].ID).Subject); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("what is lost is looked at as %+v, %v", s, err)
	}
	if s, err := p.Check(t.Context(), l.find(all[2].ID).Subject); !errors.Is(err, windsock.ErrNotFound) && (err != nil || s.State != windsock.Gone) {
		t.Errorf("what is gone is looked at as %+v, %v", s, err)
	}
	if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id(999)}); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("what never was is looked at as %+v, %v", s, err)
	}
}

func testCheckFaults(t *testing.T, c Cloud) {
	all := fill(c, 2)
	for _, f := range faults {
		p := c.Provider()
		l := mustList(t, p.Observe)
		c.Break(0, f)
		for range 2 { // at first with what it knows, then perhaps anew
			if s, err := p.Check(t.Context(), l.find(all[0].ID).Subject); err == nil || errors.Is(err, windsock.ErrNotFound) {
				t.Errorf("%s: it is looked at as %+v, %v", f, s, err)
			}
		}
		c.Break(0, Fine)
	}
}

func testWords(t *testing.T, c Cloud) {
	words := c.Provider().Words()
	for _, state := range []windsock.State{windsock.Running, windsock.Stopped, windsock.Failed} {
		if words[c.Word(state)] != state {
			t.Errorf("%q stands for %q, not %s", c.Word(state), words[c.Word(state)], state)
		}
	}
	for word, state := range words {
		if word == "" || !slices.Contains(windsock.InstanceStates[:], state) && !slices.Contains(windsock.DeploymentStates[:], state) {
			t.Errorf("%q stands for %q", word, state)
		}
	}
}

func testUnknownWord(t *testing.T, c Cloud) {
	all := fill(c, 2)
	all[0].Word = cmp.Or(c.Word(windsock.Unknown), "FLABBERGASTED")
	c.Put(all[0])
	p := c.Provider()
	s := mustList(t, p.Observe).find(all[0].ID)
	if s == nil || s.State != windsock.Unknown || !strings.Contains(s.Raw, all[0].Word) {
		t.Errorf("it is shown as %+v", s)
	}
}
