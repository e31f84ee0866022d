// Package monitors tells the registered monitors what changed. It follows the log of
// events and calls each monitor back for those that concern it, until the monitor has
// taken them: what it hears of one subject in order, and one subject beside the other.
package monitors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"windsock"
)

// A Log is what is told, to whom, and how far each monitor is. *store.Store is one.
type Log interface {
	// Events returns up to limit events after a seq, ascending; f.Scope selects as a
	// monitor's scope does.
	Events(ctx context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error)
	// Head is the seq of the newest event.
	Head() int64
	// Wait returns nil once there is an event after that seq.
	Wait(ctx context.Context, after int64) error
	// Targets returns every monitor, with its secret and how far it is.
	Targets(ctx context.Context) ([]windsock.Target, error)
	// Target returns ErrNotFound when the monitor was removed.
	Target(ctx context.Context, id string) (windsock.Target, error)
	// SaveProgress passes over monitors that were removed, or are in a later round. It
	// saves a cursor together with the lanes that it passes; and nothing, if a term of ctx
	// is over.
	SaveProgress(ctx context.Context, progress []windsock.Progress) error
	// PauseMonitor and ResumeMonitor leave alone what an operator paused.
	PauseMonitor(ctx context.Context, id string, by windsock.Pause, reason string) (windsock.Monitor, error)
	ResumeMonitor(ctx context.Context, id string, from windsock.Resume) (windsock.Monitor, error)
	// VerifyMonitor notes what a monitor grants, if that is still asked for.
	VerifyMonitor(ctx context.Context, id string, g windsock.Grant) error
}

const (
	pageSize   = 500             // events the reader takes from the log at once
	fillSize   = 100             // events a monitor that lags takes from it at once
	fillers    = 2               // monitors that read for themselves at the same time
	idleLag    = 50_000          // events that a monitor's saved cursor may be behind for want of anything to deliver,
	idleAge    = time.Hour       // and for how long: it holds what is old in the log
	maxCatchUp = 2 * idleLag     // events that are read again for all at the start; who is further behind reads for itself
	breath     = time.Second     // after a failure to read
	lastSave   = 2 * time.Second // for the save at the end
)

// Deliverer calls the monitors back. Log, Logger and Metrics are to be set.
//
// One reader follows the log and hands each event to the monitors it concerns. Those
// that have something to send stand in line for one of a bounded number of requests. A
// turn is one request, and then it is the next one's; a monitor may have several under
// way, each about another subject. Once half of the requests are taken, the others are
// for monitors that have none under way: some that hang with all that they may have leave
// room for the rest. Who did not answer last is tried apart from those, or many that hang
// would be waited for again and again. A monitor that waits for its next try, or for an
// event, costs neither a request nor a goroutine.
type Deliverer struct {
	Log       Log
	Logger    *slog.Logger
	Metrics   *Metrics
	Transport http.RoundTripper // never an http.Client, which would follow redirects; default NewTransport(Guard)
	Guard     Guard             // of the default Transport
	ID        string            // of this windsock, sent so that it knows its own callbacks should they come back; "": is not sent
	Version   string            // of the program, for User-Agent
	Origin    string            // the host name by which monitors are asked whether we may call; default windsock
	Source    string            // the source of every CloudEvent; default /windsock
	Requests  int               // under way at once, to all monitors; default 512. Half as many again to those that did not answer last
	Timeout   time.Duration     // of a request, from connecting to the end of its answer; default 10 s
	Grace     time.Duration     // for requests under way when it is not for us any more to call back; default 8 s
	Tracer    oteltrace.Tracer  // shows callbacks as spans; nil: nobody does
	Rand      func() float64    // for jitter; default rand.Float64

	// Share has us call back the monitors of some units, until ctx ends; default windsock.DoAll.
	Share func(ctx context.Context, w windsock.Worker, units ...string) error
	Era   func() int64           // another one once a unit was lost that we did, 0 while all may be; default: none ever is
	Heir  func(unit string) bool // whether another process goes on at once when a unit is not for us any more; default: none does

	sends  *pool // monitors for which a try is due
	probes *pool // and those of them that did not answer last
	fills  *pool // monitors that have to read the log for themselves
	saver  *saver
	byTLS  transports
	pings  atomic.Int32 // under way

	at      atomic.Int64 // every event up to here was handed on; the reader's
	beat    atomic.Pointer[time.Time]
	shares  map[string]*share // those whose monitors we have, by unit
	swept   int64             // when the idle monitors' cursors were last looked at, by the log
	sweptAt time.Time
	index   map[windsock.Scope][]*monitor
	reading trouble
	filling trouble

	mu    sync.RWMutex // for others than the reader, which alone changes it
	byID  map[string]*monitor
	turns turns
}

