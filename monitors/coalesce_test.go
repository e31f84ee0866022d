package monitors

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

func latest(host string) windsock.MonitorSpec {
	return windsock.MonitorSpec{Address: host, Port: 80, Backlog: windsock.Latest}
}

// turn returns an event of an instance that goes from one state to another.
func turn(instance string, from, to windsock.State) windsock.Event {
	e := change(instance, to)
	e.Previous = from
	return e
}

func TestOfWhatWaitsTheNewestIsTold(t *testing.T) {
	for name, away := range map[string]func(*http.Request) (*http.Response, error){
		"the monitor is away": respond(503, ""), "it refuses the subject": refusing("web"), "it hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", latest("a"), "")
				p := start(t, l, n)
				n.at("a", away)
				l.append(turn("web", windsock.Running, windsock.Failed)) // 2
				pass(time.Second)
				l.append(turn("web", windsock.Failed, windsock.Running), turn("web", windsock.Running, windsock.Stopped)) // 3, 4
				l.append(turn("db", windsock.Running, windsock.Failed))                                                   // 5
				pass(time.Second)
				want(t, "backlog", p.delivery(t, "m").Backlog >= 3, true)
				n.at("a", nil)
				pass(time.Minute)
				told := map[string]string{}
				for _, took := range n.taking("a") {
					told[took.subject] += fmt.Sprintf("%d to %d, %d: %s to %s; ", took.first, took.seq, took.events, took.previous, took.state)
				}
				want(t, "told", told, map[string]string{
					"instance/web": "2 to 4, 3: running to stopped; ",
					"instance/db":  "5 to 5, 1: running to failed; ",
				})
				want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
				pass(time.Second)
				want(t, "cursor", l.progressOf("m").Cursor, l.Head())
				want(t, "lanes", len(l.progressOf("m").Lanes), 0)
			})
		})
	}
}

// While one is being tried what comes waits behind it, and the newest of that is told.
func TestWhatIsBeingTriedIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", latest("a"), "")
		start(t, l, n)
		n.at("a", after(time.Second))
		for range 5 {
			l.append(change("web", windsock.Failed)) // 2 to 6
			synctest.Wait()
		}
		pass(5 * time.Second)
		var told [][2]int64
		for _, took := range n.taking("a") {
			told = append(told, [2]int64{took.first, took.seq})
		}
		want(t, "told", told, [][2]int64{{2, 2}, {3, 6}})
	})
}

// each returns an event of each of so many subjects, in an order of its own.
func each(subjects, turn int) []windsock.Event {
	events := make([]windsock.Event, subjects)
	for i := range events {
		events[i] = change(fmt.Sprintf("web-%d", (i*7919+turn*31)%subjects), windsock.Failed)
	}
	return events
}

// After a long time away as many callbacks go out as subjects changed, not as many as events.
func TestALongBacklogIsCoalesced(t *testing.T) {
	const subjects = 1000
	restart := func(t *testing.T, l *memLog, n *network, p *process) *process {
		p.stop()
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		l.ResumeMonitor(t.Context(), "m", windsock.Replay) // so that it is tried at once
		return start(t, l, n)
	}
	for name, c := range map[string]struct {
		events    int
		meanwhile func(t *testing.T, l *memLog, n *network, p *process) *process
	}{
		"the monitor was away":          {25_000, func(t *testing.T, l *memLog, n *network, p *process) *process { return p }},
		"windsock is restarted":         {25_000, restart},
		"windsock is restarted earlier": {maxCatchUp / 2, restart}, // its reader begins where the monitor is
		"it was paused, and is resumed": {25_000, func(t *testing.T, l *memLog, n *network, p *process) *process {
			l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
			l.ResumeMonitor(t.Context(), "m", windsock.Replay)
			return p
		}},
		"it hears every event, and is resumed with the latest": {25_000, func(t *testing.T, l *memLog, n *network, p *process) *process {
			l.add("m", named("a"), "")
			l.ResumeMonitor(t.Context(), "m", windsock.Coalesced)
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", latest("a"), "")
				p := start(t, l, n)
				n.at("a", hang)
				for i := range c.events / subjects {
					l.append(each(subjects, i)...)
					pass(time.Minute)
				}
				pass(time.Hour)
				want(t, "taken meanwhile", len(n.taking("a")), 0)
				tried := len(n.tried("a"))
				n.at("a", nil)
				p = c.meanwhile(t, l, n, p)
				pass(2 * time.Hour)
				took := n.taking("a")
				all := int64(0)
				for _, one := range took {
					all += one.events
				}
				want(t, "events they stand for", all, int64(c.events))
				want(t, "taken", len(took), subjects)
				want(t, "tries", len(n.tried("a"))-tried, subjects)
				want(t, "backlog", p.delivery(t, "m").Backlog, 0)
			})
		})
	}
}

