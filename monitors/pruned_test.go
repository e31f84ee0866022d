package monitors

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// prune deletes all up to a seq from the log. A monitor that is not past it is moved
// there, as the store does it, and the log says what it lost.
func (l *memLog) prune(to, lost int64, behind string) {
	l.mu.Lock()
	l.pruned = to
	t := l.targets[behind]
	t.Cursor = to
	l.targets[behind] = t
	if p, ok := l.progress[behind]; ok {
		p.Cursor = max(p.Cursor, to)
		for i := range p.Lanes {
			p.Lanes[i].FirstSeq = max(p.Lanes[i].FirstSeq, to+1)
		}
		l.progress[behind] = p
	}
	l.round[behind]++
	l.mu.Unlock()
	if lost > 0 {
		e := windsock.Event{Type: windsock.LogGap, Kind: windsock.KindLog, SubjectID: behind}
		e.Scope, e.FirstSeq, e.LastSeq, e.Lost = t.Scope, to-lost+1, to, lost
		l.append(e)
	}
}

func TestWhoLostEventsIsToldSo(t *testing.T) {
	for name, events := range map[string]int{"all of them in its queue": 100, "most of them only counted": 2000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				ill := named("ill")
				ill.Scope, ill.Detections = "instance:web-0", windsock.Detections{windsock.FailDetected}
				l.add("ill", ill, "")
				l.add("other", named("other"), "")
				watcher := named("watcher")
				watcher.Detections = windsock.Detections{"all"}
				l.add("watcher", watcher, "")
				n.at("ill", refuse(errDisk))
				var gapTold atomic.Bool
				n.at("watcher", func(req *http.Request) (*http.Response, error) {
					if req.URL.Path == "/api/gap" {
						gapTold.Store(true)
					}
					return respond(200, "")(req)
				})
				p := start(t, l, n)
				wish := windsock.Monitor{MonitorSpec: l.targets["ill"].MonitorSpec}
				for _, e := range changes(events) {
					l.append(e)
				}
				pass(time.Minute)

				old := l.Head() - 50
				var left []int64
				for _, e := range l.events[old:] {
					if slices.Contains(windsock.ScopesOf(&e), wish.Scope) && wish.Wants(&e) {
						left = append(left, e.Seq)
					}
				}
				l.prune(old, old, "ill")
				left = append(left, l.Head())
				pass(time.Minute)
				want(t, "backlog", p.delivery(t, "ill").Backlog, int64(len(left)))
				n.at("ill", nil)
				pass(2 * time.Hour)
				want(t, "what is left and the gap", n.took("ill"), left)
				want(t, "delivery in the end", p.delivery(t, "ill").State, "idle")
				want(t, "backlog in the end", p.delivery(t, "ill").Backlog, 0)
				if slices.Contains(n.took("other"), l.Head()) {
					t.Error("a monitor that lost nothing and did not ask for all is told of the gap")
				}
				want(t, "the one that watches all hears of it at /api/gap", gapTold.Load(), true)
			})
		})
	}
}

// At a start a monitor that is far behind reads, or counts, what is deleted meanwhile.
func TestWhatIsPrunedWhileAMonitorReadsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		wish := named("a")
		wish.Scope = "deployment:shop"
		l.add("m", wish, "")
		l.append(changes(maxCatchUp + 5000)...)
		n.at("a", refuse(errDisk))
		l.slow = time.Second
		p := start(t, l, n)
		pass(5 * time.Second) // it counts
		old := l.Head() - 100
		l.prune(old, 0, "m")
		pass(time.Minute)
		want(t, "backlog", p.delivery(t, "m").Backlog, 100)
		n.at("a", nil)
		pass(2 * time.Hour)
		want(t, "taken", n.took("a"), seqs(old+1, l.Head()))
		want(t, "delivery in the end", p.delivery(t, "m").State, "idle")
	})
}

func TestTheReaderGoesOnAfterWhatWasPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		l.add("removed", named("b"), "")
		p := start(t, l, n)
		l.append(changes(10)...)
		synctest.Wait()
		l.set(func() { l.blind = errDisk })
		l.append(changes(100)...)
		l.remove("removed")
		old := l.Head() - 20
		l.prune(old, 0, "m")
		pass(time.Minute)
		l.set(func() { l.blind = nil })
		l.append(changes(5)...)
		pass(time.Minute)
		took := n.took("a")
		want(t, "what it took since", took[len(took)-24:], slices.Concat(seqs(old+1, old+19), seqs(old+21, old+25)))
		if _, ok := p.Delivery("removed"); ok {
			t.Error("a monitor is there whose removal can no longer be read")
		}
	})
}

// It holds what is old in the log until its cursor is saved.
func TestTheCursorOfAnIdleMonitorIsSavedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		wish := named("a")
		wish.Scope = "deployment:bank"
		l.add("m", wish, "")
		start(t, l, n)
		l.append(changes(10)...)
		pass(idleAge + time.Minute)
		want(t, "cursor", l.progressOf("m").Cursor, l.Head())
		saved := l.saved
		pass(3 * idleAge)
		want(t, "rows saved when nothing happens", l.saved, saved)
	})
}
