package monitors

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// The tests here run on a fake clock: time passes when everybody waits for it.

// pass lets that much of it pass, and all happen that is then to happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func seqs(from, to int64) []int64 {
	var s []int64
	for ; from <= to; from++ {
		s = append(s, from)
	}
	return s
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// The log of a quiet service is not asked every second whether it is longer.
func TestTheLogIsReadWhenItIsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		for read := 0; read < 3; read++ {
			l.append(change("web", windsock.Failed))
			pass(time.Second)
			l.mu.Lock()
			was := l.reads
			l.mu.Unlock()
			pass(time.Minute)
			want(t, "reads within a quiet minute", l.reads-was, 0)
		}
		want(t, "taken", n.took("a"), seqs(2, 4))
	})
}

func TestNothingIsLostWhileTheMonitorIsAway(t *testing.T) {
	away := map[string]error{
		"it refuses":       &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"it has no name":   &net.DNSError{Err: "no such host", Name: "a", IsNotFound: true},
		"it breaks off":    &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"it is not itself": errors.New("malformed HTTP response"),
	}
	for name, err := range away {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				p := start(t, l, n)
				n.at("a", refuse(err))
				l.append(change("web", windsock.Failed))
				pass(10 * time.Second)
				l.append(change("web", windsock.Running))
				pass(time.Second)
				d := p.delivery(t, "m")
				if d.State != "retrying" || d.Backlog != 2 || d.Attempts != 2 || d.NextTryAt.IsZero() || d.LastError == "" {
					t.Errorf("while it is away: %+v", d)
				}
				n.at("a", nil)
				pass(time.Minute)
				want(t, "taken", n.took("a"), []int64{2, 3})
				d = p.delivery(t, "m")
				want(t, "delivery afterwards", d, windsock.Delivery{State: "idle", SuccessAt: d.SuccessAt})
			})
		})
	}
}

func TestRetriesFollowTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		n.at("a", respond(500, ""))
		l.append(change("web", windsock.Failed))
		pass(4 * time.Hour)
		want(t, "waits", n.gaps("a"), []time.Duration{
			5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
			time.Hour, time.Hour, time.Hour,
		})
		n.at("a", nil)
		pass(time.Hour)
		want(t, "taken in the fifth hour", n.took("a"), []int64{2})
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	tests := map[string]struct {
		status int
		value  func() string
		wait   time.Duration
	}{
		"seconds":                 {503, func() string { return "120" }, 120 * time.Second},
		"a date":                  {429, func() string { return time.Now().Add(7 * time.Minute).UTC().Format(http.TimeFormat) }, 7 * time.Minute},
		"at most an hour":         {503, func() string { return "86400" }, time.Hour},
		"not with other statuses": {500, func() string { return "120" }, 5 * time.Second},
		"not when it is nonsense": {503, func() string { return "soon" }, 5 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				start(t, l, n)
				n.at("a", respond(tc.status, "", "Retry-After", tc.value()))
				l.append(change("web", windsock.Failed))
				synctest.Wait()
				n.at("a", nil)
				pass(2 * time.Hour)
				want(t, "waits", n.gaps("a"), []time.Duration{tc.wait})
			})
		})
	}
}

func TestAHungMonitorDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("hung", named("hung"), "")
		l.add("well", named("well"), "")
		p := start(t, l, n)
		n.at("hung", hang)
		l.append(changes(1000)...)
		synctest.Wait() // no time passes
		want(t, "taken by the other", n.took("well"), seqs(3, 1002))
		want(t, "backlog of the one that hangs", p.delivery(t, "hung").Backlog, 1000)
		pass(11 * time.Second)
		want(t, "its error", p.delivery(t, "hung").LastError, "timeout")
		n.at("hung", nil)
		pass(time.Minute)
		want(t, "taken by the one that hung", n.took("hung"), seqs(3, 1002))
	})
}

