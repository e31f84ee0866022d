package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// leased registers a monitor for a while, or renews that.
func leased(t *testing.T, s *Store, ttl time.Duration) windsock.Registration {
	t.Helper()
	spec := windsock.MonitorSpec{Address: "127.0.0.1", Port: 9000, Scope: "pool:east", TTL: windsock.Duration(ttl)}
	return must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, windsock.Keys{}))
}

// happened lists what the log says of monitors after a seq.
func happened(t *testing.T, s *Store, after int64) (list []string) {
	t.Helper()
	for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), after, 1000, windsock.EventFilter{Kind: windsock.KindMonitor})) {
		list = append(list, string(e.Type))
	}
	return list
}

func endLeases(t *testing.T, s *Store) {
	t.Helper()
	if err := s.endLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestALeaseEndsWithNotice(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		m := leased(t, s, time.Hour)
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: m.Cursor, Lanes: []windsock.Lane{{Subject: web, FirstSeq: 1}}})
		if left := m.ExpiresAt.Sub(m.CreatedAt); left != time.Hour || time.Duration(m.TTL) != time.Hour {
			t.Errorf("it ends after %s: %+v", left, m.Monitor)
		}
		c.advance(53 * time.Minute)
		endLeases(t, s)
		expect(t, "early", happened(t, s, m.Cursor), nil)

		c.advance(time.Minute)
		endLeases(t, s)
		endLeases(t, s)
		expect(t, "in the last tenth", happened(t, s, m.Cursor), []string{"monitor.expiring"})
		e := must[[]windsock.Event](t)(s.Events(t.Context(), m.Cursor, 1, windsock.EventFilter{Scope: "pool:east"}))[0]
		if e.SubjectID != m.ID || !e.ExpiresAt.Equal(must[windsock.Monitor](t)(s.Monitor(t.Context(), m.ID)).ExpiresAt) || !m.Wants(&e) {
			t.Errorf("announced by %+v", e)
		}

		c.advance(7 * time.Minute)
		endLeases(t, s)
		expect(t, "at its end", happened(t, s, m.Cursor), []string{"monitor.expiring", "monitor.expired"})
		if _, err := s.Monitor(t.Context(), m.ID); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("it is still there: %v", err)
		}
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: 99, Lanes: []windsock.Lane{{Subject: db, FirstSeq: 8}}}) // by a deliverer that has not heard
		var lanes int
		if err := s.read.Get(&lanes, `SELECT count(*) FROM lanes`); err != nil || lanes != 0 {
			t.Errorf("%d lanes are left, %v", lanes, err)
		}
		if again := leased(t, s, time.Hour); again.ID == m.ID || !again.Created {
			t.Errorf("added after its end: %+v", again)
		}
	})
}

// A monitor of each scope is told of the end of its own lease, and of no other's.
func TestTheEndOfALeaseLiesInTheScope(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		var monitors []windsock.Monitor
		for i, scope := range []windsock.Scope{windsock.Global, "provider:static", "pool:east", "deployment:shop", "instance:web-1", "instance:web-2"} {
			monitors = append(monitors, listening(t, s, 9000+i, windsock.MonitorSpec{Scope: scope, TTL: windsock.Duration(time.Hour)}))
		}
		before := s.Head()
		c.advance(55 * time.Minute)
		endLeases(t, s)
		for _, m := range monitors {
			var told []string
			for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), before, 1000, windsock.EventFilter{Scope: m.Scope})) {
				if m.Wants(&e) {
					told = append(told, e.SubjectID)
				}
			}
			expect(t, "told to "+string(m.Scope), told, []string{m.ID})
			n := must[windsock.Replayed](t)(concerning(reader{t.Context(), s.read}, &m, before, s.Head(), windsock.Subject{}))
			expect(t, "counted for "+string(m.Scope), n.Count, 1)
		}
	})
}

func TestARenewalTouchesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		spec := windsock.MonitorSpec{Address: "127.0.0.1", Port: 9000, TTL: windsock.Duration(time.Hour)}
		keys := windsock.Keys{Sign: ptr(true), Bearer: ptr(windsock.Secret("token")), Headers: map[string]windsock.Secret{"X-A": "1", "X-B": "2"}}
		m := must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, keys))
		save(t, s, windsock.Progress{
			MonitorID: m.ID, Cursor: 7, Ahead: map[windsock.Subject]int64{db: 9}, Attempts: 3, NextTryAt: c.Now().Add(time.Hour), LastError: "timeout",
			Failures: 3, FailingSince: c.Now(), Lanes: []windsock.Lane{{Subject: web, FirstSeq: 5, Attempts: 2, NextTryAt: c.Now(), LastError: "HTTP 500"}},
		})
		before, head := must[windsock.Target](t)(s.Target(t.Context(), m.ID)), s.Head()
		for range 3 {
			c.advance(50 * time.Minute)
			r := must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, keys))
			if r.Created || r.Made != "" || !r.ExpiresAt.Equal(r.UpdatedAt.Add(time.Hour)) {
				t.Errorf("renewed: %+v", r)
			}
			endLeases(t, s)
		}
		after := must[windsock.Target](t)(s.Target(t.Context(), m.ID))
		before.ExpiresAt, before.UpdatedAt = after.ExpiresAt, after.UpdatedAt
		expect(t, "after two hours", after, before)
		expect(t, "head of the log", s.Head(), head)

		c.advance(55 * time.Minute)
		endLeases(t, s)
		must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, keys)) // in time, after the announcement
		c.advance(50 * time.Minute)
		endLeases(t, s)
		expect(t, "announced, renewed", happened(t, s, head), []string{"monitor.expiring"})

		spec.Parallel = 3
		must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, keys))
		expect(t, "with another wish", happened(t, s, head), []string{"monitor.expiring", "monitor.added"})
	})
}

