package store

import (
	"context"
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
// its lease, a row, for a term; he renews all that he holds by one sign of life, which is
// in his own row. The lease counts the holders: that number is checked in every
// transaction of a term, so that who lost the lease without knowing, as he was suspended,
// commits nothing.
const (
	leaseLasts  = 6 * time.Second // since its holder gave a sign of life
	leaseMargin = time.Second     // so much earlier the holder takes it for lost
)

var errLost = fmt.Errorf("%w: another process holds the lease", windsock.ErrUnavailable)

// A Term is a time for which this process holds the lease of a unit.
type Term struct {
	s     *Store
	lot   *lot
	unit  string
	fence int64
	lost  atomic.Bool
	over  sync.Once
}

// Stands reports whether the lease is still ours, by our own clock.
func (m *Term) Stands() bool { return !m.lost.Load() && m.s.Era() != 0 }

// finish has the work of a term ended, and then the lease given up.
func (m *Term) finish() {
	m.over.Do(func() {
		m.lot.under.Go(func() {
			m.lot.worker.End(m.unit)
			m.s.resign(m)
		})
	})
}

// Era is another number once anything was lost that this process held, and 0 while all of
// it may be: we gave no sign of life in time. While there is no other process that does not
// matter: one that comes waits for as long as a lease lasts.
func (s *Store) Era() int64 {
	if time.Since(s.opened) < time.Duration(s.terms.until.Load()) || s.pg == nil && s.neighbours.alone() {
		return 1 + s.terms.losses.Load()
	}
	return 0
}

// terms are those that this process is in.
type terms struct {
	until  atomic.Int64 // they stand, in nanoseconds since the store was opened, by the monotonic clock
	losses atomic.Int64

	mu    sync.Mutex
	held  map[string]*Term // by unit
	lots  []*lot
	kick  chan struct{} // there is another lot
	left  broadcast
	wants string // in what we take part, as others can read

	monitors func() int // that we call back; nil: none

	turn  sync.Mutex // of who looks what is whose
	signs map[int64]sign
}

func newTerms() terms {
	return terms{held: map[string]*Term{}, kick: make(chan struct{}, 1), left: newBroadcast(), signs: map[int64]sign{}, wants: "[]"}
}

func (s *Store) held() []*Term {
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	return slices.Collect(maps.Values(s.terms.held))
}

// term returns the one in which this process does a unit; nil: it does not.
func (s *Store) term(unit string) *Term {
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	return s.terms.held[unit]
}

// Holds reports whether a unit is for this process to do.
func (s *Store) Holds(unit string) bool { return s.term(unit) != nil }

// renewed notes that we gave a sign of life, by what was asked then.
func (s *Store) renewed(asked time.Time) {
	s.terms.until.Store(int64(asked.Sub(s.opened) + leaseLasts - leaseMargin))
}

// lose notes that leases are others', before anybody may take what still stands for it.
func (s *Store) lose(lost []*Term) {
	n := 0
	for _, m := range lost {
		if s.term(m.unit) == m && m.lost.CompareAndSwap(false, true) { // else we gave it up
			n++
		}
	}
	if n == 0 {
		return
	}
	s.terms.losses.Add(1)
	s.Logger.Warn("leases are lost", "units", n)
	for _, m := range lost {
		m.finish()
	}
}

// resign ends a term, and gives the lease up if it is still ours.
func (s *Store) resign(m *Term) {
	s.terms.mu.Lock()
	delete(s.terms.held, m.unit)
	s.terms.mu.Unlock()
	s.terms.left.send()
	if m.lost.Load() {
		return
	}
	err := s.do(context.Background(), func(t *tx) error {
		t.exec(`UPDATE leases SET holder = 0 WHERE name = ? AND holder = ? AND fence = ?`, m.unit, s.id, m.fence)
		t.fences = nil
		return t.err
	})
	if err != nil && !errors.Is(err, errLost) {
		s.Logger.Warn("a lease could not be given up, and runs out", "unit", m.unit, "error", err)
	}
}

// Lead runs work whenever a unit is for this process to do, until ctx ends. The context
// that work gets ends when the lease is lost, too; whatever is written under it, or one
// made of it, is written only while the lease is held.
//
// An error of work ends Lead, unless the lease was lost.
func (s *Store) Lead(ctx context.Context, unit string, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := s.Share(ctx, &leader{ctx: ctx, stop: stop, work: work}, unit)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return err
}

// A leader does one unit.
type leader struct {
	ctx  context.Context
	stop context.CancelCauseFunc
	work func(context.Context) error

	end  context.CancelFunc
	done chan struct{}
}

func (l *leader) Begin(units map[string]windsock.Term) {
	for _, term := range units {
		ctx, end := context.WithCancel(windsock.Under(l.ctx, term))
		done := make(chan struct{})
		l.end, l.done = end, done
		go func() {
			defer close(done)
			if err := l.work(ctx); err != nil && term.Stands() {
				l.stop(err)
			}
		}()
	}
}

func (l *leader) End(string) {
	l.end()
	<-l.done
}

// stands reports whether the lease of a term is held in it, and by us.
func (t *tx) stands(m *Term) bool {
	if t.fences == nil {
		fences := map[string]int64{}
		t.rows(func(read func(...any) error) error {
			var unit string
			var fence int64
			err := read(&unit, &fence)
			fences[unit] = fence
			return err
		}, `SELECT name, fence FROM leases WHERE holder = ?`, t.s.id)
		if t.err != nil {
			return false
		}
		t.fences = fences
	}
	return t.fences[m.unit] == m.fence
}

// admit returns why an op is not to be written: nobody waits for it any more, or it is of
// a term that is over.
func (t *tx) admit(o *op) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	for _, term := range windsock.TermsOf(o.ctx) {
		if m, _ := term.(*Term); m != nil && !t.stands(m) {
			if t.err != nil {
				return unavailable(t.err)
			}
			t.s.lose([]*Term{m})
			return errLost
		}
	}
	return unavailable(t.err)
}
