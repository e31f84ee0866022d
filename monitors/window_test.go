package monitors

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// replays tells what was taken again, and what was not marked, of what a host took after
// the first n.
func (n *network) replays(host string, after int) (again, news []int64) {
	for _, took := range n.taking(host)[after:] {
		if took.replay {
			again = append(again, took.seq)
		} else {
			news = append(news, took.seq)
		}
	}
	slices.Sort(again)
	slices.Sort(news)
	return again, news
}

func TestARangeIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		l.append(changes(100)...) // 2 to 101
		pass(time.Second)
		l.replay("m", windsock.Range{First: 20, Last: 30}) // 102
		l.append(changes(5)...)                            // 103 to 107
		pass(time.Second)
		again, news := n.replays("a", 100)
		want(t, "told again", again, seqs(20, 30))
		want(t, "told beside", news, seqs(103, 107))
		for subject, seqs := range n.heard("a") {
			i := slices.IndexFunc(seqs, func(seq int64) bool { return seq > 101 })
			if i < 0 {
				i = len(seqs)
			}
			if !slices.IsSorted(seqs[i:]) {
				t.Errorf("%s was told in the order %d", subject, seqs)
			}
		}
		want(t, "state", p.delivery(t, "m").State, "idle")
		want(t, "backlog", p.delivery(t, "m").Backlog, 0)
		saved := l.progressOf("m")
		want(t, "saved cursor", saved.Cursor, l.Head())
		want(t, "it is over", saved.Window == nil, true)
	})
}

// A replay is the same callback once more: the same bytes under the same id. Only a
// header says that it is one.
func TestAReplayIsTheSameButForItsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		var mu sync.Mutex
		var bodies [][]byte
		var headers []http.Header
		n.at("a", func(req *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(req.Body)
			mu.Lock()
			defer mu.Unlock()
			bodies, headers = append(bodies, body), append(headers, req.Header)
			return respond(200, "")(req)
		})
		l.append(change("web", windsock.Failed))
		pass(time.Minute)
		l.replay("m", windsock.Range{First: 2, Last: 2})
		pass(time.Minute)
		want(t, "callbacks", len(bodies), 2)
		if !bytes.Equal(bodies[0], bodies[1]) {
			t.Errorf("first %s\nthen  %s", bodies[0], bodies[1])
		}
		want(t, "id", headers[1].Get("Webhook-Id"), headers[0].Get("Webhook-Id"))
		want(t, "marks", []string{headers[0].Get("Windsock-Replay"), headers[1].Get("Windsock-Replay")}, []string{"", "true"})
	})
}

func TestAReplaySurvives(t *testing.T) {
	for name, interrupt := range map[string]func(t *testing.T, l *memLog, n *network, p *process) *memLog{
		"a pause": func(t *testing.T, l *memLog, _ *network, _ *process) *memLog {
			l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
			pass(3 * time.Hour)
			l.ResumeMonitor(t.Context(), "m", windsock.Replay)
			return l
		},
		"a restart": func(t *testing.T, l *memLog, n *network, p *process) *memLog {
			p.stop()
			start(t, l, n)
			return l
		},
		"a kill": func(t *testing.T, l *memLog, n *network, p *process) *memLog {
			killed := l.crashed()
			p.stop()
			start(t, killed, n)
			return killed
		},
		"another registration": func(_ *testing.T, l *memLog, _ *network, _ *process) *memLog {
			l.add("m", named("a"), "")
			return l
		},
		"a monitor that is away": func(_ *testing.T, l *memLog, n *network, _ *process) *memLog {
			n.at("a", hang)
			pass(time.Hour)
			return l
		},
		"a subject that is refused": func(_ *testing.T, l *memLog, n *network, _ *process) *memLog {
			n.at("a", refusing("web-3"))
			pass(time.Hour)
			return l
		},
		"a refused subject and a restart": func(t *testing.T, l *memLog, n *network, p *process) *memLog {
			n.at("a", refusing("web-3"))
			pass(time.Hour)
			p.stop()
			n.at("a", nil)
			start(t, l, n)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				p := start(t, l, n)
				l.append(changes(1000)...) // 2 to 1001
				pass(time.Second)
				n.at("a", after(20*time.Millisecond))
				l.replay("m", windsock.Range{First: 20, Last: 119})
				pass(70 * time.Millisecond) // some were told, and some of that is saved
				l = interrupt(t, l, n, p)
				n.at("a", nil)
				pass(3 * time.Hour)
				again, news := n.replays("a", 1000)
				if repeats := len(again) - 100; repeats > 7*4 {
					t.Errorf("%d were told more than once", repeats)
				}
				want(t, "told again", slices.Compact(again), seqs(20, 119))
				want(t, "told beside", news, nil)
				want(t, "it is over", l.progressOf("m").Window == nil, true)
			})
		})
	}
}