// More subjects than may wait at a time are told, too, and what is new keeps its order.
func TestMoreSubjectsThanMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const subjects, rounds = 3 * latestSize, 3
		l, n := newLog(), newNetwork()
		l.add("m", latest("a"), "")
		p := start(t, l, n)
		n.at("a", respond(503, ""))
		last := map[string]int64{}
		for round := range rounds {
			events := each(subjects, round)
			for i := range events {
				last["instance/"+events[i].SubjectID] = l.Head() + int64(i) + 1
			}
			l.append(events...)
		}
		pass(time.Hour)
		p.mu.RLock()
		m := p.byID["m"]
		p.mu.RUnlock()
		m.mu.Lock()
		if len(m.queue) > latestSize+fillSize || len(m.lanes) > latestSize+fillSize {
			t.Errorf("%d wait in memory, in %d lanes", len(m.queue), len(m.lanes))
		}
		m.mu.Unlock()
		want(t, "backlog", p.delivery(t, "m").Backlog, subjects*rounds)
		n.at("a", nil)
		pass(2 * time.Hour)
		newest := map[string]int64{}
		for _, took := range n.taking("a") {
			if took.first <= newest[took.subject] {
				t.Fatalf("took %+v after %d", took, newest[took.subject])
			}
			newest[took.subject] = took.seq
		}
		want(t, "the newest that was told", newest, last)
		want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
	})
}

// A lane of one subject with a long backlog is read from the log in parts.
func TestALongLaneIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", latest("a"), "")
		p := start(t, l, n)
		n.at("a", refusing("web"))
		const events = recallSize + recallPages*pageSize
		l.append(slices.Repeat([]windsock.Event{change("web", windsock.Failed)}, events)...)
		pass(time.Hour)
		want(t, "backlog", p.delivery(t, "m").Backlog, events)
		n.at("a", nil)
		pass(2 * time.Hour)
		all := int64(0)
		for _, took := range n.taking("a") {
			all += took.events
		}
		want(t, "events", all, events)
		want(t, "callbacks", len(n.taking("a")), 2)
		want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
	})
}

func TestGapsAreNotCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", latest("a"), "")
		start(t, l, n)
		n.at("a", respond(503, ""))
		for range 2 {
			gap := windsock.Event{Kind: windsock.KindLog, Type: windsock.LogGap, SubjectID: "m"}
			gap.Scope = windsock.Global
			l.append(gap)
		}
		pass(time.Minute)
		n.at("a", nil)
		pass(time.Minute)
		want(t, "taken", n.took("a"), []int64{2, 3})
	})
}

// What waits is counted right also when a monitor is added again while several events of
// a lane are told as one, which it then has still to read.
func TestTheBacklogOfALaneThatIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", latest("a"), "")
		p := start(t, l, n)
		slow := func(answer func(*http.Request) (*http.Response, error)) {
			n.at("a", func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.Header.Get("Ce-Subject"), "/db") {
					return after(9 * time.Second)(req)
				}
				return answer(req)
			})
		}
		slow(respond(500, ""))
		l.append(change("web", windsock.Failed), change("db", windsock.Failed)) // 2, which is refused, and 3
		synctest.Wait()
		for range 7 {
			l.append(change("web", windsock.Failed)) // 4 to 10
		}
		slow(after(time.Second))
		pass(5500 * time.Millisecond) // the lane is tried
		l.set(func() { l.slow = time.Second })
		l.add("m", latest("a"), "")
		pass(time.Minute)
		want(t, "taken", n.heard("a")["instance/web"], []int64{10})
		want(t, "backlog", p.delivery(t, "m").Backlog, 0)
		n.at("a", hang)
		for range 20 {
			l.append(change("web", windsock.Failed))
		}
		pass(time.Second)
		want(t, "backlog then", p.delivery(t, "m").Backlog, 20)
	})
}
