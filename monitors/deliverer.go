// Package monitors tells the registered monitors what changed. It follows the log of
// events and calls each monitor back for those that concern it, until the monitor has
// taken them: what it hears of one subject in order, and one subject beside the other.
package monitors

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
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
