package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"windsock"
)

// A machine is the truth about one instance.
type machine struct {
	id      string
	state   windsock.State // by the cloud: running, failed, stopped; gone ones are not there
	works   bool           // what runs on it, as its monitor sees it
	history []change       // when it began and ceased to be bad, or was so for another reason
}

type change struct {
	at    time.Time
	bad   bool
	state windsock.State
}

// bad reports whether monitors should have heard of a failure.
func (m *machine) bad() bool {
	return m.state == windsock.Failed || m.state == windsock.Running && !m.works
}

func (m *machine) note(now time.Time) {
	n := len(m.history)
	if n == 0 && m.bad() || n > 0 && (m.history[n-1].bad != m.bad() || m.history[n-1].state != m.state) {
		m.history = append(m.history, change{now, m.bad(), m.state})
	}
}

// badWithin reports whether it was bad at any moment between the two.
func (m *machine) badWithin(from, to time.Time) bool {
	bad := false
	for _, c := range m.history {
		if c.at.After(to) {
			break
		}
		if !c.at.After(from) {
			bad = c.bad
		} else if c.bad {
			return true
		}
	}
	return bad
}

// A cloud runs machines, and shows them as badly as clouds do.
type cloud struct {
	mu       sync.Mutex
	rand     *rand.Rand
	machines []*machine
	snapshot []windsock.Sighting // what it shows, which lags behind the truth
	changed  map[string]bool     // since the last look at changes
	omitted  map[string]bool     // by the last listing; not twice in a row, or who could know
	emptied  bool                // a listing was empty once
	calm     bool                // no faults any more
	hints    func(windsock.Subject)
}

const deployment = "shop"

func (c *cloud) sightings() []windsock.Sighting {
	list := []windsock.Sighting{{
		Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: deployment}, State: windsock.Running, Description: windsock.Description{Name: deployment},
	}}
	for _, m := range c.machines {
		list = append(list, sighting(m))
	}
	return list
}

func sighting(m *machine) windsock.Sighting {
	return windsock.Sighting{
		Subject: windsock.Subject{Kind: windsock.KindInstance, ID: m.id}, State: m.state, Raw: "word of " + string(m.state), Requested: m.state == windsock.Gone,
		Description: windsock.Description{Deployment: deployment, Name: m.id},
	}
}

// chance is true once in n times, until all is calm.
func (c *cloud) chance(n int) bool { return !c.calm && c.rand.IntN(n) == 0 }

// refresh makes what it shows the truth; it is called now and then.
func (c *cloud) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot = c.sightings()
}

var errFault = errors.New("HTTP 503")

// fault is how a request goes wrong, if it does: it fails, or hangs for a while.
func (c *cloud) fault(ctx context.Context) error {
	c.mu.Lock()
	fails, hangs := c.chance(12), c.chance(40)
	wait := time.Duration(c.rand.IntN(200)) * time.Second
	c.mu.Unlock()
	if hangs {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fails {
		return errFault
	}
	return nil
}

func (c *cloud) Observe(ctx context.Context, page func([]windsock.Sighting) error) error {
	c.mu.Lock()
	all := slices.Clone(c.snapshot)
	omitted := map[string]bool{}
	if c.chance(30) && !c.emptied {
		all, c.emptied = nil, true
	} else {
		c.emptied = false
	}
	all = slices.DeleteFunc(all, func(s windsock.Sighting) bool {
		if s.Kind == windsock.KindInstance && !c.omitted[s.ID] && c.chance(200) {
			omitted[s.ID] = true
		}
		return omitted[s.ID]
	})
	for i := range all {
		if all[i].Kind == windsock.KindInstance && c.chance(100) { // a cell is down
			all[i].State, all[i].Raw = windsock.Unknown, "UNKNOWN"
		}
	}
	if len(all) > 2 && c.chance(5) { // a row comes twice
		all = append(all, all[1+c.rand.IntN(len(all)-1)])
	}
	size := 1 + c.rand.IntN(20)
	faulty := c.rand.IntN(len(all)/size + 1) // the page before which something may go wrong
	c.omitted, c.changed = omitted, map[string]bool{}
	c.mu.Unlock()
	for part := range slices.Chunk(all, size) {
		if faulty--; faulty == -1 {
			if err := c.fault(ctx); err != nil {
				return err
			}
		}
		if err := page(part); err != nil {
			return err
		}
	}
	return c.fault(ctx)
}

// A differ also says what changed, but not all of it.
type differ struct{ *cloud }

func (d differ) Changes(ctx context.Context, page func([]windsock.Sighting) error) error {
	if err := d.fault(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	var list []windsock.Sighting
	for _, s := range d.snapshot {
		if d.changed[s.ID] && !d.chance(10) {
			list = append(list, s)
		}
	}
	d.changed = map[string]bool{}
	d.mu.Unlock()
	return page(list)
}

// A teller is a differ that also says where to look, if nothing is lost.
type teller struct{ differ }

func (t teller) Watch(ctx context.Context, listening func(), hint func(windsock.Subject)) error {
	t.mu.Lock()
	lasts := time.Duration(1+t.rand.IntN(1200)) * time.Second
	t.hints = hint
	t.mu.Unlock()
	listening()
	select {
	case <-ctx.Done():
	case <-time.After(lasts):
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hints = nil
	return errors.New("connection lost")
}

func (c *cloud) Check(ctx context.Context, s windsock.Subject) (windsock.Sighting, error) {
	if err := c.fault(ctx); err != nil {
		return windsock.Sighting{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seen := range c.sightings() {
		if seen.Subject == s {
			return seen, nil
		}
	}
	return windsock.Sighting{}, fmt.Errorf("%q: %w", s.ID, windsock.ErrNotFound)
}

func (c *cloud) Words() map[string]windsock.State { return nil }

// act lets something happen to the machines, and returns those that are gone now.
func (c *cloud) act(now time.Time, busy int) (gone []*machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range slices.Clone(c.machines) {
		if c.rand.IntN(busy) > 0 {
			continue
		}
		switch c.rand.IntN(10) {
		case 0:
			m.state = windsock.Gone
			gone = append(gone, m)
			c.machines = slices.DeleteFunc(c.machines, func(o *machine) bool { return o == m })
		case 1, 2:
			m.state = windsock.Stopped
		case 3, 4:
			m.state = windsock.Failed
		case 5, 6:
			m.works = !m.works
		default:
			m.state = windsock.Running
		}
		m.note(now)
		c.changed[m.id] = true
		if c.hints != nil && !c.chance(4) {
			go c.hints(windsock.Subject{Kind: windsock.KindInstance, ID: m.id})
		}
	}
	return gone
}