func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		var now, most atomic.Int64
		for i := range 10 {
			host := "m" + strconv.Itoa(i)
			l.add(host, named(host), "")
			n.at(host, func(req *http.Request) (*http.Response, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return after(time.Second)(req)
			})
		}
		start(t, l, n, func(d *Deliverer) { d.Requests = 3 })
		l.append(changes(4)...)
		pass(time.Minute)
		want(t, "requests at once", most.Load(), 3)
		for i := range 10 {
			want(t, "taken by each", n.took("m"+strconv.Itoa(i)), seqs(11, 14))
		}
	})
}

func TestAMonitorThatWaitsForItsNextTryHoldsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		for _, host := range []string{"x", "y", "z", "well"} {
			l.add(host, named(host), "")
			n.at(host, respond(500, ""))
		}
		n.at("well", nil)
		start(t, l, n, func(d *Deliverer) { d.Requests = 1 })
		l.append(changes(20)...)
		synctest.Wait()
		want(t, "taken by the one that is well", n.took("well"), seqs(5, 24))
	})
}

func TestARestartRepeatsNothingAndGoesOnWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("well", named("well"), "")
		l.add("ill", named("ill"), "")
		first := start(t, l, n)
		n.at("ill", respond(503, "down for repair"))
		l.append(change("web", windsock.Failed))
		pass(30 * time.Second) // tries at 0, 5 and 20 s; the next is at 80 s
		want(t, "tries of the one that is ill", len(n.tried("ill")), 3)
		before := first.delivery(t, "ill")
		first.stop()

		second := start(t, l, n)
		synctest.Wait()
		after := second.delivery(t, "ill")
		want(t, "delivery before and after", after, before)
		want(t, "attempts", after.Attempts, 3)
		want(t, "saved", l.progressOf("ill").NextTryAt, after.NextTryAt)
		pass(49 * time.Second)
		want(t, "tries in all, short of 80 s", len(n.tried("ill")), 3)
		pass(2 * time.Second)
		want(t, "tries in all, after 80 s", len(n.tried("ill")), 4)
		want(t, "told to the one that is well", n.tried("well"), []int64{3})

		l.append(change("web", windsock.Running))
		synctest.Wait()
		want(t, "told to the one that is well, then", n.took("well"), []int64{3, 4})
	})
}

func TestAChangeOfAMonitorThatIsReadAgainIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		n.at("a", respond(500, ""))
		first := start(t, l, n)
		l.append(change("web", windsock.Failed))
		l.add("m", named("a"), "") // lies after its cursor, so the next process reads it, too
		pass(30 * time.Second)
		tries := len(n.tried("a"))
		first.stop()
		second := start(t, l, n)
		synctest.Wait()
		want(t, "tries after the restart", len(n.tried("a")), tries)
		if second.delivery(t, "m").Attempts == 0 {
			t.Error("the attempts were forgotten")
		}
	})
}

func TestACrashRepeatsOnlyWhatWasNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		l.append(changes(3)...)
		pass(time.Second)
		l.append(change("web", windsock.Failed)) // 5 is saved at once, since nothing was for a while
		synctest.Wait()
		l.append(change("web", windsock.Running)) // 6 waits to be saved with what follows it
		synctest.Wait()
		killed := l.crashed()
		want(t, "taken before", n.took("a"), seqs(2, 6))

		n2 := newNetwork()
		start(t, killed, n2)
		pass(time.Hour)
		want(t, "taken after", n2.took("a"), []int64{6})
	})
}

func TestWhenSavingFailsDeliveryGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		l.set(func() { l.broken = errDisk })
		for range 100 {
			l.append(changes(1)...)
			pass(time.Second)
		}
		want(t, "taken", n.took("a"), seqs(2, 101))
		want(t, "saved", l.progressOf("m").Cursor, 0)
		if lines := strings.Count(p.logged.String(), errDisk.Error()); lines != 1 {
			t.Errorf("the log has %d lines of it, want one", lines)
		}
		l.set(func() { l.broken = nil })
		pass(2 * time.Second)
		want(t, "saved when it is possible again", l.progressOf("m").Cursor, 101)
	})
}

func TestWhenReadingFailsItIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		synctest.Wait()
		l.set(func() { l.blind = errDisk })
		l.append(changes(600)...)
		pass(time.Minute)
		want(t, "taken while blind", n.took("a"), nil)
		if time.Since(p.Beat()) > 2*time.Second {
			t.Errorf("the last beat was %v ago", time.Since(p.Beat()))
		}
		l.set(func() { l.blind = nil })
		pass(2 * time.Second)
		want(t, "taken", n.took("a"), seqs(2, 601))
	})
}

func TestMonitorsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		p := start(t, l, n)
		l.append(change("web", windsock.Failed))
		l.add("m", named("a"), "")
		l.append(change("web", windsock.Running)) // 3
		synctest.Wait()
		want(t, "told from the moment it was added", n.took("a"), []int64{3})

		l.remove("m")
		l.append(change("web", windsock.Failed))
		synctest.Wait()
		want(t, "told after it was removed", n.took("a"), []int64{3})
		if _, ok := p.Delivery("m"); ok {
			t.Error("it is still there")
		}

		l.add("m", named("a"), "")
		l.append(change("web", windsock.Running)) // 7
		synctest.Wait()
		want(t, "told after it was added again", n.took("a"), []int64{3, 7})
	})
}

func TestAMonitorIsRemovedInTheMiddleOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		l.add("slow", named("b"), "")
		start(t, l, n)
		var ended time.Time
		n.at("a", func(req *http.Request) (*http.Response, error) {
			defer func() { ended = time.Now() }()
			return hang(req)
		})
		l.append(slices.Repeat([]windsock.Event{change("web", windsock.Failed)}, 300)...)
		pass(time.Second)
		l.remove("m")
		removed := time.Now()
		pass(time.Hour)
		want(t, "time from its removal to the end of its request", ended.Sub(removed), 0)
		want(t, "tries", n.tried("a"), []int64{3})
		l.set(func() {
			if p, ok := l.progress["m"]; ok {
				t.Errorf("saved for it: %+v", p)
			}
		})
	})
}

func TestNewWishesHoldForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", respond(500, ""))
		l.append(changes(1000)...) // FAIL at even seqs, START at odd ones
		pass(10 * time.Minute)
		attempts := len(n.tried("a"))

		wish := named("b") // it moved
		wish.Detections = windsock.Detections{windsock.FailDetected}
		n.at("b", hang)
		l.add("m", wish, "")
		synctest.Wait()
		want(t, "backlog by the new wishes", p.delivery(t, "m").Backlog, 500)
		want(t, "tried at once at the new address", slices.Sorted(slices.Values(n.tried("b"))), []int64{2, 4, 6, 8, 10, 12, 14})
		n.at("b", nil)
		l.append(change("web", windsock.Failed), change("web", windsock.Running)) // 1003, 1004
		pass(time.Minute)
		var fails []int64
		for s := int64(2); s <= 1001; s += 2 {
			fails = append(fails, s)
		}
		want(t, "taken", n.took("b"), append(fails, 1003))
		want(t, "tries at the old address", len(n.tried("a")), attempts)
		want(t, "delivery", p.delivery(t, "m").Backlog, 0)
	})
}

func TestNewWishesDoNotHoldForWhatWasPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		wish := named("a")
		wish.Detections = windsock.Detections{windsock.FailDetected}
		l.add("m", wish, "")
		start(t, l, n)
		l.append(change("web", windsock.Running), change("web", windsock.Stopped))
		synctest.Wait()
		l.add("m", named("a"), "")
		l.append(change("web", windsock.Running)) // 5
		synctest.Wait()
		want(t, "told", n.tried("a"), []int64{5})
	})
}

