package observer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"windsock"
)

func TestADryRunRecordsNothing(t *testing.T) {
	c := &cloud{things: fleet(3), size: 2}
	asking(t, newModel(), differ{c}, func(t *testing.T, o *Observer, recorded func() string) {
		pass(9 * time.Second)
		recorded()
		renamed := server("s01", windsock.Failed)
		renamed.Name = "another"
		c.set(stack("d"), server("s00", windsock.Failed), renamed, server("s03", windsock.Running))
		c.with(func() { c.changes = []windsock.Sighting{server("s00", windsock.Failed)} })
		listings := c.listed()
		c.breakWith(func(page int) error {
			if page == 0 {
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		})
		answers := make(chan string)
		for range 10 {
			go func() {
				l, err := o.Listing(t.Context(), "east")
				text := fmt.Sprint(err, " ", l.Error, l.Deployments, l.Instances, l.New)
				for _, s := range l.Things {
					text += fmt.Sprintf(" %s %s %t", s.ID, s.State, s.New)
				}
				answers <- text
			}()
		}
		for range 10 {
			want(t, <-answers, "<nil> 1 3 2 d running false s00 failed false s01 failed true s03 running true")
		}
		want(t, recorded(), "")
		if c.listed() != listings+1 {
			t.Errorf("%d listings", c.listed()-listings)
		}
		deltas := c.deltas
		rounds(1)
		want(t, recorded(), "s00>failed s01>failed s03>running s02>gone")
		if c.deltas != deltas {
			t.Error("the next look was for what changed since the dry run")
		}
	})
}

// What is of no deployment would not be declared, and what cannot be described for now is
// what it was.
func TestADryRunShowsWhatWouldBeRecorded(t *testing.T) {
	lone, unsure := server("s01", windsock.Running), server("s00", windsock.Failed)
	lone.Deployment, unsure.Description = "", windsock.Description{}
	c := &cloud{things: fleet(1)}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		recorded()
		c.set(stack("d"), unsure, lone)
		l, err := o.Listing(t.Context(), "east")
		if err != nil || l.Instances != 1 || l.New != 0 || len(l.Things) != 2 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

func TestADryRunThatFails(t *testing.T) {
	c := &cloud{things: fleet(3), size: 2}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, recorded func() string) {
		recorded()
		c.breakWith(func(page int) error {
			if page == 1 {
				return errors.New("HTTP 503")
			}
			return nil
		})
		l, err := o.Listing(t.Context(), "east")
		if err != nil || l.Error != "HTTP 503" || len(l.Things) != 2 || l.Deployments != 1 || l.Instances != 1 {
			t.Errorf("%+v, %v", l, err)
		}
		if _, err := o.Listing(t.Context(), "west"); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		c.breakWith(nil)
		rounds(2)
		want(t, recorded(), "")
	})
}

// A listing holds no more than a page, and counts all.
func TestADryRunIsBounded(t *testing.T) {
	c := &cloud{things: fleet(maxShown + 10), size: 300}
	asking(t, newModel(), c, func(t *testing.T, o *Observer, _ func() string) {
		l, err := o.Listing(t.Context(), "east")
		if err != nil || len(l.Things) != maxShown || l.Instances != maxShown+10 || l.New != 0 {
			t.Errorf("%d things of %d, %d new, %v", len(l.Things), l.Instances, l.New, err)
		}
	})
	if _, err := newObserver(newModel()).Listing(t.Context(), "east"); !errors.Is(err, windsock.ErrUnavailable) {
		t.Errorf("not running: %v", err)
	}
}
