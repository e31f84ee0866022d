package monitors

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"windsock"
)

// handover is how long requests under way may go on when another process waits to call
// back in our place.
const handover = 500 * time.Millisecond

// A share are the monitors of a unit, while they are for us to call back.
type share struct {
	unit    string
	term    windsock.Term
	calls   context.Context // of every request to them
	cut     context.CancelFunc
	flying  sync.WaitGroup // requests under way
	leaving atomic.Bool    // none may be made any more
	parted  chan struct{}  // closed when the reader has no more to do with them
	left    []*monitor     // they, after that
	offered atomic.Int64   // one more than up to where they were offered the log, after that; else 0
	loaded  int64          // what the log says of them up to here is known; the reader's
}

// Begin takes in the monitors of units.
func (d *Deliverer) Begin(units map[string]windsock.Term) {
	var coming []*share
	for unit, term := range units {
		s := &share{unit: unit, term: term, parted: make(chan struct{})}
		s.calls, s.cut = context.WithCancel(windsock.Under(context.Background(), term))
		coming = append(coming, s)
	}
	d.turns.add(coming...)
}

// End drops the monitors of a unit. If that still is ours, requests under way may end, and
// how far the monitors are is saved.
func (d *Deliverer) End(unit string) {
	s := d.turns.end(unit)
	defer s.cut()
	ours := s.term.Stands()
	if !ours {
		s.cut()
	}
	<-s.parted
	for _, m := range s.left { // after that, none begins a request
		m.mu.Lock()
		m.halt()
		m.mu.Unlock()
	}
	if ours {
		grace := d.Grace
		if d.Heir != nil && d.Heir(unit) {
			grace = min(grace, handover)
		}
		defer time.AfterFunc(grace, s.cut).Stop()
	}
	s.flying.Wait()
	if ours {
		for _, m := range s.left {
			d.saver.mark(m)
		}
		last, cancel := context.WithTimeout(context.Background(), lastSave)
		defer cancel()
		if err := d.saver.save(last); err != nil && s.term.Stands() {
			d.Logger.Error("could not save how far the monitors are; what was delivered since the last time is repeated", "unit", unit, "error", err)
		}
	}
	for _, m := range s.left {
		m.mu.Lock()
		m.leave()
		m.mu.Unlock()
	}
}

// Monitors is how many we call back.
func (d *Deliverer) Monitors() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(d.byID)
}

// turn takes in the shares that came, and lets go of those that leave.
func (d *Deliverer) turn(ctx context.Context) error {
	coming, going := d.turns.take()
	d.part(going)
	if len(coming) == 0 {
		return nil
	}
	if err := d.load(ctx, coming); err != nil {
		d.turns.add(coming...)
		return err
	}
	return nil
}

// part lets go of shares, with their monitors.
func (d *Deliverer) part(going []*share) {
	if len(going) == 0 {
		return
	}
	for _, s := range going {
		s.offered.Store(d.at.Load() + 1) // before the reader goes on without them
	}
	for id, m := range d.byID {
		if m.share.offered.Load() == 0 {
			continue
		}
		m.share.left = append(m.share.left, m)
		d.unlist(m)
		d.mu.Lock()
		delete(d.byID, id)
		d.mu.Unlock()
	}
	for _, s := range going {
		delete(d.shares, s.unit)
		close(s.parted)
	}
}

// load takes in the monitors of shares. The reader goes back, or for the first of all
// begins, where the one is that is furthest behind, but not so far back that the others
// would wait for it.
func (d *Deliverer) load(ctx context.Context, coming []*share) error {
	head := d.Log.Head() // before Targets, so that no change can fall between the two
	targets, err := d.Log.Targets(ctx)
	if err != nil {
		return err
	}
	now := map[string]*share{}
	for _, s := range coming {
		now[s.unit] = s
		d.shares[s.unit] = s
		s.loaded = head
	}
	begin := head
	for unit, s := range d.shares {
		if now[unit] == nil { // the reader is not to hear again what it did
			s.loaded = max(s.loaded, d.at.Load())
			begin = min(begin, d.at.Load())
		}
	}
	there := map[string]bool{}
	for i := range targets {
		if t := &targets[i]; now[windsock.DelivererUnit(t.ID)] != nil {
			there[t.ID] = true
			begin = min(begin, max(t.Cursor, head-maxCatchUp))
		}
	}
	for id, m := range d.byID {
		if now[m.share.unit] != nil && !there[id] {
			d.remove(id) // of which the log no longer says so
		}
	}
	d.at.Store(begin)
	if d.sweptAt.IsZero() {
		d.swept, d.sweptAt = begin, time.Now()
	}
	for i := range targets {
		if t := &targets[i]; there[t.ID] {
			d.add(t, now[windsock.DelivererUnit(t.ID)])
		}
	}
	return nil
}

// reach is up to where the monitors were offered the log, of which the reader is at at.
func (s *share) reach(at int64) int64 {
	if o := s.offered.Load(); o > 0 {
		return min(at, o-1)
	}
	return at
}

// turns are the shares that come and go, on their way to the reader.
type turns struct {
	mu     *sync.Mutex
	ours   map[string]*share // that have not ended
	coming []*share
	going  []*share
	hurry  func() // ends the reader's wait
}

func newTurns() turns {
	return turns{mu: new(sync.Mutex), ours: map[string]*share{}, hurry: func() {}}
}

func (t *turns) add(shares ...*share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range shares {
		if !s.leaving.Load() {
			t.ours[s.unit] = s
			t.coming = append(t.coming, s)
		}
	}
	t.hurry()
}

// again has shares taken in anew.
func (t *turns) again(shares map[string]*share) {
	for _, s := range shares {
		t.add(s)
	}
}

func (t *turns) end(unit string) *share {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.ours[unit]
	delete(t.ours, unit)
	s.leaving.Store(true)
	t.going = append(t.going, s)
	t.hurry()
	return s
}

func (t *turns) take() (coming, going []*share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	coming, going = t.coming, t.going
	t.coming, t.going = nil, nil
	for _, s := range going {
		coming = slices.DeleteFunc(coming, func(other *share) bool { return other == s })
	}
	return coming, going
}

// wait returns a context that ends when shares come or go, or after a time.
func (t *turns) wait(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hurry = cancel
	if len(t.coming)+len(t.going) > 0 {
		cancel()
	}
	return ctx, cancel
}