func TestNewWishesInTheMiddleOfARequest(t *testing.T) {
	t.Run("that succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			l.add("m", single("a"), "")
			p := start(t, l, n)
			n.at("a", after(time.Second))
			l.append(changes(3)...) // 2, 3, 4
			synctest.Wait()
			l.add("m", single("b"), "")
			synctest.Wait()
			want(t, "told at the new address while the old one is busy", n.tried("b"), nil)
			want(t, "backlog", p.delivery(t, "m").Backlog, 3)
			pass(2 * time.Second)
			want(t, "taken at the old address", n.took("a"), []int64{2})
			want(t, "taken at the new address", n.took("b"), []int64{3, 4})
			want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
		})
	})
	t.Run("that would not be sent any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			l.add("m", single("a"), "")
			p := start(t, l, n)
			n.at("a", after(time.Second))
			l.append(changes(600)...) // FAIL, START, FAIL …
			synctest.Wait()
			wish := single("b")
			wish.Detections = windsock.Detections{windsock.StartDetected}
			l.add("m", wish, "")
			n.at("b", hang)
			pass(2 * time.Second)
			want(t, "taken at the old address", n.took("a"), []int64{2})
			want(t, "tried at the new address", n.tried("b"), []int64{3})
			want(t, "backlog", p.delivery(t, "m").Backlog, 300)
		})
	})
	t.Run("that fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			l.add("m", single("a"), "")
			p := start(t, l, n, func(d *Deliverer) { d.Timeout = time.Second })
			n.at("a", hang)
			l.append(changes(3)...)
			synctest.Wait()
			l.add("m", single("b"), "")
			pass(time.Second)
			want(t, "taken at the new address, without a wait", n.took("b"), seqs(2, 4))
			want(t, "attempts", p.delivery(t, "m").Attempts, 0)
		})
	})
}

func TestAMonitorThatLagsCatchesUpInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		pool := named("a")
		pool.Scope = "pool:east"
		l.add("m", pool, "")
		p := start(t, l, n)
		gate := make(chan struct{})
		n.at("a", func(req *http.Request) (*http.Response, error) {
			select {
			case <-gate:
				return respond(200, "")(req)
			case <-req.Context().Done():
				return hang(req)
			}
		})
		elsewhere := change("db", windsock.Failed)
		elsewhere.Pool = "west"
		var due []int64
		more := func() {
			l.append(change("web", windsock.Failed), elsewhere)
			due = append(due, l.Head()-1)
		}
		for range 2000 {
			more()
		}
		for took := range 1500 {
			synctest.Wait()
			d := p.delivery(t, "m")
			if left := int64(len(due) - took); d.Backlog != left {
				t.Fatalf("backlog %d, want %d", d.Backlog, left)
			}
			if d.State != "delivering" || d.OldestAt.IsZero() {
				t.Fatalf("with %d taken: %+v", took, d)
			}
			gate <- struct{}{}
			if took%2 == 0 {
				more() // things go on happening
			}
		}
		close(gate)
		synctest.Wait()
		want(t, "taken", n.took("a"), due)
		d := p.delivery(t, "m")
		want(t, "delivery", d, windsock.Delivery{State: "idle", SuccessAt: d.SuccessAt})
	})
}

func TestAMonitorFarBehindHoldsUpNoStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("ill", named("ill"), "")
		l.add("well", named("well"), "")
		n.at("ill", respond(500, ""))
		first := start(t, l, n)
		quiet := change("web", windsock.Starting) // is told to nobody
		for range 3 * maxCatchUp / 100 {
			l.append(changes(10)...)
			l.append(slices.Repeat([]windsock.Event{quiet}, 90)...)
			synctest.Wait()
		}
		waiting := int64(3 * maxCatchUp / 10)
		want(t, "backlog before", first.delivery(t, "ill").Backlog, waiting)
		first.stop()
		told := len(n.took("well"))

		reads := &countingLog{memLog: l}
		second := start(t, reads, n)
		synctest.Wait()
		want(t, "backlog after", second.delivery(t, "ill").Backlog, waiting)
		if pages := reads.unscoped.Load(); pages > maxCatchUp/pageSize+2 {
			t.Errorf("%d pages were read before others were served", pages)
		}
		n.at("ill", nil)
		pass(2 * time.Hour)
		took := n.took("ill")
		want(t, "taken in the end", int64(len(took)), waiting)
		if !slices.IsSorted(took) {
			t.Error("not in order")
		}
		want(t, "repeated to the one that is well", len(n.took("well")), told)
		want(t, "backlog in the end", second.delivery(t, "ill").Backlog, 0)
	})
}

