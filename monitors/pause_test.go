package monitors

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// pauses lists what the log says of the pauses of monitors.
func (l *memLog) pauses() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, e := range l.events {
		if e.Type == windsock.MonitorPaused || e.Type == windsock.MonitorResumed {
			list = append(list, strings.TrimSpace(e.SubjectID+" "+strings.TrimPrefix(string(e.Type), "monitor.")+" "+e.Source))
		}
	}
	return list
}

func TestGonePausesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", respond(410, "no more"))
		l.append(change("web", windsock.Failed), change("web", windsock.Running))
		pass(time.Second)
		d := p.delivery(t, "m")
		if d.State != "paused" || d.PausedBy != windsock.PausedByGone || d.Backlog != 2 || d.LastError != "HTTP 410: no more" || d.NextTryAt.IsZero() {
			t.Errorf("delivery: %+v", d)
		}
		want(t, "events", l.pauses(), []string{"m paused gone"})
		pass(150 * time.Minute)
		want(t, "tries: one each hour", n.gaps("a"), []time.Duration{time.Hour, time.Hour})

		n.at("a", nil)
		l.append(change("db", windsock.Failed))
		synctest.Wait()
		want(t, "taken while it is paused", n.took("a"), nil)
		pass(time.Hour)
		want(t, "taken after it took the probe", n.took("a"), []int64{2, 3, 5})
		want(t, "events", l.pauses(), []string{"m paused gone", "m resumed"})
		want(t, "state", p.delivery(t, "m").State, "idle")
	})
}

func TestADayOfFailuresPauses(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"it does not answer":     hang,
		"it refuses each event":  respond(500, "no"),
		"it is down for repairs": respond(503, ""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				first := start(t, l, n)
				n.at("a", answer)
				l.append(change("web", windsock.Failed))
				pass(12 * time.Hour)
				first.stop() // the day goes on over a restart
				p := start(t, l, n)
				pass(11 * time.Hour)
				want(t, "state in the 24th hour", p.delivery(t, "m").State, "retrying")
				pass(3 * time.Hour)
				d := p.delivery(t, "m")
				if d.State != "paused" || d.PausedBy != windsock.PausedByFailures || d.Backlog != 1 {
					t.Errorf("delivery after more than a day: %+v", d)
				}
				want(t, "events", l.pauses(), []string{"m paused failures"})
				p.stop()

				p = start(t, l, n)
				synctest.Wait()
				want(t, "state after another restart", p.delivery(t, "m").State, "paused")
				pass(72 * time.Hour)
				want(t, "events", l.pauses(), []string{"m paused failures"})
				n.at("a", nil)
				pass(2 * time.Hour)
				want(t, "taken", n.took("a"), []int64{2})
				want(t, "events in the end", l.pauses(), []string{"m paused failures", "m resumed"})
				want(t, "state in the end", p.delivery(t, "m").State, "idle")
			})
		})
	}
}

func TestASuccessNowAndThenKeepsItGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", refusing("web"))
		l.append(change("web", windsock.Failed))
		for range 10 {
			pass(12 * time.Hour)
			l.append(change("db", windsock.Failed))
		}
		d := p.delivery(t, "m")
		want(t, "parked", d.Parked, 1)
		want(t, "events", l.pauses(), nil)
	})
}

func TestAFewFailuresInADayDoNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", refuse(errDisk))
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		p.stop() // windsock was away for a day, and the monitor was, too
		pass(25 * time.Hour)
		p = start(t, l, n)
		pass(time.Hour)
		want(t, "state", p.delivery(t, "m").State, "retrying")
	})
}

func TestAnOperatorsPauseMakesNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		l.append(change("web", windsock.Failed)) // 2
		synctest.Wait()
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		synctest.Wait()
		l.append(changes(50)...) // 4 to 53
		pass(72 * time.Hour)
		want(t, "tries", n.tried("a"), []int64{2})
		d := p.delivery(t, "m")
		want(t, "delivery", d, windsock.Delivery{
			State: "paused", PausedBy: windsock.PausedByOperator, Backlog: 50, OldestAt: d.OldestAt, SuccessAt: d.SuccessAt,
		})
		p.stop()
		p = start(t, l, n)
		pass(72 * time.Hour)
		want(t, "tries after a restart", n.tried("a"), []int64{2})
		l.ResumeMonitor(t.Context(), "m", windsock.Replay)
		synctest.Wait()
		want(t, "taken after it is resumed", n.took("a"), append([]int64{2}, seqs(4, 53)...))
		for subject, seqs := range n.heard("a") {
			if !slices.IsSorted(seqs) {
				t.Errorf("%s was told in the order %d", subject, seqs)
			}
		}
		want(t, "state", p.delivery(t, "m").State, "idle")
	})
}

func TestAnOperatorResumesWhatFailuresPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		n.at("a", respond(410, ""))
		l.append(changes(7)...) // 2 to 8
		pass(time.Second)
		n.at("a", nil)
		l.ResumeMonitor(t.Context(), "m", windsock.Replay)
		synctest.Wait()
		want(t, "taken", n.took("a"), seqs(2, 8))
	})
}

func TestSkipForgetsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", respond(500, "no"))
		l.append(changes(7)...) // 2 to 8: seven lanes
		pass(time.Second)
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "") // 9
		l.append(changes(1000)...)
		synctest.Wait()
		want(t, "backlog", p.delivery(t, "m").Backlog, 1007)
		n.at("a", nil)
		l.ResumeMonitor(t.Context(), "m", windsock.Skip)
		l.append(changes(1)...)
		last := l.Head()
		pass(10 * time.Hour)
		want(t, "taken", n.took("a"), []int64{last})
		d := p.delivery(t, "m")
		want(t, "delivery", d, windsock.Delivery{State: "idle", SuccessAt: d.SuccessAt})
		want(t, "saved lanes", len(l.progressOf("m").Lanes), 0)
		p.stop()
		start(t, l, n)
		pass(10 * time.Hour)
		want(t, "taken after a restart", n.took("a"), []int64{last})
	})
}

func TestSkipInTheMiddleOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", func(req *http.Request) (*http.Response, error) {
			<-time.After(time.Second)
			return respond(500, "no")(req)
		})
		l.append(changes(70)...)
		synctest.Wait()
		l.ResumeMonitor(t.Context(), "m", windsock.Skip)
		pass(10 * time.Hour)
		want(t, "tries: those that were under way", len(n.tried("a")), 7)
		want(t, "delivery", p.delivery(t, "m").State, "idle")
		want(t, "saved cursor", l.progressOf("m").Cursor, l.Head())
		want(t, "saved lanes", len(l.progressOf("m").Lanes), 0)
	})
}

func TestOthersHearOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		all, west := named("all"), named("west")
		all.Detections = windsock.Detections{"all"}
		west.Detections, west.Scope = all.Detections, "pool:west"
		self := all
		self.Address = "m"
		l.add("m", self, "")
		l.add("all", all, "")
		l.add("west", west, "")
		l.add("three", named("three"), "")
		p := start(t, l, n)
		synctest.Wait()
		var path string
		n.at("all", func(req *http.Request) (*http.Response, error) {
			path = req.URL.Path
			return respond(200, "")(req)
		})
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		l.ResumeMonitor(t.Context(), "m", windsock.Replay)
		pass(time.Second)
		want(t, "told to the one that hears all", n.heard("all"), map[string][]int64{"monitor/m": {5, 6}})
		want(t, "where", path, "/api/monitor/m")
		for _, host := range []string{"m", "west", "three"} {
			want(t, "told to "+host, n.tried(host), nil)
		}
		want(t, "state", p.delivery(t, "m").State, "idle")
	})
}

func TestAPauseThatCannotBeSaidIsSaidLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		l.set(func() { l.broken = errDisk })
		n.at("a", respond(410, ""))
		l.append(change("web", windsock.Failed))
		pass(time.Minute)
		want(t, "events", l.pauses(), nil)
		l.set(func() { l.broken = nil })
		pass(time.Second)
		want(t, "events when it is possible again", l.pauses(), []string{"m paused gone"})
	})
}
