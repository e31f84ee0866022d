package monitors

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"windsock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a Log in memory.
type memLog struct {
	mu       sync.Mutex
	events   []windsock.Event
	targets  map[string]windsock.Target
	progress map[string]windsock.Progress // as saved, with all lanes
	paused   map[string]windsock.Pause
	round    map[string]int64
	latestTo map[string]int64
	saved    int // rows
	tries    map[string][]windsock.Try
	omitted  map[string]int
	broken   error         // what SaveProgress answers
	blind    error         // what Events answers
	pruned   int64         // what was before is no longer kept
	reads    int           // of events
	slow     time.Duration // how long Events takes after it has read, for a scope
	news     chan struct{}
}

func newLog() *memLog {
	return &memLog{
		targets: map[string]windsock.Target{}, progress: map[string]windsock.Progress{}, paused: map[string]windsock.Pause{}, round: map[string]int64{},
		latestTo: map[string]int64{}, tries: map[string][]windsock.Try{}, omitted: map[string]int{}, news: make(chan struct{}),
	}
}

// crashed returns the log as a process finds it that starts after this one was killed.
func (l *memLog) crashed() *memLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newLog()
	c.events = slices.Clone(l.events)
	c.targets = maps.Clone(l.targets)
	c.progress = maps.Clone(l.progress)
	c.paused = maps.Clone(l.paused)
	c.round = maps.Clone(l.round)
	c.latestTo = maps.Clone(l.latestTo)
	return c
}

func (l *memLog) append(events ...windsock.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		e.Seq = int64(len(l.events) + 1)
		e.ID = cmp.Or(e.ID, "event-"+strconv.FormatInt(e.Seq, 10))
		if e.Time.IsZero() {
			e.Time = time.Now().UTC().Truncate(time.Microsecond)
		}
		l.events = append(l.events, e)
	}
	close(l.news)
	l.news = make(chan struct{})
}

// add registers a monitor, or changes it.
func (l *memLog) add(id string, spec windsock.MonitorSpec, secret windsock.Secret) {
	if err := spec.Complete(); err != nil {
		panic(err)
	}
	l.mu.Lock()
	t, known := l.targets[id]
	if !known {
		t.Cursor = int64(len(l.events) + 1)
	}
	t.MonitorSpec, t.ID, t.Secret = spec, id, secret
	l.targets[id] = t
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorAdded, SubjectID: id})
}

func (l *memLog) remove(id string) {
	l.mu.Lock()
	delete(l.targets, id)
	delete(l.progress, id)
	delete(l.paused, id)
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorRemoved, SubjectID: id})
}

func (l *memLog) Events(_ context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error) {
	l.mu.Lock()
	l.reads++
	err, slow := l.blind, l.slow
	if after < l.pruned {
		err = windsock.ErrPruned
	}
	var page []windsock.Event
	for i := after; i < int64(len(l.events)) && len(page) < limit; i++ {
		e := l.events[i]
		if (f.Subject == "" || f.Subject == e.SubjectID && f.Kind == e.Kind) && (f.Scope == "" || slices.Contains(windsock.ScopesOf(&e), f.Scope)) {
			page = append(page, e)
		}
	}
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if slow > 0 && f.Scope != "" {
		<-time.After(slow)
	}
	return page, nil
}

func (l *memLog) Head() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.events))
}

func (l *memLog) Wait(ctx context.Context, after int64) error {
	for {
		l.mu.Lock()
		head, news := int64(len(l.events)), l.news
		l.mu.Unlock()
		if head > after {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *memLog) target(id string) (windsock.Target, error) {
	t, ok := l.targets[id]
	if !ok {
		return t, fmt.Errorf("monitor %q: %w", id, windsock.ErrNotFound)
	}
	p, ok := l.progress[id]
	if !ok {
		p = windsock.Progress{MonitorID: id, Cursor: t.Cursor}
	}
	t.Cursor, t.Progress = p.Cursor, p
	t.Progress.Round, t.Progress.Paused, t.Progress.LatestTo = l.round[id], l.paused[id], l.latestTo[id]
	t.Progress.NextTryAt = p.NextTryAt.Round(0)
	return t, nil
}

func (l *memLog) Targets(context.Context) ([]windsock.Target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []windsock.Target
	for id := range l.targets {
		t, _ := l.target(id)
		all = append(all, t)
	}
	return all, nil
}

func (l *memLog) Target(_ context.Context, id string) (windsock.Target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target(id)
}

func (l *memLog) SaveProgress(_ context.Context, progress []windsock.Progress) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	for _, p := range progress {
		l.tries[p.MonitorID] = append(l.tries[p.MonitorID], p.Tries...)
		l.omitted[p.MonitorID] += p.Omitted
		p.Tries, p.Omitted = nil, 0
		if _, ok := l.targets[p.MonitorID]; !ok || p.Round != l.round[p.MonitorID] {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(l.progress[p.MonitorID].Lanes), func(old windsock.Lane) bool {
			return slices.Contains(p.Cleared, old.Subject) || slices.ContainsFunc(p.Lanes, func(l windsock.Lane) bool { return l.Subject == old.Subject })
		})
		p.Lanes, p.Cleared = append(kept, p.Lanes...), nil
		l.progress[p.MonitorID] = p
		l.saved++
	}
	return nil
}

func (l *memLog) PauseMonitor(_ context.Context, id string, by windsock.Pause, reason string) (m windsock.Monitor, err error) {
	l.mu.Lock()
	_, ok := l.targets[id]
	now := l.paused[id]
	if err = l.broken; err == nil && !ok {
		err = windsock.ErrNotFound
	}
	if err != nil || now == by || now != "" && by != windsock.PausedByOperator {
		l.mu.Unlock()
		return m, err
	}
	l.paused[id] = by
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorPaused, SubjectID: id, Source: string(by), Reason: reason})
	return m, nil
}

