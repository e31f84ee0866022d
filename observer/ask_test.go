package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"windsock"
	"windsock/observer/probe"
)

// place is where a thing of the cloud lies; its id of ours is the cloud's with w- before.
func place(s windsock.Subject) windsock.Place {
	return windsock.Place{Subject: windsock.Subject{Kind: s.Kind, ID: "w-" + s.ID}, Provider: "east", ProviderID: s.ID}
}

func instance(id string) windsock.Place {
	return place(windsock.Subject{Kind: windsock.KindInstance, ID: id})
}

// asking polls a cloud and lets test ask its observer.
func asking(t *testing.T, m *model, p Provider, test func(t *testing.T, o *Observer, recorded func() string)) {
	t.Helper()
	inner := m.record
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		m.record = func(batch []windsock.Observation) error {
			if inner != nil {
				if err := inner(batch); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, b := range batch {
				got = append(got, b.Subject.ID+">"+string(b.State))
			}
			return nil
		}
		o := &Observer{
			Model: m, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
			Look: func(context.Context, windsock.Probe) probe.Result {
				return probe.Result{State: windsock.Failed, Reason: "no answer"}
			},
			Providers: []Source{{ID: "east", Provider: p, Every: 10 * time.Second}},
		}
		defer running(t, o)()
		pass(time.Millisecond)
		test(t, o, func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { got = nil }()
			return strings.Join(got, " ")
		})
	})
}

func TestACheckAsksTheProvider(t *testing.T) {
	c := &cloud{things: fleet(3)}
	m := newModel()
	m.probes["w-s00"] = every(24*time.Hour, "s00")
	asking(t, m, c, func(t *testing.T, o *Observer, recorded func() string) {
		pass(time.Minute)
		recorded()
		c.set(stack("d"), server("s00", windsock.Stopped), server("s02", windsock.Running))
		both := instance("s00")
		both.Probed = true
		for _, tc := range []struct {
			at       windsock.Place
			want     []windsock.Look
			recorded string
		}{
			{both, []windsock.Look{{Source: "provider:east", State: windsock.Stopped, Raw: "STOPPED"}, {Source: "probe", State: windsock.Failed, Reason: "no answer"}}, "s00>stopped w-s00>failed"},
			{instance("s01"), []windsock.Look{{Source: "provider:east", State: windsock.Gone, Reason: "the provider does not have it"}}, "s01>gone"},
			{instance("s02"), []windsock.Look{{Source: "provider:east", State: windsock.Running, Raw: "RUNNING"}}, ""}, // as it was
			{instance("never"), []windsock.Look{{Source: "provider:east", State: windsock.Gone, Reason: "the provider does not have it"}}, "never>gone"},
			{place(stack("d").Subject), []windsock.Look{{Source: "provider:east", State: windsock.Running, Raw: "CREATE_COMPLETE"}}, ""},
			{windsock.Place{Subject: both.Subject, Provider: "west", ProviderID: "s00"}, nil, ""},
			{windsock.Place{Subject: both.Subject, Provider: "east"}, nil, ""},
		} {
			got, err := o.Check(t.Context(), tc.at)
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%+v: %v (-want +got) %s", tc.at, err, d)
			}
			want(t, recorded(), tc.recorded)
		}
	})
}

// That the provider cannot be asked is told, changes nothing, and hides nothing.
func TestACheckThatTheProviderDoesNotAnswer(t *testing.T) {
	c := &cloud{things: fleet(3)}
	m := newModel()
	m.probes["w-s00"] = every(24*time.Hour, "s00")
	asking(t, m, c, func(t *testing.T, o *Observer, recorded func() string) {
		pass(time.Minute)
		recorded()
		c.with(func() {
			c.check = func(windsock.Subject) (windsock.Sighting, error) { return windsock.Sighting{}, errors.New("HTTP 503") }
		})
		at := instance("s00")
		at.Probed = true
		got, err := o.Check(t.Context(), at)
		if d := cmp.Diff([]windsock.Look{{Source: "provider:east", Error: "HTTP 503"}, {Source: "probe", State: windsock.Failed, Reason: "no answer"}}, got); d != "" || err != nil {
			t.Errorf("%v (-want +got) %s", err, d)
		}
		want(t, recorded(), "w-s00>failed")
	})
}

func TestChecksShareOneLookAtTheProvider(t *testing.T) {
	c := &cloud{things: fleet(3)}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		recorded()
		c.with(func() {
			c.check = func(s windsock.Subject) (windsock.Sighting, error) {
				time.Sleep(time.Second)
				return server(s.ID, windsock.Failed), nil
			}
		})
		answers := make(chan error)
		for range 10 {
			go func() {
				looks, err := o.Check(t.Context(), instance("s01"))
				if err == nil && windsock.Seen(looks) != windsock.Failed {
					err = fmt.Errorf("saw %+v", looks)
				}
				answers <- err
			}()
		}
		for range 10 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		want(t, recorded(), "s01>failed")
		if len(c.checks) != 1 {
			t.Errorf("looked at %v", c.checks)
		}
	})
}

// all are the places of a fleet of n.
func all(n int) []windsock.Place {
	places := []windsock.Place{place(stack("d").Subject)}
	for _, s := range fleet(n)[1:] {
		places = append(places, instance(s.ID))
	}
	return places
}

