// Package simulate runs the whole service in virtual time, over clouds that lie and lag,
// monitors that fall silent, receivers that are away and crashes of its own, and compares
// what was told with what was true.
package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
	"windsock/monitors"
	"windsock/observer"
	"windsock/store"
)

var (
	seeds = flag.Int("seeds", 5, "so many histories")
	seed  = flag.Uint64("seed", 0, "only this one")
)

const (
	every = 10 * time.Second // a look at the cloud
	// lag is how old what it shows may be. bound is for how long a failure may go untold,
	// with all that goes wrong on the way; most of it is that of a receiver that was away.
	lag   = 30 * time.Second
	bound = 30 * time.Minute
	// memory is how long before it was told a failure may be over: as long as what was
	// said by somebody who fell silent holds, or by a cloud that cannot be listed.
	memory = 20 * time.Minute
	ttl    = 3 * time.Minute  // of what a machine's monitor says
	calm   = 10 * time.Minute // at the least, after the last fault; at most as long as bound
)

func TestWhatIsToldIsTrue(t *testing.T) {
	debug.SetGCPercent(400) // histories hold little, and forget it soon
	if *seed != 0 {
		run(t, *seed)
		return
	}
	for s := range uint64(*seeds) {
		t.Run(fmt.Sprint(s+1), func(t *testing.T) {
			t.Parallel()
			run(t, s+1)
		})
	}
}

// folder returns one for databases, in memory where there is such a place: no power is
// lost here, and fsync takes most of the time.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "windsock-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func run(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./test/simulate -seed %d", seed)
		}
	}()
	dir := folder(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir, seed)
		w.start()
		for end := time.Now().Add(w.lasts); time.Now().Before(end); {
			w.pass()
		}
		w.rest()
		for _, wrong := range w.judge() {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		w.stop()
	})
}

// A world is all there is: a cloud, who watches what runs on it, who wants to hear, and
// windsock in between.
type world struct {
	t    *testing.T
	rand *rand.Rand
	seed uint64
	dir  string
	n    int // of windsocks there were

	lasts    time.Duration // with faults
	cloud    *cloud
	provider observer.Provider
	all      []*machine // also those that are gone
	busy     int
	silent   map[string]time.Time // until then a machine's monitor says nothing
	ear      *ear

	store *store.Store
	end   func()
}

func newWorld(t *testing.T, dir string, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 8))
	w := &world{t: t, rand: r, seed: seed, dir: dir, busy: 20 + r.IntN(400), silent: map[string]time.Time{}, ear: newEar(rand.New(rand.NewPCG(seed, 9)))}
	w.cloud = &cloud{rand: rand.New(rand.NewPCG(seed, 10)), changed: map[string]bool{}}
	size := 1 + r.IntN(40)
	w.lasts = time.Duration(10+r.IntN(41)) * time.Minute
	if seed%20 == 0 { // many restarts and long pauses
		w.lasts = 2 * time.Hour
	}
	if seed%200 == 50 { // a fleet
		size, w.busy, w.lasts = 1000+r.IntN(2000), 20_000, 20*time.Minute
	}
	for range size {
		w.boot()
	}
	w.cloud.refresh()
	w.provider = []observer.Provider{w.cloud, differ{w.cloud}, teller{differ{w.cloud}}}[r.IntN(3)]
	return w
}

func (w *world) boot() {
	m := &machine{id: fmt.Sprintf("m%03d", len(w.all)), state: windsock.Running, works: true}
	w.all = append(w.all, m)
	w.cloud.machines = append(w.cloud.machines, m)
}