func (l *memLog) ResumeMonitor(_ context.Context, id string, from windsock.Resume) (m windsock.Monitor, err error) {
	l.mu.Lock()
	now := l.paused[id]
	if err = l.broken; err != nil || from == windsock.Recovered && now == windsock.PausedByOperator || (from == windsock.Replay || from == windsock.Recovered) && now == "" {
		l.mu.Unlock()
		return m, err
	}
	l.paused[id] = ""
	p := l.progress[id]
	p.Attempts, p.NextTryAt, p.LastError, p.Failures, p.FailingSince = 0, time.Time{}, "", 0, time.Time{}
	if from == windsock.Skip {
		l.round[id]++
		p.Cursor, p.Ahead, p.Lanes, p.Window = int64(len(l.events)+1), nil, nil, nil
	}
	if from == windsock.Coalesced {
		l.latestTo[id] = int64(len(l.events) + 1)
	}
	l.progress[id] = p
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorResumed, SubjectID: id})
	return m, nil
}

// replay has a monitor told a range again, as far as it was told that, and reports whether
// it was told any of it.
func (l *memLog) replay(id string, r windsock.Range) bool {
	l.mu.Lock()
	t, err := l.target(id)
	r.Last = min(r.Last, t.Progress.Reach())
	if err != nil || l.broken != nil || r.First > r.Last {
		l.mu.Unlock()
		return false
	}
	l.progress[id] = t.Progress.Again(r)
	l.round[id]++
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorReplayed, SubjectID: id})
	return true
}

func (l *memLog) progressOf(id string) windsock.Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress[id]
}

func (l *memLog) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// network is a RoundTripper without a network: what each monitor, known by the host it
// is called at, was sent and took, and how it answers.
type network struct {
	mu     sync.Mutex
	answer map[string]func(*http.Request) (*http.Response, error) // by host; default 200
	tries  map[string][]int64                                     // seqs, by host
	taken  map[string][]int64
	times  map[string][]time.Time        // of the tries
	told   map[string]map[string][]int64 // taken, by host and subject
	flying map[string]map[string]int     // tries under way, by host and subject
	under  map[string]int                // under way, by host
	most   map[string]int                // the most of them at once

	doubled []string // host and subject of tries that began while another was under way
	begun   int      // tries
	takes   map[string][]take
}

// A take is a callback that was taken.
type take struct {
	subject         string
	first, seq      int64 // it was told for these
	events          int64 // so many
	state, previous windsock.State
	replay          bool
	try             int // which of all that was
	at              time.Time
}

func newNetwork() *network {
	return &network{
		answer: map[string]func(*http.Request) (*http.Response, error){},
		tries:  map[string][]int64{}, taken: map[string][]int64{}, times: map[string][]time.Time{},
		told: map[string]map[string][]int64{}, flying: map[string]map[string]int{}, under: map[string]int{}, most: map[string]int{},
		takes: map[string][]take{},
	}
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Hostname()
	events := eventsIn(req)
	n.mu.Lock()
	if n.told[host] == nil {
		n.told[host], n.flying[host] = map[string][]int64{}, map[string]int{}
	}
	for subject := range subjectsOf(events) {
		if n.flying[host][subject]++; n.flying[host][subject] > 1 {
			n.doubled = append(n.doubled, host+" "+subject)
		}
	}
	n.under[host]++
	n.most[host] = max(n.most[host], n.under[host])
	for _, e := range events {
		n.tries[host] = append(n.tries[host], e.seq)
	}
	n.begun++
	try := n.begun
	n.times[host] = append(n.times[host], time.Now())
	answer := n.answer[host]
	n.mu.Unlock()
	resp, err := respond(200, "")(req)
	if answer != nil {
		resp, err = answer(req)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.under[host]--
	for subject := range subjectsOf(events) {
		n.flying[host][subject]--
	}
	for _, e := range takenOf(events, resp, err) {
		n.taken[host] = append(n.taken[host], e.seq)
		n.told[host][e.subject] = append(n.told[host][e.subject], e.seq)
		e.as.try, e.as.at = try, time.Now()
		n.takes[host] = append(n.takes[host], e.as)
	}
	return resp, err
}

func takeOf(said *message, subject string, replay bool) take {
	t := take{subject: subject, first: said.Seq, seq: said.Seq, events: 1, replay: replay, state: said.Observed, previous: said.Previous}
	if said.Coalesced > 0 {
		t.first, t.events = said.FirstSeq, said.Coalesced
	}
	return t
}

// tryCount returns how many tries have begun.
func (n *network) tryCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.begun
}