// What was refused before, and so was never told, is told unmarked, after what is told
// again of its subject.
func TestAReplayOfARefusedSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		l.append(changes(70)...) // 2 to 71, web-0 from 2 on
		pass(time.Second)
		n.at("a", refusing("web-0"))
		l.append(changes(14)...) // 72 to 85, of web-0 72 and 79
		pass(time.Second)
		before := len(n.taking("a"))
		l.replay("m", windsock.Range{First: 60, Last: 80})
		pass(time.Second)
		n.at("a", nil)
		pass(time.Hour)
		again, news := n.replays("a", before)
		want(t, "told again", again, slices.DeleteFunc(seqs(60, 80), func(seq int64) bool { return seq == 72 || seq == 79 }))
		want(t, "told beside", news, []int64{72, 79})
		heard := n.heard("a")["instance/web-0"]
		want(t, "the last of web-0", heard[len(heard)-3:], []int64{65, 72, 79})
		want(t, "backlog", p.delivery(t, "m").Backlog, 0)
	})
}

func TestReplaysAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		l.append(changes(100)...) // 2 to 101
		pass(time.Second)
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		for _, first := range []int64{50, 20, 22, 90} {
			l.replay("m", windsock.Range{First: first, Last: first + 4})
		}
		pass(time.Second)
		l.ResumeMonitor(t.Context(), "m", windsock.Replay)
		pass(time.Second)
		again, news := n.replays("a", 100)
		want(t, "told again", again, slices.Concat(seqs(20, 26), seqs(50, 54), seqs(90, 94)))
		want(t, "told beside", news, nil)
	})
}

func TestSkipEndsAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		l.append(changes(100)...)
		pass(time.Second)
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		l.replay("m", windsock.Range{First: 2, Last: 101})
		l.ResumeMonitor(t.Context(), "m", windsock.Skip)
		pass(time.Hour)
		want(t, "taken", len(n.taking("a")), 100)
	})
}

// A try that was under way when its event was asked for again says nothing of those
// before it.
func TestAReplayInTheMiddleOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		for range 9 {
			l.append(change("web", windsock.Failed)) // 2 to 10
		}
		pass(time.Second)
		n.at("a", after(time.Second))
		l.append(change("web", windsock.Running)) // 11
		synctest.Wait()
		l.replay("m", windsock.Range{First: 3, Last: 6})
		pass(time.Hour)
		want(t, "taken", n.heard("a")["instance/web"], append(seqs(2, 11), 3, 4, 5, 6, 11)) // as a crash would repeat it
		want(t, "backlog", p.delivery(t, "m").Backlog, 0)
	})
}

// What lies between what is told again is not read.
func TestAReplayOfLongAgoReadsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		const events = 10_000
		for i := range events / 50 {
			l.append(each(50, i)...)
		}
		pass(time.Minute)
		for _, seq := range []int64{5, 5_000} {
			l.replay("m", windsock.Range{First: seq, Last: seq})
		}
		l.set(func() { l.slow = time.Minute }) // each page
		pass(10 * time.Minute)
		again, _ := n.replays("a", events)
		want(t, "told again", again, []int64{5, 5_000})
		want(t, "it is over", l.progressOf("m").Window == nil, true)
	})
}

// One that hears the latest of what waits hears each event that it asks for again.
func TestAReplayIsNotCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", latest("a"), "")
		start(t, l, n)
		for range 9 {
			l.append(change("web", windsock.Failed)) // 2 to 10
			synctest.Wait()
		}
		n.at("a", respond(503, ""))
		l.append(change("web", windsock.Running), change("web", windsock.Failed)) // 11, 12
		pass(time.Second)
		l.replay("m", windsock.Range{First: 3, Last: 20})
		n.at("a", nil)
		pass(time.Hour)
		again, news := n.replays("a", 9)
		want(t, "told again", again, seqs(3, 10))
		want(t, "told then", news, []int64{12})
	})
}
