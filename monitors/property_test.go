package monitors

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sort"
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
	since map[string]windsock.Target      // how far the monitors were when the process began, or they were moved
	mark  map[string]int                  // how many tries had begun then
	skips map[string]int64                // up to where each was to hear nothing any more
	asked map[string][]replay             // what was to be told again
	kills []time.Time
}

// A replay is a range of the log that was to be told again, and when.
type replay struct {
	windsock.Range
	at time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, rand: rand.New(rand.NewPCG(seed, 0)), log: newLog(), net: newNetwork(), skips: map[string]int64{}, asked: map[string][]replay{},
		specs: map[string]windsock.MonitorSpec{
			"all":   {Detections: windsock.Detections{"all"}},
			"east":  {Scope: "pool:east"},
			"fails": {Scope: "deployment:shop", Detections: windsock.Detections{windsock.FailDetected}},
			"one":   {Scope: "instance:web-3", Subjects: windsock.OnlyInstances},
			"last":  {Backlog: windsock.Latest},
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
	w.since, w.mark = map[string]windsock.Target{}, map[string]int{}
	for id := range w.specs {
		w.note(id, w.net.tryCount())
	}
	w.now = start(w, w.log, w.net, func(d *Deliverer) { d.Requests = 1 + w.rand.IntN(4) })
}

// note notes how far a monitor is, of which so many tries begun before that say nothing.
func (w *world) note(id string, begun int) {
	w.since[id], _ = w.log.Target(w.Context(), id)
	w.mark[id] = begun
}

// move does what may move the cursor of a monitor, and reports whether it did.
func (w *world) move(id string, do func() bool) bool {
	pass(3 * time.Second) // a failure to read may take that long to be forgotten
	begun := w.net.tryCount()
	moved := do()
	if moved {
		w.note(id, begun)
	}
	synctest.Wait()
	return moved
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
		if p := w.log.progressOf(id); p.Window != nil {
			w.Errorf("%s is still told again: %+v, at %d", id, p.Window, p.Cursor)
		}
	}
	want(w.T, "tries at once of the same subject", w.net.doubled, nil)
}