func TestFewAreLookedAtOneByOne(t *testing.T) {
	c := &cloud{things: fleet(maxSingles - 1)}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		recorded()
		listings := c.listed()
		c.set(fleet(maxSingles - 2)...)
		got, err := o.CheckAll(t.Context(), all(maxSingles-1))
		if err != nil || len(got) != maxSingles {
			t.Fatalf("%d were looked at: %v", len(got), err)
		}
		for i, l := range got {
			wanted := windsock.Running
			if i == maxSingles-1 {
				wanted = windsock.Gone
			}
			if l.Err != nil || windsock.Seen(l.Looks) != wanted {
				t.Errorf("%+v, want it %s", l, wanted)
			}
		}
		want(t, recorded(), "s48>gone")
		if c.listed() != listings || len(c.checks) != maxSingles {
			t.Errorf("%d listings, looked at %v", c.listed()-listings, c.checks)
		}
	})
}

func TestManyAreSeenInOneListing(t *testing.T) {
	c := &cloud{things: fleet(maxSingles + 2), size: 7}
	m := newModel()
	m.probes["w-s00"] = every(24*time.Hour, "s00")
	asking(t, m, differ{c}, func(t *testing.T, o *Observer, recorded func() string) {
		pass(9 * time.Second)
		recorded()
		listings := c.listed()
		c.set(append(fleet(maxSingles), server("s51", windsock.Failed))...) // without s50
		c.breakWith(func(page int) error {
			if page == 0 {
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		})
		places := all(maxSingles + 2)
		places[1].Probed = true
		answers := make(chan string)
		for range 10 {
			go func() {
				got, err := o.CheckAll(t.Context(), places)
				text := fmt.Sprint(err)
				for _, l := range got {
					for _, look := range l.Looks {
						if look.State != windsock.Running || look.Error != "" {
							text += fmt.Sprintf(" %s %s %s%s", l.ID, look.Source, look.State, look.Error)
						}
					}
				}
				answers <- text
			}()
		}
		for range 10 {
			want(t, <-answers, "<nil> w-s00 probe failed w-s50 provider:east gone w-s51 provider:east failed")
		}
		got := strings.Fields(recorded())
		if len(got) != 3 { // the probe's at any time
			t.Errorf("recorded %v", got)
		}
		if c.listed() != listings+1 || len(c.checks) != 1 {
			t.Errorf("%d listings, looked at %v", c.listed()-listings, c.checks)
		}
	})
}

// A listing that fails says so of each thing, one that lost most of them says nothing.
func TestAListingThatIsNoAnswer(t *testing.T) {
	c := &cloud{things: fleet(maxSingles + 2), size: 7}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		recorded()
		check := func(says string, n int) {
			t.Helper()
			got, err := o.CheckAll(t.Context(), all(maxSingles+2))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range got {
				if len(l.Looks) == 1 && l.Looks[0].State == "" && l.Looks[0].Error == says {
					n--
				}
			}
			if n != 0 {
				t.Errorf("%d too few are %q", n, says)
			}
			want(t, recorded(), "")
		}
		c.breakWith(func(page int) error {
			if page == 3 {
				return errors.New("HTTP 429")
			}
			return nil
		})
		check("HTTP 429", maxSingles+3)
		c.breakWith(nil)
		c.set(fleet(10)...)
		check(errMissed.Error(), maxSingles-8)
		check(errMissed.Error(), maxSingles-8) // to ask again at once is no second opinion
	})
}

// What was never shown, and is asked for, is missed as what was.
func TestWhatTheOwnerDeclaredIsMissed(t *testing.T) {
	c := &cloud{things: fleet(maxSingles)}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		recorded()
		got, err := o.CheckAll(t.Context(), append(all(maxSingles), instance("never")))
		if err != nil || windsock.Seen(got[len(got)-1].Looks) != windsock.Gone {
			t.Errorf("%+v, %v", got[len(got)-1], err)
		}
		want(t, recorded(), "never>gone")
	})
}

func TestStopDuringAListingThatIsAskedFor(t *testing.T) {
	c := &cloud{things: fleet(maxSingles + 2)}
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(newModel())
		o.Providers = []Source{{ID: "east", Provider: c}}
		stop := running(t, o)
		pass(time.Second)
		c.breakWith(func(int) error {
			time.Sleep(time.Second)
			return nil
		})
		answer := make(chan error)
		go func() {
			_, err := o.CheckAll(t.Context(), all(maxSingles+2))
			answer <- err
		}()
		pass(time.Millisecond)
		go stop()
		if err := <-answer; !errors.Is(err, windsock.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		synctest.Wait()
		if _, err := o.CheckAll(t.Context(), all(1)); !errors.Is(err, windsock.ErrUnavailable) {
			t.Errorf("afterwards: %v, want ErrUnavailable", err)
		}
		pass(2 * time.Second)
	})
}

// Who lost our rights finds nothing, one by one as in a listing.
func TestSingleLooksDoNotLoseMost(t *testing.T) {
	c := &cloud{things: fleet(11)}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		pass(9 * time.Second)
		recorded()
		c.set()
		count := func() (gone, unsure int) {
			got, err := o.CheckAll(t.Context(), all(11))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range got {
				if windsock.Seen(l.Looks) == windsock.Gone {
					gone++
				} else if l.Looks[0].Error == errLost.Error() {
					unsure++
				}
			}
			return gone, unsure
		}
		if gone, unsure := count(); gone != 6 || unsure != 6 { // half of 12
			t.Errorf("%d are gone, of %d it is not sure", gone, unsure)
		}
		if n := len(strings.Fields(recorded())); n != 6 {
			t.Errorf("%d were recorded", n)
		}
		c.set(fleet(11)...)
		rounds(2)
		if got := recorded(); strings.Contains(got, "gone") || strings.Count(got, "running") != 6 {
			t.Errorf("when they are back: %s", got)
		}
	})
}