// Run delivers, to those monitors that are for us to call back, until ctx ends. Requests
// under way are then given Grace to end, or half a second if another process goes on; what
// was not delivered stays in the log.
func (d *Deliverer) Run(ctx context.Context) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	d.prepare(working)
	defer d.Metrics.show(nil)
	var wg sync.WaitGroup
	wg.Go(func() { d.saver.run(working) })
	wg.Go(func() { d.follow(working) })

	err := d.Share(ctx, d, windsock.DelivererUnits...)

	stop()
	wg.Wait()
	pools := []*pool{d.sends, d.probes, d.fills}
	for _, p := range pools {
		p.close()
	}
	for _, p := range pools {
		p.workers.Wait()
	}
	if t, ok := d.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	d.byTLS.CloseIdleConnections()
	return err
}

func (d *Deliverer) prepare(ctx context.Context) {
	if d.Transport == nil {
		t := NewTransport(d.Guard)
		t.DialContext = d.gated(t.DialContext)
		d.Transport = t
	}
	if d.Rand == nil {
		d.Rand = rand.Float64
	}
	d.Version = cmp.Or(d.Version, "dev")
	d.Origin = cmp.Or(d.Origin, "windsock")
	d.Source = cmp.Or(d.Source, "/windsock")
	d.Requests = cmp.Or(d.Requests, 512)
	d.Timeout = cmp.Or(d.Timeout, 10*time.Second)
	d.Grace = cmp.Or(d.Grace, 8*time.Second)
	if d.Share == nil {
		d.Share = windsock.DoAll
	}

	d.sends = &pool{limit: d.Requests, work: func(m *monitor) bool { return d.deliver(d.sends, m) }}
	d.probes = &pool{limit: max(d.Requests/2, 1), work: func(m *monitor) bool { return d.deliver(d.probes, m) }}
	d.fills = &pool{limit: fillers, work: func(m *monitor) bool { return d.fill(ctx, m) }}
	d.saver = newSaver(d.Log, d.Logger, &d.at)
	d.reading = trouble{logger: d.Logger, what: "reading the log"}
	d.filling = trouble{logger: d.Logger, what: "reading the log for monitors that are behind"}
	d.index = map[windsock.Scope][]*monitor{}
	d.shares = map[string]*share{}
	d.turns = newTurns()
	d.mu.Lock()
	d.byID = map[string]*monitor{}
	d.mu.Unlock()
	d.Metrics.show(d)
}

// Beat returns when the reader last went round, which it does each second even when
// nothing happens. It is zero until Run has begun.
func (d *Deliverer) Beat() time.Time {
	if t := d.beat.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Deliveries returns how the callbacks to those of the monitors go that are there.
func (d *Deliverer) Deliveries(_ context.Context, monitorIDs []string) map[string]windsock.Delivery {
	known := make(map[string]windsock.Delivery, len(monitorIDs))
	for _, id := range monitorIDs {
		if how, ok := d.Delivery(id); ok {
			known[id] = how
		}
	}
	return known
}

// Delivery returns how the callbacks to one monitor go, if it is there.
func (d *Deliverer) Delivery(monitorID string) (windsock.Delivery, bool) {
	d.mu.RLock()
	m := d.byID[monitorID]
	d.mu.RUnlock()
	if m == nil {
		return windsock.Delivery{}, false
	}
	return m.delivery(), true
}

// follow reads the log until ctx ends.
func (d *Deliverer) follow(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		d.beat.Store(&now)
		err := d.turn(ctx)
		if err == nil {
			err = d.advance(ctx)
		}
		if errors.Is(err, windsock.ErrPruned) {
			d.Logger.Warn("the log does not reach back to what was read last, going on where the monitors are now", "after", d.at.Load())
			d.turns.again(d.shares)
			err = nil
		}
		if ctx.Err() != nil {
			return
		}
		d.reading.note(err)
		if err != nil {
			sleep(ctx, breath)
		}
	}
}

