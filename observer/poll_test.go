package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
)

// cloud is a Provider in memory. Its hooks may be nil.
type cloud struct {
	mu       sync.Mutex
	things   []windsock.Sighting
	changes  []windsock.Sighting // for Changes
	size     int                 // of a page; default all
	listings int
	deltas   int
	checks   []string

	fault func(page int) error // before that page of a listing, from 0; one after the last
	check func(windsock.Subject) (windsock.Sighting, error)
	watch func(ctx context.Context, listening func(), hint func(windsock.Subject)) error
}

func (c *cloud) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	c.mu.Lock()
	c.listings++
	things := slices.Clone(c.things)
	c.mu.Unlock()
	return c.pages(ctx, things, page)
}

func (c *cloud) pages(ctx context.Context, things []windsock.Sighting, page func([]windsock.Sighting) error) error {
	size := c.size
	if size == 0 {
		size = len(things) + 1
	}
	n := 0
	for part := range slices.Chunk(things, size) {
		if err := c.faulty(ctx, n); err != nil {
			return err
		}
		if err := page(part); err != nil {
			return err
		}
		n++
	}
	return c.faulty(ctx, n)
}

func (c *cloud) faulty(ctx context.Context, n int) error {
	c.mu.Lock()
	fault := c.fault
	c.mu.Unlock()
	if fault == nil {
		return ctx.Err()
	}
	return fault(n)
}

func (c *cloud) Check(_ context.Context, s windsock.Subject) (windsock.Sighting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = append(c.checks, s.ID)
	if c.check != nil {
		return c.check(s)
	}
	for _, t := range c.things {
		if t.Subject == s {
			return t, nil
		}
	}
	return windsock.Sighting{}, fmt.Errorf("%s %q: %w", s.Kind, s.ID, windsock.ErrNotFound)
}

func (c *cloud) Words() map[string]windsock.State { return nil }

func (c *cloud) set(things ...windsock.Sighting) { c.with(func() { c.things = things }) }

// with changes the cloud while it is observed.
func (c *cloud) with(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *cloud) breakWith(fault func(page int) error) { c.with(func() { c.fault = fault }) }

func (c *cloud) listed() (n int) {
	c.with(func() { n = c.listings })
	return n
}

// differ is a cloud that can also say what changed.
type differ struct{ *cloud }

func (d differ) Changes(ctx context.Context, page func([]windsock.Sighting) error) error {
	d.mu.Lock()
	d.deltas++
	changes := d.changes
	d.changes = nil
	d.mu.Unlock()
	return d.pages(ctx, changes, page)
}

// watcher is a cloud that says where to look.
type watcher struct{ *cloud }

func (w watcher) Watch(ctx context.Context, listening func(), hint func(windsock.Subject)) error {
	return w.watch(ctx, listening, hint)
}

func stack(id string) windsock.Sighting {
	return windsock.Sighting{
		Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: id}, State: windsock.Running, Raw: "CREATE_COMPLETE",
		Description: windsock.Description{Name: "name of " + id},
	}
}

func server(id string, state windsock.State) windsock.Sighting {
	return windsock.Sighting{
		Subject: windsock.Subject{Kind: windsock.KindInstance, ID: id}, State: state, Raw: strings.ToUpper(string(state)),
		Description: windsock.Description{Deployment: "d", Name: "name of " + id},
	}
}

func fleet(n int) []windsock.Sighting {
	things := []windsock.Sighting{stack("d")}
	for i := range n {
		things = append(things, server(fmt.Sprintf("s%02d", i), windsock.Running))
	}
	return things
}

