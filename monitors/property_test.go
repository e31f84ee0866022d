package monitors

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// Whatever happens, each monitor takes all that it wants, each subject's in order, and
// nothing twice but what was under way, or was delivered since the last save, when the
// process was killed; and its backlog is counted exactly.
func TestWhateverHappens(t *testing.T) {
	runs := 30
	if testing.Short() {
		runs = 10
	}
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run() })
		})
	}
}

// A world is a log, some monitors and the process between them, to which things happen.
type world struct {
	*testing.T
	rand  *rand.Rand
	log   *memLog
	net   *network
	now   *process
	specs map[string]windsock.MonitorSpec // by monitor and host, which have the same name
	since map[string]windsock.Progress    // how far the monitors were when the process began
	mark  map[string]int                  // how many each had taken then
	skips map[string]int64                // up to where each was to hear nothing any more
	kills []time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, rand: rand.New(rand.NewPCG(seed, 0)), log: newLog(), net: newNetwork(), skips: map[string]int64{},
		specs: map[string]windsock.MonitorSpec{
			"all":   {Detections: windsock.Detections{"all"}},
			"east":  {Scope: "pool:east"},
			"fails": {Scope: "deployment:shop", Detections: windsock.Detections{windsock.FailDetected}},
			"one":   {Scope: "instance:web-3", Subjects: windsock.OnlyInstances},
		},
	}
	for id, s := range w.specs {
		s.Address, s.Port = id, 80
		s.Parallel = 1 + w.rand.IntN(6)
		s.Format = w.format()
		w.specs[id] = s
		w.log.add(id, s, "")
	}
	w.begin()
	return w
}

func (w *world) begin() {
	w.since, w.mark = map[string]windsock.Progress{}, map[string]int{}
	targets, _ := w.log.Targets(w.Context())
	for _, t := range targets {
		w.since[t.ID] = t.Progress
		w.mark[t.ID] = len(w.net.took(t.ID))
	}
	w.now = start(w, w.log, w.net, func(d *Deliverer) { d.Requests = 1 + w.rand.IntN(4) })
}

func (w *world) run() {
	for range 40 {
		w.something()
		if w.rand.IntN(3) == 0 {
			w.checkBacklogs()
		}
	}
	w.heal()
	pass(5 * time.Hour)
	w.checkBacklogs()
	w.now.stop()
	for id := range w.specs {
		w.checkTaken(id)
		want(w.T, "cursor of "+id, w.log.progressOf(id).Cursor, w.log.Head())
		want(w.T, "lanes of "+id, len(w.log.progressOf(id).Lanes), 0)
	}
	want(w.T, "tries at once of the same subject", w.net.doubled, nil)
}

func (w *world) something() {
	switch host := w.host(); w.rand.IntN(16) {
	case 0, 1, 2, 3:
		for range w.rand.IntN(10) * w.rand.IntN(50) {
			w.log.append(w.event())
			if w.rand.IntN(50) == 0 {
				synctest.Wait()
			}
		}
	case 4:
		w.net.at(host, [...]func(*http.Request) (*http.Response, error){
			respond(500, "no"), hang, refuse(errDisk), respond(503, "", "Retry-After", "7"), respond(202, `{"result":"fail"}`), respond(410, ""),
			w.refusing(), w.refusing(), w.refusing(),
		}[w.rand.IntN(9)])
	case 5, 6:
		w.net.at(host, nil)
	case 7, 8:
		pass(time.Duration(w.rand.Int64N(int64(w.rand.IntN(600)+1) * int64(time.Second))))
	case 9:
		s := w.specs[host]
		s.Format = w.format()
		w.specs[host] = s
		w.log.add(host, s, "")
	case 10:
		pass(time.Duration(w.rand.IntN(100)) * time.Millisecond)
		if w.rand.IntN(2) == 0 {
			w.kills = append(w.kills, time.Now())
			killed := w.log.crashed()
			w.now.stop()
			w.log = killed
		}
		w.now.stop()
		w.begin()
	case 11:
		w.log.set(func() {
			if w.rand.IntN(2) == 0 {
				w.log.broken = errDisk
			} else {
				w.log.blind = errDisk
			}
		})
		pass(time.Duration(w.rand.IntN(5)) * time.Second)
		w.log.set(func() { w.log.broken, w.log.blind = nil, nil })
		pass(2 * saveEvery)
	case 12: // a monitor begins to read for itself while a request of its is under way
		w.net.at(host, after(time.Duration(w.rand.IntN(300))*time.Millisecond))
		w.log.append(w.event(), w.event(), w.event())
		synctest.Wait()
		w.log.set(func() { w.log.slow = time.Duration(w.rand.IntN(300)) * time.Millisecond })
		w.log.add(host, w.specs[host], "")
		pass(time.Second)
		w.log.set(func() { w.log.slow = 0 })
	case 13:
		w.log.PauseMonitor(w.Context(), host, windsock.PausedByOperator, "")
	case 14:
		w.log.ResumeMonitor(w.Context(), host, windsock.Replay)
	case 15:
		if w.rand.IntN(4) == 0 {
			w.log.ResumeMonitor(w.Context(), host, windsock.Skip)
			w.skips[host] = w.log.Head()
			synctest.Wait()
		}
	}
}