func (w *world) something() {
	switch host := w.host(); w.rand.IntN(18) {
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
			w.move(host, func() bool {
				w.log.ResumeMonitor(w.Context(), host, windsock.Skip)
				return true
			})
			w.skips[host] = w.log.Head()
		}
	case 16:
		w.log.ResumeMonitor(w.Context(), host, windsock.Coalesced)
	case 17:
		r := windsock.Range{First: 1 + w.rand.Int64N(w.log.Head())}
		r.Last = r.First + w.rand.Int64N(100)
		if w.move(host, func() bool { return w.log.replay(host, r) }) {
			w.asked[host] = append(w.asked[host], replay{r, time.Now()})
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
	return [...]string{"all", "east", "fails", "one", "last"}[w.rand.IntN(5)]
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

// due returns what a monitor is to hear, by subject.
func (w *world) due(id string) map[string][]windsock.Event {
	spec := w.specs[id]
	if spec.Scope == "" {
		spec.Scope = windsock.Global
	}
	m := windsock.Monitor{MonitorSpec: spec, ID: id}
	events, _ := w.log.Events(w.Context(), int64(len(w.specs)), 1<<30, windsock.EventFilter{Scope: spec.Scope})
	due := map[string][]windsock.Event{}
	for i := range events {
		if e := &events[i]; m.Wants(e) {
			s := string(e.Kind) + "/" + e.SubjectID
			due[s] = append(due[s], *e)
		}
	}
	return due
}

func (w *world) checkBacklogs() {
	pass(3 * time.Second) // a failure to read may take that long to be forgotten
	for id := range w.specs {
		due, told := w.due(id), map[int64]bool{}
		for _, t := range w.net.taking(id) {
			if t.try <= w.mark[id] {
				continue
			}
			for _, e := range t.of(due[t.subject]) {
				told[e.Seq] = true
			}
		}
		waits := int64(0)
		for _, events := range due {
			for i := range events {
				if !told[events[i].Seq] && w.waited(id, &events[i]) {
					waits++
				}
			}
		}
		if got := w.now.delivery(w, id).Backlog; got != waits {
			w.Fatalf("backlog of %s: %d, want %d", id, got, waits)
		}
	}
}

// waited reports whether an event waited when the process began, or the monitor was moved.
func (w *world) waited(id string, e *windsock.Event) bool {
	t, s := w.since[id], subjectOf(e)
	for _, l := range t.Progress.Lanes {
		if l.Subject == s {
			return e.Seq >= l.FirstSeq && t.Wants(e)
		}
	}
	return e.Seq > t.Progress.Cursor && e.Seq > t.Progress.Ahead[s] && t.Wants(e)
}

// of returns for which of the events of its subject a callback was taken.
func (t *take) of(events []windsock.Event) []windsock.Event {
	from := sort.Search(len(events), func(i int) bool { return events[i].Seq >= t.first })
	to := sort.Search(len(events), func(i int) bool { return events[i].Seq > t.seq })
	return events[from:to]
}

func (w *world) checkTaken(id string) {
	takes := map[string][]take{}
	for _, t := range w.net.taking(id) {
		takes[t.subject] = append(takes[t.subject], t)
	}
	for s, events := range w.due(id) {
		told := map[int64][]time.Time{}
		last, news, back := int64(0), int64(0), 0
		for _, t := range takes[s] {
			if t.seq <= last {
				back++
			}
			if last = t.seq; back > w.passes(id, t.at) {
				w.Fatalf("%s took %d of %s out of order", id, t.seq, s)
			}
			if !t.replay {
				news = max(news, t.seq)
			}
			of := t.of(events)
			if len(of) != int(t.events) || len(of) > 1 && t.replay {
				w.Fatalf("%s took %+v for %d of %s", id, t, len(of), s)
			}
			for _, e := range of {
				before := told[e.Seq]
				if len(before) > 0 && !w.mayRepeat(id, before[0]) && !(t.replay && w.wasAsked(id, e.Seq, t.at)) {
					w.Fatalf("%s took %d of %s again (%+v)", id, e.Seq, s, t)
				}
				told[e.Seq] = append(before, t.at)
			}
		}
		if newest := events[len(events)-1].Seq; newest > w.skips[id] {
			want(w.T, "what "+id+" took of "+s+" as the newest", news, newest)
		}
		for _, e := range events {
			if e.Seq <= w.skips[id] {
				continue
			}
			at := told[e.Seq]
			if len(at) == 0 {
				w.Fatalf("%s did not take %d of %s", id, e.Seq, s)
			}
			for _, r := range w.asked[id] {
				if r.First <= e.Seq && e.Seq <= r.Last && at[0].Before(r.at.Add(-saveEvery)) && at[len(at)-1].Before(r.at) {
					w.Fatalf("%s did not take %d of %s again, as was asked at %v", id, e.Seq, s, r)
				}
			}
		}
	}
}

// passes returns how often a monitor may have been told a subject from an earlier event
// on, up to a time: after each kill, and when that was asked for.
func (w *world) passes(id string, at time.Time) (n int) {
	for _, kill := range w.kills {
		if !kill.After(at) {
			n++
		}
	}
	for _, r := range w.asked[id] {
		if !r.at.After(at) {
			n++
		}
	}
	return n
}

// wasAsked reports whether an event was to be told again, before a time.
func (w *world) wasAsked(id string, seq int64, at time.Time) bool {
	return slices.ContainsFunc(w.asked[id], func(r replay) bool { return r.First <= seq && seq <= r.Last && !r.at.After(at) })
}

// mayRepeat reports whether an event that was first taken at a time was under way or had
// just been delivered when the process was killed, or the monitor was moved back.
func (w *world) mayRepeat(id string, at time.Time) bool {
	return slices.ContainsFunc(w.kills, func(kill time.Time) bool { return !at.Before(kill.Add(-saveEvery)) }) ||
		slices.ContainsFunc(w.asked[id], func(r replay) bool { return !at.Before(r.at.Add(-saveEvery)) })
}