// poll runs an observer of p with an interval of 10 s in a bubble, and returns what was
// recorded meanwhile, in order, as "id>state", with "=" behind it when it was described.
func poll(t *testing.T, m *model, p Provider, test func(recorded func() string)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		inner := m.record
		m.record = func(batch []windsock.Observation) error {
			if inner != nil {
				if err := inner(batch); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, o := range batch {
				if o.Source != "provider:east" || o.Provider != "east" || o.Origin != windsock.FromProvider || o.Promise != 30*time.Second {
					t.Errorf("recorded %+v", o)
				}
				text := o.Subject.ID + ">" + string(o.State)
				if o.As != nil {
					text += "="
				}
				got = append(got, text)
			}
			return nil
		}
		o := &Observer{
			Model: m, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
			Providers: []Source{{ID: "east", Kind: "cloud", Provider: p, Every: 10 * time.Second}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { o.Run(ctx) })
		synctest.Wait()
		test(func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { got = nil }()
			return strings.Join(got, " ")
		})
		cancel()
		wg.Wait()
	})
}

// rounds lets n intervals of the provider pass.
func rounds(n int) { time.Sleep(time.Duration(n) * 10 * time.Second) }

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestOnlyWhatChangedIsRecorded(t *testing.T) {
	c := &cloud{things: fleet(2)}
	m := newModel()
	poll(t, m, c, func(recorded func() string) {
		want(t, recorded(), "d>running= s00>running= s01>running=")
		rounds(3)
		want(t, recorded(), "")
		renamed := server("s00", windsock.Running)
		renamed.Name = "another"
		c.set(stack("d"), renamed, server("s01", windsock.Failed))
		rounds(1)
		want(t, recorded(), "s00>running= s01>failed")
		if st := m.lastSaved(); st.Deployments != 1 || st.Instances != 2 || st.LastError != "" || st.CompleteAt.IsZero() || st.Every != windsock.Duration(10*time.Second) {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestWhatIsMissingTwiceIsGone(t *testing.T) {
	c := &cloud{things: fleet(9)}
	poll(t, newModel(), c, func(recorded func() string) {
		recorded()
		c.with(func() {
			c.check = func(windsock.Subject) (windsock.Sighting, error) { return windsock.Sighting{}, errors.New("busy") }
		})
		c.set(fleet(8)...)
		rounds(1)
		want(t, recorded(), "")
		rounds(1)
		want(t, recorded(), "s08>gone")
		rounds(5)
		want(t, recorded(), "")
		c.set(fleet(9)...)
		rounds(1)
		want(t, recorded(), "s08>running=")
	})
}

func TestASingleLookConfirmsThatItIsGone(t *testing.T) {
	c := &cloud{things: fleet(9)}
	poll(t, newModel(), c, func(recorded func() string) {
		recorded()
		c.set(fleet(8)...)
		rounds(1)
		want(t, recorded(), "s08>gone")
	})
}

func TestASingleLookFindsWhatAListingForgot(t *testing.T) {
	c := &cloud{things: fleet(9)}
	poll(t, newModel(), c, func(recorded func() string) {
		recorded()
		c.with(func() {
			c.check = func(s windsock.Subject) (windsock.Sighting, error) { return server(s.ID, windsock.Stopped), nil }
		})
		c.set(fleet(8)...)
		rounds(5)
		want(t, recorded(), "s08>stopped")
	})
}

func TestWhenMostVanishASecondListingHasToAgree(t *testing.T) {
	c := &cloud{things: fleet(9)}
	poll(t, newModel(), c, func(recorded func() string) {
		recorded()
		c.set(fleet(3)...)
		rounds(1)
		want(t, recorded(), "")
		if len(c.checks) > 0 {
			t.Errorf("looked for %v", c.checks)
		}
		c.set(fleet(9)...)
		rounds(3)
		want(t, recorded(), "")
		c.set()
		rounds(2)
		want(t, recorded(), "s00>gone s01>gone s02>gone s03>gone s04>gone s05>gone s06>gone s07>gone s08>gone d>gone")
	})
}

// A listing that fails, wherever it does, says nothing of what it did not come to.
func TestAListingThatFailsMarksNothingGone(t *testing.T) {
	for _, at := range []int{0, 1, 4, 5} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			c := &cloud{things: fleet(9), size: 2}
			m := newModel()
			poll(t, m, c, func(recorded func() string) {
				recorded()
				c.set(append(fleet(4), server("new", windsock.Running))...)
				c.breakWith(func(page int) error {
					if page == min(at, 3) {
						return errors.New("HTTP 503")
					}
					return nil
				})
				rounds(10)
				got := recorded()
				if strings.Contains(got, "gone") || strings.Contains(got, "failed") {
					t.Errorf("recorded %q", got)
				}
				if st := m.lastSaved(); st.LastError != "HTTP 503" || st.Instances != 9 {
					t.Errorf("the status is %+v", st)
				}
				c.breakWith(nil)
				c.set(fleet(9)...)
				rounds(1)
				if got := recorded(); strings.Contains(got, "s0") {
					t.Errorf("recorded %q", got)
				}
				if st := m.lastSaved(); st.LastError != "" {
					t.Errorf("the status is %+v", st)
				}
			})
		})
	}
}

// A cloud that takes longer for a listing than for three intervals is not lost for that.
func TestHowLongTheLastWholeListingTookIsSaid(t *testing.T) {
	c := &cloud{things: fleet(3)}
	c.breakWith(func(page int) error {
		if page == 0 {
			time.Sleep(50 * time.Second)
		}
		return nil
	})
	m := newModel()
	poll(t, m, differ{c}, func(recorded func() string) {
		time.Sleep(50 * time.Second)
		recorded()
		if st := m.lastSaved(); time.Duration(st.WholeTook) != 50*time.Second || st.Took != st.WholeTook {
			t.Errorf("after a listing of all the status is %+v", st)
		}
		c.breakWith(nil)
		rounds(2)
		if st := m.lastSaved(); time.Duration(st.WholeTook) != 50*time.Second || st.Took != 0 {
			t.Errorf("after a look at the changes the status is %+v", st)
		}
	})
}

// A listing that comes to its end and yet leaves things out, as Nova's does for a cell
// that is down, is found out by single looks.
func TestAListingThatLeavesThingsOutMarksNothingGone(t *testing.T) {
	c := &cloud{things: fleet(200)}
	m := newModel()
	poll(t, m, c, func(recorded func() string) {
		recorded()
		c.with(func() {
			c.check = func(s windsock.Subject) (windsock.Sighting, error) { return server(s.ID, windsock.Unknown), nil }
		})
		c.set(fleet(100)...)
		rounds(5)
		if got := recorded(); strings.Contains(got, "gone") || !strings.Contains(got, "unknown") {
			t.Errorf("recorded %q", got)
		}
		if st := m.lastSaved(); !strings.Contains(st.LastError, "leaves out") {
			t.Errorf("the status is %+v", st)
		}
	})
}

// What a thing is may be unknown for a while, too; that does not make it another one.
func TestWhatCannotBeDescribedStaysWhatItIs(t *testing.T) {
	c := &cloud{things: fleet(2)}
	poll(t, newModel(), c, func(recorded func() string) {
		recorded()
		bare := func(id string) windsock.Sighting {
			return windsock.Sighting{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: id}, State: windsock.Unknown, Raw: "UNKNOWN"}
		}
		c.set(stack("d"), bare("s00"), bare("s01"), bare("new"))
		rounds(2)
		want(t, recorded(), "s00>unknown s01>unknown")
		c.set(fleet(2)...)
		rounds(2)
		want(t, recorded(), "s00>running s01>running")
	})
}

