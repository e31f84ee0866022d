package monitors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// A crew says which units are for a Deliverer, and ends those that are left at its end. Its
// terms stand until they are lost.
type crew struct {
	worker windsock.Worker
	mu     sync.Mutex
	ours   map[string]bool
	lost   atomic.Bool
}

type crewTerm struct{ *crew }

func (t crewTerm) Stands() bool { return !t.lost.Load() }

func (c *crew) joined(d *Deliverer) {
	c.worker, c.ours = d, map[string]bool{}
	d.Share = func(ctx context.Context, _ windsock.Worker, _ ...string) error {
		<-ctx.Done()
		c.mu.Lock()
		var left []string
		for unit := range c.ours {
			left = append(left, unit)
		}
		c.mu.Unlock()
		c.end(left...)
		return nil
	}
}

func (c *crew) begin(units ...string) {
	synctest.Wait() // it runs
	terms := map[string]windsock.Term{}
	c.mu.Lock()
	for _, unit := range units {
		c.ours[unit] = true
		terms[unit] = crewTerm{c}
	}
	c.mu.Unlock()
	c.worker.Begin(terms)
}

func (c *crew) end(units ...string) {
	var ending sync.WaitGroup
	for _, unit := range units {
		c.mu.Lock()
		delete(c.ours, unit)
		c.mu.Unlock()
		ending.Go(func() { c.worker.End(unit) })
	}
	ending.Wait()
}

// What happens while a unit ends, as one of its monitors hangs, is for who has it next, also
// of those that wait for nothing.
func TestWhatComesDuringTheEndIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		unit, other := windsock.DelivererUnit("m0"), ""
		for i := 1; other == ""; i++ {
			if id := fmt.Sprint("m", i); windsock.DelivererUnit(id) == unit {
				other = id
			}
		}
		l.add("m0", named("hangs"), "")
		l.add(other, windsock.MonitorSpec{Address: "waits", Port: 80, Scope: "instance:db"}, "")
		n.at("hangs", hang)
		var a, b crew
		start(t, l, n, a.joined, func(d *Deliverer) { d.Heir = func(string) bool { return true } })
		start(t, l, n, b.joined)
		a.begin(unit)
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		var ending sync.WaitGroup
		ending.Go(func() { a.end(unit) })
		pass(handover / 2)
		l.append(change("db", windsock.Failed))
		ending.Wait()
		n.at("hangs", nil)
		b.begin(unit)
		pass(time.Second)
		want(t, "taken", n.took("waits"), []int64{4})
		want(t, "taken by who hung", n.took("hangs"), []int64{3, 4})
	})
}

// apart returns ids of monitors that are of different units.
func apart(n int) (ids []string) {
	seen := map[string]bool{}
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprint("m", i); !seen[windsock.DelivererUnit(id)] {
			seen[windsock.DelivererUnit(id)] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Two share the monitors: each is called back by one of them, the one it is for, and told
// all of it once and in order when that changes.
func TestMonitorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		ids := apart(3)
		for _, id := range ids {
			l.add(id, named(id), "")
		}
		var a, b crew
		first, second := start(t, l, n, a.joined), start(t, l, n, b.joined)
		unit := windsock.DelivererUnit
		a.begin(unit(ids[0]), unit(ids[1]))
		var all []int64
		tell := func() {
			t.Helper()
			for range 10 {
				l.append(change("web", []windsock.State{windsock.Failed, windsock.Running}[len(all)%2]))
				all = append(all, l.Head())
				pass(time.Second)
			}
		}
		tell()
		want(t, "of what is nobody's", n.took(ids[2]), nil)
		b.begin(unit(ids[2]))
		tell()
		want(t, "monitors of the first", first.Monitors(), 2)
		a.end(unit(ids[1]))
		begun := len(n.tried(ids[1]))
		tell()
		want(t, "tries after its end", len(n.tried(ids[1])), begun)
		b.begin(unit(ids[1]))
		tell()
		want(t, "monitors of the second", second.Monitors(), 2)
		for _, id := range ids {
			want(t, id+" took", n.took(id), all)
			want(t, id+" was tried with", n.tried(id), all)
		}
	})
}

// For one that comes and is far behind the reader goes back, and nobody else is told again.
// What comes meanwhile of the monitors themselves counts once, too.
func TestTheReaderGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, c := newLog(), newNetwork(), new(crew)
		ids := apart(3)
		for _, id := range ids {
			l.add(id, named(id), "")
		}
		n.at(ids[1], respond(503, "")) // has things wait in its queue
		p := start(t, l, n, c.joined)
		c.begin(windsock.DelivererUnit(ids[0]), windsock.DelivererUnit(ids[1]))
		l.append(changes(2 * pageSize)...)
		pass(time.Minute)
		if _, err := l.PauseMonitor(t.Context(), ids[0], windsock.PausedByOperator, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := l.ResumeMonitor(t.Context(), ids[0], windsock.Replay); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		backlog := p.delivery(t, ids[1]).Backlog
		c.begin(windsock.DelivererUnit(ids[2]))
		pass(time.Minute)
		want(t, "backlog of who is away", p.delivery(t, ids[1]).Backlog, backlog)
		n.at(ids[1], nil)
		pass(time.Hour)
		l.append(change("web", windsock.Failed))
		pass(time.Minute)
		for _, id := range ids {
			want(t, id+" took so many", len(n.took(id)), 2*pageSize+1)
		}
		want(t, "of who was never away was tried", len(n.tried(ids[0])), 2*pageSize+1)
	})
}

// When somebody goes on at once, a request that hangs is waited for for half a second, and
// not held against the monitor.
func TestAnHeirNeedNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, c := newLog(), newNetwork(), new(crew)
		l.add("m", named("a"), "")
		n.at("a", hang)
		start(t, l, n, c.joined, func(d *Deliverer) { d.Heir = func(string) bool { return true } })
		c.begin(windsock.DelivererUnits...)
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		begun := time.Now()
		c.end(windsock.DelivererUnits...)
		want(t, "it ended after", time.Since(begun), handover)
		if got := l.progressOf("m"); got.Cursor != 1 || got.Attempts != 0 {
			t.Errorf("saved: %+v", got)
		}
	})
}
