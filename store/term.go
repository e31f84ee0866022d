package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"windsock"
)

// What only one process may do at a time is a unit, named by a string. Who does it holds
// its lease, a row, for a term. The row counts the holders: that number is checked in
// every transaction of a term, so that who lost the lease without knowing, as he was
// suspended, commits nothing.
const (
	leaseLasts  = 6 * time.Second // since it was renewed
	leaseMargin = time.Second     // so much earlier the holder takes it for lost
)

var errLost = fmt.Errorf("%w: another process holds the lease", windsock.ErrUnavailable)

type leaseRow struct {
	Name      string `db:"name"`
	Holder    int64  `db:"holder"`
	Fence     int64  `db:"fence"`
	Since     int64  `db:"since"`
	ExpiresAt int64  `db:"expires_at"`
}

const termViews = `SELECT name, holder, fence, since, expires_at FROM leases`

// A Term is a time for which this process holds the lease of a unit.
type Term struct {
	s     *Store
	unit  string
	fence int64
	until atomic.Int64 // nanoseconds since the store was opened, by the monotonic clock
	lost  atomic.Bool
	ctx   context.Context
	end   context.CancelFunc
}

// Stands reports whether the lease is still ours, by our own clock. While there is no
// other process it is: one that comes waits for as long as it lasts.
func (m *Term) Stands() bool {
	return !m.lost.Load() && (time.Since(m.s.opened) < time.Duration(m.until.Load()) || m.s.pg == nil && m.s.neighbours.alone())
}

// extend notes that the lease was renewed, by what was asked then.
func (m *Term) extend(asked time.Time) {
	m.until.Store(int64(asked.Sub(m.s.opened) + leaseLasts - leaseMargin))
}

// lose notes that the lease is another's.
func (m *Term) lose() {
	m.lost.Store(true)
	m.end()
}

type termKey struct{}

// terms are those that this process is in.
type terms struct {
	mu    sync.Mutex
	held  map[*Term]struct{}
	units map[string]bool // that it is in, or waits for
	left  broadcast
}

func (s *Store) held() []*Term {
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	return slices.Collect(maps.Keys(s.terms.held))
}

func (s *Store) holds(unit string) bool {
	return slices.ContainsFunc(s.held(), func(m *Term) bool { return m.unit == unit })
}

// Lead runs work whenever this process holds the lease of a unit, until ctx ends. The
// context that work gets ends when the lease is lost, too; whatever is written under it,
// or one made of it, is written only while the lease is held. Run has to run, which renews
// it.
//
// An error of work ends Lead, unless the lease was lost.
func (s *Store) Lead(ctx context.Context, unit string, work func(context.Context, *Term) error) error {
	s.terms.mu.Lock()
	s.terms.units[unit] = true
	s.terms.mu.Unlock()
	for {
		m := s.acquire(ctx, unit)
		if m == nil {
			return nil
		}
		s.Logger.Debug("holds the lease", "unit", unit, "fence", m.fence)
		err := work(m.ctx, m)
		s.resign(m)
		switch {
		case m.lost.Load():
			s.Logger.Warn("the lease is lost", "unit", unit)
		case err != nil || ctx.Err() != nil:
			return err
		}
	}
}

// acquire waits for the lease of a unit; it returns nil when ctx ends before.
//
// A lease is free when its holder gave it up or is gone. If he is there, but does not
// renew it, it is when it has not changed for as long as it lasts, by our own clock: those
// of others may be wrong.
func (s *Store) acquire(ctx context.Context, unit string) *Term {
	var seen leaseRow
	var since time.Time
	for failing := false; ctx.Err() == nil; {
		moved := s.moved.wait()
		now, err := s.lease(ctx, unit)
		if err == nil {
			if now != seen {
				seen, since = now, time.Now()
			}
			if now.Holder == 0 || now.Holder == s.id || !s.there(now.Holder) || time.Since(since) >= leaseLasts {
				var m *Term
				if m, err = s.take(ctx, unit, now); m != nil {
					return m
				}
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			s.Logger.Error("a lease cannot be taken, will go on trying", "unit", unit, "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-moved:
		}
	}
	return nil
}

func (s *Store) lease(ctx context.Context, unit string) (l leaseRow, err error) {
	err = s.read.GetContext(ctx, &l, termViews+` WHERE name = ?`, unit)
	if errors.Is(err, sql.ErrNoRows) {
		return leaseRow{Name: unit}, nil
	}
	return l, unavailable(err)
}

// take begins a term, unless the lease changed since it was seen.
func (s *Store) take(ctx context.Context, unit string, seen leaseRow) (*Term, error) {
	m := &Term{s: s, unit: unit, fence: seen.Fence + 1}
	m.extend(time.Now())
	taken := false
	err := s.do(ctx, func(t *tx) error {
		var rows []leaseRow
		t.all(&rows, termViews+` WHERE name = ?`, unit)
		if taken = t.err == nil && (len(rows) == 0 && seen.Fence == 0 || len(rows) == 1 && rows[0] == seen); taken {
			t.exec(`INSERT INTO leases (name, holder, fence, since, expires_at) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = excluded.fence, since = excluded.since, expires_at = excluded.expires_at`,
				unit, s.id, m.fence, t.micros, t.micros+leaseLasts.Microseconds())
		}
		return t.err
	})
	if err != nil || !taken {
		return nil, err
	}
	ctx, m.end = context.WithCancel(ctx)
	m.ctx = context.WithValue(ctx, termKey{}, m)
	s.terms.mu.Lock()
	s.terms.held[m] = struct{}{}
	s.terms.mu.Unlock()
	return m, nil
}

// resign ends a term, and gives the lease up if it is still ours.
func (s *Store) resign(m *Term) {
	s.terms.mu.Lock()
	delete(s.terms.held, m)
	s.terms.mu.Unlock()
	s.terms.left.send()
	m.end()
	err := s.do(context.WithoutCancel(m.ctx), func(t *tx) error {
		t.exec(`UPDATE leases SET holder = 0 WHERE name = ?`, m.unit)
		return t.err
	})
	if err != nil && !errors.Is(err, errLost) {
		s.Logger.Warn("a lease could not be given up, and runs out", "unit", m.unit, "error", err)
	}
}

// stands reports whether the lease of a term is held in it, and by us.
func (t *tx) stands(m *Term) bool {
	var n int
	t.get(&n, `SELECT count(*) FROM leases WHERE name = ? AND holder = ? AND fence = ?`, m.unit, m.s.id, m.fence)
	return n == 1
}

// admit returns why an op is not to be written: nobody waits for it any more, or it is of
// a term that is over.
func (t *tx) admit(o *op) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	if m, _ := o.ctx.Value(termKey{}).(*Term); m != nil && !t.stands(m) && t.err == nil {
		m.lose()
		return errLost
	}
	return t.err
}