// A deployment that a provider only describes is what its members are, and nothing is
// said of it when they have left it.
func TestADeploymentThatIsOnlyDescribed(t *testing.T) {
	group := stack("d")
	group.State, group.Raw = "", ""
	c := &cloud{things: []windsock.Sighting{stack("e"), group, server("s00", windsock.Running)}}
	m := newModel()
	poll(t, m, c, func(recorded func() string) {
		want(t, recorded(), "e>running= d>= s00>running=")
		moved := server("s00", windsock.Running)
		moved.Deployment = "e"
		c.set(stack("e"), moved)
		rounds(5)
		want(t, recorded(), "s00>running=")
		if st := m.lastSaved(); st.Deployments != 1 || st.Blind != 0 {
			t.Errorf("the status is %+v", st)
		}
		c.set(stack("e"), group, server("s00", windsock.Running))
		rounds(2)
		want(t, recorded(), "d>= s00>running=")
	})
}

// What is of a deployment that was taken out of the model has that declared again.
func TestADeploymentThatIsMissingIsDescribedAnew(t *testing.T) {
	c := &cloud{things: fleet(1)}
	m := newModel()
	var missing atomic.Bool
	m.outcome = func(o windsock.Observation) error {
		if o.Subject.ID == "d" {
			missing.Store(false)
		}
		if missing.Load() {
			return fmt.Errorf("deployment %q: %w", "d", windsock.ErrNotFound)
		}
		return nil
	}
	poll(t, m, c, func(recorded func() string) {
		recorded()
		missing.Store(true)
		c.set(append(fleet(1), server("s01", windsock.Running))...)
		rounds(1)
		want(t, recorded(), "s01>running=")
		rounds(1)
		want(t, recorded(), "d>running= s01>running=")
		rounds(1)
		want(t, recorded(), "")
	})
}