// start starts a windsock over what the last one left.
func (w *world) start() {
	w.n++
	log := slog.New(slog.DiscardHandler)
	reg := prometheus.NewRegistry()
	st, err := store.Open(w.t.Context(), w.path(w.n), store.Options{Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.n == 1 {
		if _, err := st.AddMonitor(w.t.Context(), windsock.MonitorSpec{Address: "192.0.2.1", Port: 80}, windsock.Keys{}); err != nil {
			w.t.Fatal(err)
		}
	}
	obs := &observer.Observer{
		Model: st, Log: log, Metrics: observer.NewMetrics(reg),
		Providers: []observer.Source{{ID: "cloud", Kind: "simulated", Provider: w.provider, Every: every, Full: 6 * every}},
	}
	dlv := &monitors.Deliverer{Log: st, Logger: log, Metrics: monitors.NewMetrics(reg), Transport: w.ear, Grace: time.Second,
		Rand: rand.New(rand.NewPCG(w.seed, uint64(w.n))).Float64} // of one monitor, which calls it with its lock held
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{st.Run, obs.Run, dlv.Run} {
		wg.Go(func() { run(ctx) })
	}
	w.store = st
	w.end = func() {
		cancel()
		wg.Wait()
		if err := st.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) path(n int) string { return filepath.Join(w.dir, fmt.Sprintf("%d.db", n)) }

func (w *world) stop() { w.end() }

// crash has the next windsock start with what was on the disk at this moment; what this
// one still does is lost.
func (w *world) crash() {
	synctest.Wait()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(w.path(w.n) + suffix)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(w.path(w.n+1)+suffix, data, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.ear.deafen(true)
	w.end()
	w.ear.deafen(false)
}

// pass lets some seconds pass, and things happen in them.
func (w *world) pass() {
	time.Sleep(time.Duration(1+w.rand.IntN(10)) * time.Second)
	now := time.Now()
	w.cloud.act(now, w.busy)
	if w.rand.IntN(60) == 0 {
		w.cloud.mu.Lock()
		w.boot()
		w.cloud.mu.Unlock()
	}
	if w.rand.IntN(int(lag/(10*time.Second))) == 0 {
		w.cloud.refresh()
	}
	w.ear.act(now)
	w.report(now)
	switch w.rand.IntN(600) {
	case 0:
		w.end()
		time.Sleep(time.Duration(w.rand.IntN(300)) * time.Second)
		w.copyOver()
		w.start()
	case 1, 2:
		w.crash()
		time.Sleep(time.Duration(w.rand.IntN(60)) * time.Second)
		w.start()
	}
}

// copyOver has the next windsock find what the last one left when it was stopped.
func (w *world) copyOver() {
	data, err := os.ReadFile(w.path(w.n))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(w.n+1), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// report has the monitors of the machines say what they see, each about once a minute;
// some fall silent for a while.
func (w *world) report(now time.Time) {
	var said []windsock.Observation
	w.cloud.mu.Lock()
	for _, m := range w.cloud.machines {
		if w.rand.IntN(2000) == 0 && !w.cloud.calm {
			w.silent[m.id] = now.Add(time.Duration(w.rand.IntN(900)) * time.Second)
		}
		if now.Before(w.silent[m.id]) || m.state != windsock.Running || w.rand.IntN(10) > 0 && !w.cloud.calm {
			continue
		}
		state := windsock.Running
		if !m.works {
			state = windsock.Failed
		}
		said = append(said, windsock.Observation{
			Subject: windsock.Subject{Kind: windsock.KindInstance, ID: m.id}, Source: "watch-" + m.id, Origin: windsock.FromMonitor, State: state, TTL: ttl, ObservedAt: now,
		})
	}
	w.cloud.mu.Unlock()
	if _, err := w.store.Record(w.t.Context(), said); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
}

// rest ends all faults, and lets everything come to rest: nothing may go wrong any more, and
// what is wrong has as long as bound to be put right.
func (w *world) rest() {
	w.cloud.mu.Lock()
	w.cloud.calm = true
	w.cloud.mu.Unlock()
	w.ear.calm()
	clear(w.silent)
	for begun := time.Now(); time.Since(begun) < bound; {
		time.Sleep(30 * time.Second)
		w.cloud.refresh()
		w.report(time.Now())
		synctest.Wait()
		if time.Since(begun) >= calm && len(w.judge()) == 0 {
			return
		}
	}
}

// judge compares what was told with what was true, and says what is wrong.
func (w *world) judge() (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	bad := 0
	for _, m := range w.all {
		i, err := w.store.Instance(w.t.Context(), m.id)
		if m.state == windsock.Gone && err != nil {
			continue // it came and went unseen
		}
		if err != nil {
			say("%s: %v", m.id, err)
			continue
		}
		want := m.state
		if m.bad() {
			want = windsock.Failed
			bad++
		}
		if i.State != want || i.Stale || i.Held || i.Unstable {
			say("%s is %s (stale %v, held %v), in truth %s", m.id, i.State, i.Stale, i.Held, want)
		}
		if told := w.ear.last(m.id); told.Word != windsock.Heard(want) {
			say("of %s was told last %q, in truth it is %s", m.id, told.Word, want)
		}
		w.judgeHistory(m, say)
	}
	d, err := w.store.Deployment(w.t.Context(), deployment)
	if err != nil || bad > 0 && d.State != windsock.Degraded && d.State != windsock.Failed {
		say("the deployment is %s (%v), with %d that failed", d.State, err, bad)
	}
	if told := w.ear.last(deployment); told.Word != windsock.Heard(d.State) {
		say("of the deployment was told last %q, it is %s", told.Word, d.State)
	}
	return wrong
}

func (w *world) judgeHistory(m *machine, say func(string, ...any)) {
	for _, told := range w.ear.told(m.id) {
		if told.Word == windsock.FailDetected && !m.badWithin(told.Time.Add(-memory), told.Time) {
			say("false FAIL of %s at %s (seq %d): %s", m.id, told.Time, told.Seq, told.Reason)
		}
	}
	for i, c := range m.history {
		until := time.Now()
		if i+1 < len(m.history) {
			until = m.history[i+1].at
		}
		if c.bad && until.Sub(c.at) > bound {
			if told := w.ear.lastBefore(m.id, c.at.Add(bound)); told.Word != windsock.FailDetected {
				say("missed: %s fails from %s to %s, told was %q", m.id, c.at, until, told.Word)
			}
		}
	}
}

// A message is what the ear understands of a callback.
type message struct {
	Word     windsock.Word `json:"state"`
	Instance string        `json:"instance_id"`
	Deploy   string        `json:"deployment_id"`
	Reason   string        `json:"reason"`
	Seq      int64         `json:"seq"`
	Time     time.Time     `json:"time"`
	heardAt  time.Time
}

// An ear is the monitor that is called back. It is away at times, and refuses some.
type ear struct {
	mu    sync.Mutex
	rand  *rand.Rand
	away  time.Time // until then
	deaf  bool
	quiet bool // no faults any more
	heard map[string][]message
}

func newEar(r *rand.Rand) *ear { return &ear{rand: r, heard: map[string][]message{}} }

func (e *ear) deafen(yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaf = yes
}

func (e *ear) calm() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet = true
}

func (e *ear) act(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rand.IntN(300) == 0 && now.Sub(e.away) > bound { // or the waits between the tries would be longer than that
		e.away = now.Add(time.Duration(e.rand.IntN(200)) * time.Second)
	}
}

func (e *ear) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.deaf, now.Before(e.away) && !e.quiet:
		return nil, io.ErrUnexpectedEOF
	case !e.quiet && e.rand.IntN(50) == 0:
		return answer(http.StatusInternalServerError), nil
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	m.heardAt = now
	id := m.Instance
	if id == "" {
		id = m.Deploy
	}
	e.heard[id] = append(e.heard[id], m)
	if !e.quiet && e.rand.IntN(100) == 0 && now.Sub(e.away) > bound { // it took it, but the answer is lost
		return nil, io.ErrUnexpectedEOF
	}
	return answer(http.StatusOK), nil
}

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil))}
}

func (e *ear) told(id string) []message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[id]
}

func (e *ear) last(id string) message { return e.lastBefore(id, time.Now()) }

func (e *ear) lastBefore(id string, at time.Time) (m message) {
	for _, told := range e.told(id) {
		if !told.heardAt.After(at) && told.Seq >= m.Seq {
			m = told
		}
	}
	return m
}