func TestWhatAMonitorSaidItselfIsNotToldToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		echo := named("echo")
		echo.Echo = true
		l.add("m", named("a"), "")
		l.add("echo", echo, "")
		start(t, l, n)
		own := change("web", windsock.Failed)
		own.Source = windsock.MonitorSource("m")
		l.append(own)
		own.Source = windsock.MonitorSource("echo")
		l.append(own)
		synctest.Wait()
		want(t, "told to m", n.took("a"), []int64{4})
		want(t, "told to the one that asks for it", n.took("echo"), []int64{3, 4})
	})
}

func TestWhatConcernsNobodyCostsNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		wish := named("a")
		wish.Scope = "deployment:bank"
		l.add("m", wish, "")
		p := start(t, l, n)
		l.append(changes(idleLag / 2)...)
		pass(time.Minute)
		want(t, "rows saved", l.saved, 0)
		l.append(changes(idleLag)...)
		pass(time.Minute)
		want(t, "rows saved when the cursor is far behind", l.saved, 1)
		if c := l.progressOf("m").Cursor; c < idleLag {
			t.Errorf("the cursor was saved as %d", c)
		}
		l.append(changes(10)...)
		synctest.Wait()
		p.stop()
		want(t, "the cursor after a stop", l.progressOf("m").Cursor, l.Head())
	})
}

func TestIdleMonitorsCostNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		for i := range 2000 {
			l.add("m"+strconv.Itoa(i), named("a"), "")
		}
		p := start(t, l, n)
		before := runtime.NumGoroutine()
		l.append(changes(1)...)
		pass(time.Second)
		want(t, "told", len(n.took("a")), 2000)
		if after := runtime.NumGoroutine(); after > before+3 {
			t.Errorf("%d goroutines with nothing to do, %d before", after, before)
		}
		n.at("a", respond(500, ""))
		l.append(changes(1)...)
		pass(time.Second)
		want(t, "state", p.delivery(t, "m0").State, "retrying")
		if after := runtime.NumGoroutine(); after > before+3 {
			t.Errorf("%d goroutines while all wait to try again, %d before", after, before)
		}
	})
}

func TestStopLetsRequestsEnd(t *testing.T) {
	t.Run("within the grace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			l.add("m", single("a"), "")
			p := start(t, l, n, func(d *Deliverer) { d.Grace = 5 * time.Second })
			n.at("a", after(4*time.Second))
			l.append(changes(3)...)
			pass(time.Second)
			begun := time.Now()
			p.stop()
			want(t, "time to stop", time.Since(begun), 3*time.Second)
			want(t, "taken", n.took("a"), []int64{2})
			want(t, "saved", l.progressOf("m").Cursor, 2)
		})
	})
	t.Run("beyond it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			l.add("m", single("a"), "")
			p := start(t, l, n, func(d *Deliverer) { d.Grace = 2 * time.Second })
			n.at("a", after(8*time.Second))
			l.append(changes(3)...)
			pass(time.Second)
			begun := time.Now()
			p.stop()
			want(t, "time to stop", time.Since(begun), 2*time.Second)
			if got := l.progressOf("m"); got.Cursor != 1 || got.Attempts != 0 {
				t.Errorf("saved: %+v", got) // it was we who broke off
			}
		})
	})
	t.Run("with nothing to do", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			l.add("m", single("a"), "")
			n.at("a", respond(500, ""))
			p := start(t, l, n)
			l.append(changes(1)...)
			pass(time.Hour)
			begun := time.Now()
			p.stop()
			want(t, "time to stop", time.Since(begun), 0)
		})
	})
}

func TestTheBeatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newLog(), newNetwork())
		for range 10 {
			pass(17 * time.Second)
			if ago := time.Since(p.Beat()); ago > time.Second {
				t.Fatalf("the last beat was %v ago", ago)
			}
		}
	})
}

// countingLog counts the pages that are read for all.
type countingLog struct {
	*memLog
	unscoped atomic.Int64
}

func (l *countingLog) Events(ctx context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error) {
	if f.Scope == "" {
		l.unscoped.Add(1)
	}
	return l.memLog.Events(ctx, after, limit, f)
}