func TestWhatVanishedWhileWeWereAwayIsGone(t *testing.T) {
	c := &cloud{things: fleet(1)}
	m := newModel()
	m.shown = map[windsock.Kind][]string{windsock.KindDeployment: {"d", "old"}, windsock.KindInstance: {"older", "s00"}}
	poll(t, m, c, func(recorded func() string) {
		rounds(1)
		want(t, recorded(), "d>running= s00>running= older>gone old>gone")
	})
}

func TestAProviderThatHangsIsGivenUp(t *testing.T) {
	c := &cloud{things: fleet(3)}
	m := newModel()
	poll(t, m, c, func(recorded func() string) {
		recorded()
		c.breakWith(func(int) error {
			time.Sleep(time.Hour) // and does not heed its context
			return nil
		})
		rounds(1)
		time.Sleep(pageLimit)
		c.breakWith(nil)
		time.Sleep(time.Hour)
		want(t, recorded(), "")
		if st := m.lastSaved(); st.LastError != "" {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestWhatCouldNotBeRecordedIsRecordedLater(t *testing.T) {
	c := &cloud{things: fleet(2)}
	m := newModel()
	var broken atomic.Bool
	broken.Store(true)
	m.record = func([]windsock.Observation) error {
		if broken.Load() {
			return windsock.ErrUnavailable
		}
		return nil
	}
	poll(t, m, c, func(recorded func() string) {
		rounds(2)
		want(t, recorded(), "")
		if st := m.lastSaved(); !strings.Contains(st.LastError, "cannot be recorded") {
			t.Errorf("the status is %+v", st)
		}
		broken.Store(false)
		rounds(1)
		want(t, recorded(), "d>running= s00>running= s01>running=")
	})
}

func TestChangesBetweenListings(t *testing.T) {
	c := &cloud{things: fleet(3)}
	poll(t, newModel(), differ{c}, func(recorded func() string) {
		recorded()
		c.with(func() {
			c.changes = []windsock.Sighting{server("s00", windsock.Stopped), server("s02", windsock.Gone), server("never", windsock.Gone)}
		})
		rounds(1)
		want(t, recorded(), "s00>stopped s02>gone")
		c.set(stack("d"), server("s00", windsock.Stopped), server("s01", windsock.Running))
		rounds(30)
		want(t, recorded(), "")
		if c.listings != 4 || c.deltas != 28 {
			t.Errorf("%d listings and %d looks at changes in 31 intervals", c.listings, c.deltas)
		}
	})
}

func TestHints(t *testing.T) {
	c := &cloud{things: fleet(3)}
	var tell chan windsock.Subject
	c.watch = func(ctx context.Context, listening func(), hint func(windsock.Subject)) error {
		tell = make(chan windsock.Subject) // of the bubble
		listening()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case s := <-tell:
				if s.ID == "" {
					return errors.New("connection lost")
				}
				hint(s)
			}
		}
	}
	poll(t, newModel(), watcher{c}, func(recorded func() string) {
		recorded()
		time.Sleep(time.Millisecond)
		listings := c.listed()
		c.set(stack("d"), server("s00", windsock.Failed), server("s01", windsock.Running))
		tell <- c.things[1].Subject
		tell <- windsock.Subject{Kind: windsock.KindInstance, ID: "s02"}
		got := strings.Fields(recorded())
		slices.Sort(got)
		want(t, strings.Join(got, " "), "s00>failed s02>gone")
		if c.listed() != listings {
			t.Error("a hint made it list everything")
		}
		tell <- windsock.Subject{}
		time.Sleep(firstRetry + time.Millisecond)
		recorded()
		if c.listed() != listings+1 {
			t.Errorf("%d listings after a gap in the notifications", c.listed()-listings)
		}
	})
}

// Who cannot be listened to is tried again, ever less often.
func TestListeningInVain(t *testing.T) {
	c := &cloud{things: fleet(1)}
	var tries []time.Time
	c.watch = func(context.Context, func(), func(windsock.Subject)) error {
		tries = append(tries, time.Now())
		return errors.New("connection refused")
	}
	poll(t, newModel(), watcher{c}, func(recorded func() string) {
		time.Sleep(10 * longestWait)
		synctest.Wait()
		wait := firstRetry
		for i := range tries[1:] {
			if got := tries[i+1].Sub(tries[i]); got != wait {
				t.Fatalf("try %d came after %s, want %s", i+2, got, wait)
			}
			wait = min(2*wait, longestWait)
		}
		if wait != longestWait {
			t.Errorf("there were %d tries", len(tries))
		}
	})
}

// What a hint finds may be of a deployment that nobody has shown yet.
func TestAHintAtTheFirstOfADeployment(t *testing.T) {
	c := &cloud{things: fleet(1)}
	var hint func(windsock.Subject)
	c.watch = func(ctx context.Context, listening func(), h func(windsock.Subject)) error {
		hint = h
		<-ctx.Done()
		return ctx.Err()
	}
	poll(t, newModel(), watcher{c}, func(recorded func() string) {
		recorded()
		first := server("s01", windsock.Starting)
		first.Deployment = "e"
		c.set(append(fleet(1), stack("e"), first)...)
		hint(first.Subject)
		want(t, recorded(), "e>running= s01>starting=")
	})
}

// A look that began before another one does not undo what that saw.
func TestAnOlderLookDoesNotUndoANewerOne(t *testing.T) {
	c := &cloud{things: fleet(1)}
	var hint func(windsock.Subject)
	c.watch = func(ctx context.Context, listening func(), h func(windsock.Subject)) error {
		hint = h
		<-ctx.Done()
		return ctx.Err()
	}
	poll(t, newModel(), watcher{c}, func(recorded func() string) {
		recorded()
		c.breakWith(func(page int) error {
			if page == 0 {
				time.Sleep(time.Second) // the page was made; it takes long to arrive
			}
			return nil
		})
		for listings := c.listed(); c.listed() == listings; { // one has begun
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		c.set(stack("d"), server("s00", windsock.Failed))
		hint(c.things[1].Subject)
		want(t, recorded(), "s00>failed")
		time.Sleep(2 * time.Second)
		want(t, recorded(), "")
	})
}