// taking returns what a host took, in that order.
func (n *network) taking(host string) []take {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.takes[host])
}

// at has a host answer so; nil: it takes all.
func (n *network) at(host string, answer func(*http.Request) (*http.Response, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer[host] = answer
}

func (n *network) tried(host string) []int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.tries[host])
}

// took returns what a host took, sorted: in what order it took the events of different
// subjects is nobody's business.
func (n *network) took(host string) []int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.taken[host]))
}

// firstTook returns when a host took an event first.
func (n *network) firstTook(host string, seq int64) time.Time {
	for _, t := range n.taking(host) {
		if t.seq == seq {
			return t.at
		}
	}
	panic("it never did")
}

// heard returns what a host took of each subject, in order.
func (n *network) heard(host string) map[string][]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	heard := map[string][]int64{}
	for subject, seqs := range n.told[host] {
		heard[subject] = slices.Clone(seqs)
	}
	return heard
}

// atOnce returns the most tries that were under way together at a host.
func (n *network) atOnce(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most[host]
}

// gaps returns the times between the tries at a host.
func (n *network) gaps(host string) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(n.times[host]); i++ {
		gaps = append(gaps, n.times[host][i].Sub(n.times[host][i-1]))
	}
	return gaps
}

func respond(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
}

func refuse(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// after takes its time.
func after(d time.Duration) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return respond(200, "")(req)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

// hang answers when the request is given up.
func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// process is a Deliverer that runs.
type process struct {
	*Deliverer
	logged *buffer
	reg    *prometheus.Registry
	cancel context.CancelFunc
	done   chan struct{}
}

// start runs a Deliverer over l until it is stopped or the test ends.
func start(t testing.TB, l Log, transport http.RoundTripper, options ...func(*Deliverer)) *process {
	t.Helper()
	p := &process{logged: &buffer{}, reg: prometheus.NewRegistry(), done: make(chan struct{})}
	p.Deliverer = &Deliverer{
		Log: l, Transport: transport,
		Logger:  slog.New(slog.NewTextHandler(p.logged, nil)),
		Metrics: NewMetrics(p.reg),
		Rand:    func() float64 { return 0.5 }, // no jitter
	}
	for _, o := range options {
		o(p.Deliverer)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	p.cancel()
	<-p.done
}

func (p *process) delivery(t testing.TB, id string) windsock.Delivery {
	t.Helper()
	d, ok := p.Delivery(id)
	if !ok {
		t.Fatalf("there is no monitor %q", id)
	}
	return d
}

// buffer is a bytes.Buffer for many.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// receiver is a monitor with a socket that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

type received struct {
	*http.Request
	body []byte
}

// newReceiver answers as handler does, or 200. The handler may read the body again.
func newReceiver(t testing.TB, handler http.HandlerFunc) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r.keep(handler))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) keep(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		r.got = append(r.got, received{req, body})
		r.mu.Unlock()
		if handler != nil {
			handler(w, req)
		}
	}
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// await returns what came, once that is n.
func (r *receiver) await(t testing.TB, n int) []received {
	t.Helper()
	eventually(t, fmt.Sprintf("%d callbacks", n), func() bool { return len(r.all()) >= n })
	return r.all()
}

// spec returns how a monitor with this address is registered.
func spec(rawURL string) windsock.MonitorSpec {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	addr := netip.MustParseAddrPort(u.Host)
	return windsock.MonitorSpec{Scheme: u.Scheme, Address: addr.Addr().String(), Port: int(addr.Port()), Path: u.Path}
}

// named returns a monitor of the network.
func named(host string) windsock.MonitorSpec { return windsock.MonitorSpec{Address: host, Port: 80} }

// single returns a monitor of the network that is told one thing at a time.
func single(host string) windsock.MonitorSpec {
	return windsock.MonitorSpec{Address: host, Port: 80, Parallel: 1}
}

// change returns an event of an instance in a deployment in a pool.
func change(instance string, to windsock.State) windsock.Event {
	return windsock.Event{
		Type: windsock.InstanceState, Kind: windsock.KindInstance, SubjectID: instance,
		DeploymentID: "shop", Provider: "static", Pool: "east",
		Word: windsock.Heard(to), State: to, Previous: windsock.Unknown, Expected: windsock.Running,
		Source: "probe:http",
	}
}

func changes(n int) []windsock.Event {
	events := make([]windsock.Event, n)
	for i := range events {
		events[i] = change("web-"+strconv.Itoa(i%7), [...]windsock.State{windsock.Failed, windsock.Running}[i%2])
	}
	return events
}

// eventually waits for what goroutines beyond our clock are to bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still waiting for: %s", what)
		}
	}
}

var errDisk = errors.New("the disk is full")