// Who is added again without a ttl has no lease any more, and if his callbacks fail is
// tried at once, as the log has to say.
func TestAddedAgainWithoutALease(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		m := leased(t, s, time.Hour)
		m = leased(t, s, 0)
		if !m.ExpiresAt.IsZero() || m.TTL != 0 {
			t.Errorf("it has a lease: %+v", m.Monitor)
		}
		c.advance(1000 * time.Hour)
		endLeases(t, s)
		leased(t, s, 0)
		expect(t, "while all is well", happened(t, s, m.Cursor), nil)
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: m.Cursor, Attempts: 1})
		leased(t, s, 0)
		expect(t, "while it does not answer", happened(t, s, m.Cursor), []string{"monitor.added"})
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: m.Cursor, Lanes: []windsock.Lane{{Subject: web, FirstSeq: 1}}})
		leased(t, s, 0)
		expect(t, "while it refuses one", happened(t, s, m.Cursor), []string{"monitor.added", "monitor.added"})
	})
}

// A windsock that was down ends no lease that could not be renewed for that.
func TestDownTimePutsLeasesOff(t *testing.T) { eachDB(t, downTimePutsLeasesOff) }

func downTimePutsLeasesOff(t *testing.T, fresh maker) {
	path, c := fresh(t), &clock{now: noon}
	s := open(t, path, c)
	m := leased(t, s, time.Hour)
	restart := func(down time.Duration) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		c.advance(down)
		s = open(t, path, c)
		endLeases(t, s)
	}
	restart(50 * time.Hour)
	expect(t, "after the first down time", happened(t, s, m.Cursor), nil)
	c.advance(55 * time.Minute)
	endLeases(t, s)
	restart(50 * time.Hour) // between the announcement and the end
	expect(t, "after the second", happened(t, s, m.Cursor), []string{"monitor.expiring"})
	c.advance(6 * time.Minute)
	endLeases(t, s)
	expect(t, "when it had its time", happened(t, s, m.Cursor), []string{"monitor.expiring", "monitor.expired"})
	s.Close()
}

// The clock finds leases by itself.
func TestClockEndsLeases(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		var alive time.Time
		tick := func() {
			t.Helper()
			if err := s.tick(t.Context(), &alive); err != nil {
				t.Fatal(err)
			}
		}
		tick()
		m := leased(t, s, time.Minute)
		for _, want := range [][]string{nil, {"monitor.expiring"}, {"monitor.expiring", "monitor.expired"}, {"monitor.expiring", "monitor.expired"}} {
			tick()
			expect(t, "ticked", happened(t, s, m.Cursor), want)
			c.advance(55 * time.Second)
		}
	})
}

// Whoever renews in time is never removed, whatever else happens; who does not is, once.
func TestLeasesWhateverHappens(t *testing.T) { eachDB(t, leasesWhateverHappens) }

func leasesWhateverHappens(t *testing.T, fresh maker) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			path, c := fresh(t), &clock{now: noon}
			s := open(t, path, c)
			defer func() { s.Close() }()
			ttl := time.Minute + time.Duration(r.Int64N(int64(48*time.Hour)))
			faithful, lapsed := leased(t, s, ttl), listening(t, s, 9001, windsock.MonitorSpec{TTL: windsock.Duration(ttl)})
			for range 30 {
				c.advance(time.Duration(r.Int64N(int64(ttl) * 9 / 10)))
				if r.IntN(2) == 0 {
					endLeases(t, s)
				}
				if r.IntN(4) == 0 {
					s.Close()
					c.advance(time.Duration(r.Int64N(int64(3 * ttl))))
					s = open(t, path, c)
					endLeases(t, s)
				}
				if again := leased(t, s, ttl); again.ID != faithful.ID {
					t.Fatal("it was removed, though it renewed in time")
				}
			}
			endLeases(t, s)
			ends := 0
			for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 1000, windsock.EventFilter{Type: windsock.MonitorExpired})) {
				if e.SubjectID != lapsed.ID {
					t.Errorf("expired: %+v", e)
				}
				ends++
			}
			expect(t, "ends", ends, 1)
		})
	}
}