// refusing refuses the events of some subjects, or hangs with them.
func (w *world) refusing() func(*http.Request) (*http.Response, error) {
	some, hangs := w.rand.IntN(1<<6), w.rand.IntN(3) == 0
	bad := func(e sent) bool { return some>>(e.subject[len(e.subject)-1]%6)&1 == 1 }
	refuse := all500(bad)
	if w.rand.IntN(2) == 0 {
		refuse = naming(bad)
	}
	return func(req *http.Request) (*http.Response, error) {
		events := eventsIn(req)
		switch {
		case !slices.ContainsFunc(events, bad):
			return after(time.Duration(some) * time.Millisecond)(req)
		case hangs:
			return hang(req)
		case req.Header.Get("Ce-Id") != "":
			return respond(500, "no")(req)
		}
		return refuse(req)
	}
}

func (w *world) format() windsock.Format {
	return [...]windsock.Format{windsock.Seed, windsock.Batch}[w.rand.IntN(2)]
}

func (w *world) heal() {
	for id := range w.specs {
		w.net.at(id, nil)
		w.log.ResumeMonitor(w.Context(), id, windsock.Replay)
	}
}

func (w *world) host() string {
	return [...]string{"all", "east", "fails", "one"}[w.rand.IntN(4)]
}

func (w *world) event() windsock.Event {
	e := change("web-"+strconv.Itoa(w.rand.IntN(5)), windsock.InstanceStates[w.rand.IntN(len(windsock.InstanceStates))])
	e.Pool = [...]string{"east", "west"}[w.rand.IntN(2)]
	e.DeploymentID = [...]string{"shop", "bank"}[w.rand.IntN(2)]
	if w.rand.IntN(10) == 0 {
		e.Kind, e.Type, e.SubjectID = windsock.KindDeployment, windsock.DeploymentState, e.DeploymentID
	}
	return e
}

// due returns what a monitor is to hear.
func (w *world) due(id string) []windsock.Event {
	spec := w.specs[id]
	if spec.Scope == "" {
		spec.Scope = windsock.Global
	}
	m := windsock.Monitor{MonitorSpec: spec, ID: id}
	events, _ := w.log.Events(w.Context(), 4, 1<<30, windsock.EventFilter{Scope: spec.Scope})
	return slices.DeleteFunc(events, func(e windsock.Event) bool { return !m.Wants(&e) })
}

func (w *world) checkBacklogs() {
	pass(3 * time.Second) // a failure to read may take that long to be forgotten
	for id := range w.specs {
		since := w.net.takenFrom(id, w.mark[id])
		waits := 0
		for _, e := range w.due(id) {
			if w.waited(id, &e) && e.Seq > w.skips[id] && !slices.Contains(since, e.Seq) {
				waits++
			}
		}
		if got := w.now.delivery(w, id).Backlog; got != int64(waits) {
			w.Fatalf("backlog of %s: %d, want %d", id, got, waits)
		}
	}
}

// waited reports whether an event waited when the process began.
func (w *world) waited(id string, e *windsock.Event) bool {
	p, s := w.since[id], subjectOf(e)
	for _, l := range p.Lanes {
		if l.Subject == s {
			return e.Seq >= l.FirstSeq
		}
	}
	return e.Seq > p.Cursor && e.Seq > p.Ahead[s]
}

func (w *world) checkTaken(id string) {
	due := map[string][]int64{}
	for _, e := range w.due(id) {
		s := string(e.Kind) + "/" + e.SubjectID
		due[s] = append(due[s], e.Seq)
	}
	first := map[string][]int64{}
	for s, seqs := range w.net.heard(id) {
		last := int64(0)
		for _, seq := range seqs {
			if seq > last {
				first[s] = append(first[s], seq)
				last = seq
			} else if !w.mayRepeat(id, seq) {
				w.Fatalf("%s took %d of %s again after %d", id, seq, s, last)
			}
		}
	}
	for s, seqs := range due {
		missing := slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return seq <= w.skips[id] || slices.Contains(first[s], seq) })
		want(w.T, "what "+id+" did not take of "+s, len(missing), 0)
	}
}

// mayRepeat reports whether an event was under way or had just been delivered when the
// process was killed.
func (w *world) mayRepeat(id string, seq int64) bool {
	at := w.net.firstTook(id, seq)
	return slices.ContainsFunc(w.kills, func(kill time.Time) bool { return !at.Before(kill.Add(-saveEvery)) })
}
