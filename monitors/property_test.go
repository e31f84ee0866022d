package monitors

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// Whatever happens, each monitor takes all that it wants, in order, and nothing twice
// unless the process was killed in between; and its backlog is counted exactly.
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
	since map[string]int64                // cursors of the monitors when the process began
	mark  map[string]int                  // how many each had taken then
	kills int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, rand: rand.New(rand.NewPCG(seed, 0)), log: newLog(), net: newNetwork(),
		specs: map[string]windsock.MonitorSpec{
			"all":   {Detections: windsock.Detections{"all"}},
			"east":  {Scope: "pool:east"},
			"fails": {Scope: "deployment:shop", Detections: windsock.Detections{windsock.FailDetected}},
			"one":   {Scope: "instance:web-3", Subjects: windsock.OnlyInstances},
		},
	}
	for id, s := range w.specs {
		s.Address, s.Port = id, 80
		w.specs[id] = s
		w.log.add(id, s, "")
	}
	w.begin()
	return w
}

func (w *world) begin() {
	w.since, w.mark = map[string]int64{}, map[string]int{}
	targets, _ := w.log.Targets(w.Context())
	for _, t := range targets {
		w.since[t.ID] = t.Cursor
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
	pass(4 * time.Hour)
	w.checkBacklogs()
	w.now.stop()
	for id := range w.specs {
		w.checkTaken(id)
		want(w.T, "cursor of "+id, w.log.progressOf(id).Cursor, w.log.Head())
	}
}

func (w *world) something() {
	switch host := w.host(); w.rand.IntN(13) {
	case 0, 1, 2, 3:
		for range w.rand.IntN(10) * w.rand.IntN(50) {
			w.log.append(w.event())
			if w.rand.IntN(50) == 0 {
				synctest.Wait()
			}
		}
	case 4:
		w.net.at(host, [...]func(*http.Request) (*http.Response, error){
			respond(500, "no"), hang, refuse(errDisk), respond(503, "", "Retry-After", "7"), respond(202, `{"result":"fail"}`),
		}[w.rand.IntN(5)])
	case 5, 6:
		w.net.at(host, nil)
	case 7, 8:
		pass(time.Duration(w.rand.Int64N(int64(w.rand.IntN(600)+1) * int64(time.Second))))
	case 9:
		w.log.add(host, w.specs[host], "")
	case 10:
		synctest.Wait()
		if w.rand.IntN(2) == 0 {
			w.kills++
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
	case 12: // a monitor begins to read for itself while a request of its is under way
		w.net.at(host, after(time.Duration(w.rand.IntN(300))*time.Millisecond))
		w.log.append(w.event(), w.event(), w.event())
		synctest.Wait()
		w.log.set(func() { w.log.slow = time.Duration(w.rand.IntN(300)) * time.Millisecond })
		w.log.add(host, w.specs[host], "")
		pass(time.Second)
		w.log.set(func() { w.log.slow = 0 })
	}
}

func (w *world) heal() {
	for id := range w.specs {
		w.net.at(id, nil)
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

// due returns what a monitor is to hear after a seq.
func (w *world) due(id string, after int64) []int64 {
	spec := w.specs[id]
	if spec.Scope == "" {
		spec.Scope = windsock.Global
	}
	m := windsock.Monitor{MonitorSpec: spec, ID: id}
	events, _ := w.log.Events(w.Context(), after, 1<<30, windsock.EventFilter{Scope: spec.Scope})
	var due []int64
	for i := range events {
		if m.Wants(&events[i]) {
			due = append(due, events[i].Seq)
		}
	}
	return due
}

func (w *world) checkBacklogs() {
	pass(3 * time.Second) // a failure to read may take that long to be forgotten
	for id := range w.specs {
		at := w.since[id]
		if took := w.net.took(id); len(took) > w.mark[id] {
			at = max(at, took[len(took)-1])
		}
		want(w.T, "backlog of "+id, w.now.delivery(w, id).Backlog, int64(len(w.due(id, at))))
	}
}

func (w *world) checkTaken(id string) {
	var first []int64
	var last int64
	for _, seq := range w.net.took(id) {
		if seq > last {
			first = append(first, seq)
			last = seq
		} else if w.kills == 0 {
			w.Fatalf("%s took %d after %d", id, seq, last)
		}
	}
	want(w.T, "what "+id+" took", first, w.due(id, 4))
}