// advance hands on the next page of the log, and when there is none waits for it.
func (d *Deliverer) advance(ctx context.Context) error {
	if len(d.shares) == 0 {
		d.at.Store(d.Log.Head()) // it concerns nobody
	}
	var page []windsock.Event
	if at := d.at.Load(); at < d.Log.Head() {
		var err error
		if page, err = d.Log.Events(ctx, at, pageSize, windsock.EventFilter{}); err != nil {
			return err
		}
	}
	for i := range page {
		e := &page[i]
		if e.Kind == windsock.KindMonitor {
			if err := d.admit(ctx, e); err != nil {
				return err
			}
		} else if err := d.skip(ctx, e); err != nil {
			return err
		}
		d.hand(e)
		d.at.Store(e.Seq) // only now: a monitor that is not waiting for anything is as far as this
	}
	d.sweep()
	if len(page) == pageSize {
		return nil
	}
	wait, cancel := d.turns.wait(ctx, time.Second)
	defer cancel()
	if err := d.Log.Wait(wait, d.at.Load()); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// hand gives an event to the monitors that it concerns.
func (d *Deliverer) hand(e *windsock.Event) {
	var n *notice
	for _, scope := range windsock.ScopesOf(e) {
		for _, m := range d.index[scope] {
			if n == nil {
				n = &notice{Event: *e} // a copy, or it would hold the whole page in memory
			}
			m.mu.Lock()
			m.offer(n)
			d.wake(m)
			m.mu.Unlock()
		}
	}
}

// admit follows what the log says of the monitors themselves.
func (d *Deliverer) admit(ctx context.Context, e *windsock.Event) error {
	s := d.shares[windsock.DelivererUnit(e.SubjectID)]
	if s == nil || e.Seq <= s.loaded {
		return nil
	}
	switch e.Type {
	case windsock.MonitorAdded:
		target, err := d.Log.Target(ctx, e.SubjectID)
		if errors.Is(err, windsock.ErrNotFound) {
			return nil // it was removed since, as the log will say
		}
		if err != nil {
			return fmt.Errorf("monitor %q: %w", e.SubjectID, err)
		}
		d.add(&target, s)
	case windsock.MonitorRemoved, windsock.MonitorExpired:
		d.remove(e.SubjectID)
	case windsock.MonitorPaused, windsock.MonitorResumed, windsock.MonitorReplayed:
		return d.renew(ctx, e.SubjectID, func(m *monitor, t *windsock.Target) { m.steer(t, d.at.Load()) })
	case windsock.MonitorVerified:
		return d.renew(ctx, e.SubjectID, (*monitor).verified)
	}
	return nil
}

// renew has a monitor follow what is now stored of it, of which the log says that it is
// something else.
func (d *Deliverer) renew(ctx context.Context, id string, follow func(m *monitor, t *windsock.Target)) error {
	m := d.byID[id]
	if m == nil {
		return nil
	}
	target, err := d.Log.Target(ctx, id)
	if errors.Is(err, windsock.ErrNotFound) {
		return nil // it was removed since
	}
	if err != nil {
		return fmt.Errorf("monitor %q: %w", id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	follow(m, &target)
	d.saver.mark(m)
	d.wake(m)
	return nil
}

// add takes a monitor in, or its new wishes.
func (d *Deliverer) add(t *windsock.Target, s *share) {
	m := d.byID[t.ID]
	if m == nil {
		m = newMonitor(t, s, d.begin(t, s), d.wake)
		d.mu.Lock()
		d.byID[t.ID] = m
		d.mu.Unlock()
	} else {
		d.unlist(m)
	}
	d.index[t.Scope] = append(d.index[t.Scope], m)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.target != t {
		m.reload(t, d.at.Load())
		d.saver.mark(m)
	}
	d.wake(m)
}

// begin returns up to where a monitor that is taken in reads for itself. What waits when
// the process starts is not brought by the reader if it is coalesced.
func (d *Deliverer) begin(t *windsock.Target, s *share) int64 {
	if t.Backlog == windsock.Latest || t.Progress.Cursor < t.Progress.LatestTo {
		return max(d.at.Load(), s.loaded)
	}
	return d.at.Load()
}

// remove drops a monitor with all that waits for it, and ends its requests.
func (d *Deliverer) remove(id string) {
	m := d.byID[id]
	if m == nil {
		return
	}
	d.unlist(m)
	d.mu.Lock()
	delete(d.byID, id)
	d.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave()
}

func (d *Deliverer) unlist(m *monitor) {
	scope := m.target.Scope
	d.index[scope] = slices.DeleteFunc(d.index[scope], func(other *monitor) bool { return other == m })
	if len(d.index[scope]) == 0 {
		delete(d.index, scope)
	}
}

// sweep has the cursors of monitors saved that had nothing to do for so many events
// that a start after a crash would read too much again, or for so long that they hold
// what is old in the log.
func (d *Deliverer) sweep() {
	at, now := d.at.Load(), time.Now()
	hourly := now.Sub(d.sweptAt).Abs() >= idleAge
	if at-d.swept < idleLag && !hourly {
		return
	}
	d.swept = at
	if hourly {
		d.sweptAt = now
	}
	for _, m := range d.byID {
		m.mu.Lock()
		if behind := at - m.cursor; !m.waits() && (behind >= idleLag || hourly && behind > 0) {
			d.saver.mark(m)
		}
		m.mu.Unlock()
	}
}

// wake puts m in line for what it has to do; m.mu is held.
func (d *Deliverer) wake(m *monitor) {
	if d.due(m) {
		d.lineOf(m).add(m)
	}
}

// lineOf returns where m is to stand for a try; m.mu is held.
func (d *Deliverer) lineOf(m *monitor) *pool {
	if m.inDoubt() {
		return d.probes
	}
	return d.sends
}

// due sees to what m has to do next, and reports whether it is to stand in line for a
// try. m.mu is held.
func (d *Deliverer) due(m *monitor) bool {
	if m.out() {
		return false
	}
	if !m.filling && m.mustRead() {
		m.filling = true
		d.fills.add(m)
	}
	if m.inLine || !m.maySend() {
		return false
	}
	m.inLine = true
	return true
}

// deliver makes one try of the lane of m whose turn it is, or of a batch of them. It
// reports whether m is to stand in the same line again.
func (d *Deliverer) deliver(line *pool, m *monitor) bool {
	ctx, cancel := context.WithTimeout(m.share.calls, d.Timeout)
	defer cancel()
	era := d.era()
	m.mu.Lock()
	m.inLine = false
	if era == 0 || !m.share.term.Stands() { // it is lost, or soon ours again
		m.mu.Unlock()
		sleep(m.share.calls, breath/10)
		m.mu.Lock()
		defer m.mu.Unlock()
		return d.again(line, m)
	}
	if line != d.lineOf(m) {
		d.wake(m)
		m.mu.Unlock()
		return false
	}
	if !m.maySend() || m.flying > 0 && line.crowded() { // when one of its own has ended it comes back
		m.mu.Unlock()
		return false
	}
	m.share.flying.Add(1)
	defer m.share.flying.Done()
	if m.target.Pending() {
		return d.ask(ctx, line, m, cancel)
	}
	b, t, epoch := m.begin(cancel), m.target, m.epoch
	spare := m.record.credit.take(ofMonitor, time.Now())
	d.wake(m) // the next lane need not wait for this one
	if len(b.items) == 0 {
		d.next(ctx, m, b)
	}
	m.mu.Unlock()

	var got answer
	var try *windsock.Try
	begun := time.Now()
	if len(b.items) > 0 {
		got = d.call(ctx, t, b)
		try = b.try(&got, spare, begun)
	}
	now := time.Now()

	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(b)
	broken := got.meaning == away && (got.reply.withheld || errors.Is(ctx.Err(), context.Canceled) || d.era() != era) // it was we who ended it; that says nothing of the monitor
	if len(b.items) > 0 && !broken {
		d.Metrics.tried(got.meaning == taken, now.Sub(begun), b.items[0].Trace)
		d.saver.keep(m, try)
		d.settle(m, b, got, epoch, now, t == m.target)
		d.saver.mark(m)
	}
	for _, l := range b.lanes {
		m.rest(l)
	}
	return d.again(line, m)
}

// again reports whether m is to stand in this line again, or has it stand in the other.
// m.mu is held.
func (d *Deliverer) again(line *pool, m *monitor) bool {
	if line != d.lineOf(m) {
		d.wake(m)
		return false
	}
	return d.due(m)
}

// next has a batch of one lane carry what waits first in that, unless that turns out to
// be nothing. It is called with m.mu held and lets go of it to read the log.
func (d *Deliverer) next(ctx context.Context, m *monitor, b *batch) {
	l := b.lanes[0]
	if len(l.queue) == 0 {
		t, first, last := m.target, l.first, l.last
		m.mu.Unlock()
		queue, err := d.recall(ctx, t, l.subject, first, last)
		if errors.Is(err, windsock.ErrPruned) {
			if behind := d.catchUp(ctx, m); behind != nil {
				err = behind
			}
		}
		if ctx.Err() == nil {
			d.filling.note(err)
			if err != nil {
				sleep(ctx, breath)
			}
		}
		m.mu.Lock()
		if err != nil || t != m.target {
			return
		}
		if l.recalled(queue, last); len(queue) == 0 {
			d.saver.mark(m)
		}
	}
	b.carry()
}

// settle notes what came of a try that began in an epoch. A failure by wishes that m does
// not have any more says nothing of it.
func (d *Deliverer) settle(m *monitor, b *batch, got answer, epoch int, now time.Time, current bool) {
	was := m.paused
	seq := b.items[0].Seq
	switch {
	case got.meaning == taken || got.meaning == refused && len(b.items) == 1:
		d.divide(m, b, got, epoch, now, current)
	case !current:
	case got.meaning == refused:
		m.narrow(len(b.items) / 2)
		m.refused(got, epoch, now, d.Rand)
		d.Logger.Warn("batch refused, is halved", "monitor", m.id, "seq", seq, "events", len(b.items), "error", cut(got.failure, maxLogged))
	default:
		m.failed(got, epoch, now, d.Rand)
		if m.narrow(len(b.items)); m.attempts > 1 {
			m.narrow(len(b.items) / 2)
		}
		d.Logger.Warn("callback failed", "monitor", m.id, "seq", seq, "attempts", m.attempts, "next_try", m.nextTryAt, "error", cut(got.failure, maxLogged))
	}
	if m.paused != was {
		d.Logger.Warn("monitor paused or resumed", "monitor", m.id, "was", was, "paused", m.paused)
	}
}

// fill reads one page of the log for a monitor that lags. It reports whether there is
// more to read.
func (d *Deliverer) fill(ctx context.Context, m *monitor) bool {
	m.mu.Lock()
	t := m.target
	part, filling := m.toRead()
	_, page := m.room()
	m.mu.Unlock()
	events, err := d.Log.Events(ctx, part.after, page, windsock.EventFilter{Scope: t.Scope, Kind: part.of.Kind, Subject: part.of.ID, Brief: !filling})
	if errors.Is(err, windsock.ErrPruned) {
		err = d.catchUp(ctx, m)
		part = uncounted{} // nothing of it was read
		sleep(ctx, breath)
	}
	if ctx.Err() != nil {
		return false
	}
	d.filling.note(err)
	if err != nil {
		sleep(ctx, breath)
		return true
	}
	if len(events) == page {
		part.to = min(part.to, events[page-1].Seq)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case part.empty(), t != m.target: // what was read is not what it wants now
	case filling:
		m.fill(events, part.span)
	default:
		m.count(events, part)
	}
	m.filling = m.mustRead() && !m.out()
	d.wake(m)
	return m.filling
}

// trouble logs a fault when it begins and when it is over, and not each time it is met.
type trouble struct {
	logger *slog.Logger
	what   string

	mu   sync.Mutex
	last error
}

func (t *trouble) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && t.last == nil:
		t.logger.Error(t.what+" fails, will go on trying", "error", err)
	case err == nil && t.last != nil:
		t.logger.Info(t.what + " works again")
	}
	t.last = err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
