package monitors

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// The other ninety-nine are told at the same time as if the one that hangs were well.
func TestOneThatHangsAmongAHundredDelaysNoOther(t *testing.T) {
	told := func(hangs bool) (at map[string][]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			l, n := newLog(), newNetwork()
			for i := range 100 {
				host := fmt.Sprint("m", i)
				l.add(host, named(host), "")
				n.at(host, after(time.Duration(1+i%20)*time.Millisecond))
			}
			if hangs {
				n.at("m0", hang)
			}
			start(t, l, n)
			begun := time.Now()
			for range 100 {
				l.append(changes(2)...)
				pass(100 * time.Millisecond)
			}
			at = map[string][]time.Duration{}
			for i := 1; i < 100; i++ {
				host := fmt.Sprint("m", i)
				want(t, "taken by "+host, len(n.took(host)), 200)
				for _, took := range n.taking(host) {
					at[host] = append(at[host], took.at.Sub(begun))
				}
			}
		})
		return at
	}
	if diff := cmp.Diff(told(false), told(true)); diff != "" {
		t.Errorf("without (-) and with (+) one that hangs: %s", diff)
	}
}

// jittering has waits be more or less than they are to be, by a seed that is printed.
func jittering(t *testing.T) func(*Deliverer) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func(d *Deliverer) {
		d.Rand = func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Float64()
		}
	}
}

// When more hang than there are requests, the others wait for the first of them to be
// given up, once: who did not answer is tried apart.
func TestMoreThatHangThanThereAreRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		for i := range 600 {
			host := fmt.Sprint("hung-", i)
			l.add(host, named(host), "")
			n.at(host, hang)
		}
		for i := range 10 {
			host := fmt.Sprint("well-", i)
			l.add(host, named(host), "")
			n.at(host, after(time.Millisecond))
		}
		start(t, l, n, jittering(t))
		longest := func() (wait time.Duration) {
			l.append(change("web", windsock.Failed))
			posted := time.Now()
			pass(time.Second)
			for i := range 10 {
				host := fmt.Sprint("well-", i)
				for len(n.took(host)) == 0 || n.took(host)[len(n.took(host))-1] < l.Head() {
					pass(time.Second)
				}
				wait = max(wait, n.firstTook(host, l.Head()).Sub(posted))
			}
			return wait
		}
		if wait := longest(); wait > 11*time.Second {
			t.Errorf("with 600 that hang for the first time it took %v to tell the others", wait)
		}
		pass(21 * time.Second) // the last of them are given up
		for range 300 {
			if wait := longest(); wait > time.Millisecond {
				t.Fatalf("with 600 that hang again it took %v to tell the others", wait)
			}
		}
	})
}

// However long it is away: everything arrives, each subject's in order, after as many
// tries as the table says, and not all at once.
func TestAwayForLong(t *testing.T) {
	for _, tc := range []struct {
		away, every time.Duration // one change after the other
		tries       int           // in vain: after 0 s, 5 s, 20 s, 80 s, 380 s, 1280 s, 3080 s, then each hour
	}{
		{10 * time.Second, 100 * time.Millisecond, 2},
		{time.Hour, 5 * time.Second, 7},
		{72 * time.Hour, 3 * time.Minute, 7 + 71},
	} {
		t.Run(tc.away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				p := start(t, l, n)
				n.at("a", refuse(syscall.ECONNREFUSED))
				due, k := map[string][]int64{}, 0
				for begun := time.Now(); time.Since(begun) < tc.away; k++ {
					e := changes(7)[k%7]
					l.append(e)
					due["instance/"+e.SubjectID] = append(due["instance/"+e.SubjectID], l.Head())
					pass(tc.every)
				}
				want(t, "tries in vain", len(n.tried("a")), tc.tries)
				n.at("a", after(10*time.Millisecond))
				back := len(n.tried("a"))
				pass(time.Hour)
				want(t, "taken of each subject", n.heard("a"), due)
				want(t, "tries after it is back", len(n.tried("a"))-back, k)
				if most := n.atOnce("a"); most > 16 {
					t.Errorf("%d tries at once", most)
				}
				want(t, "state", p.delivery(t, "m").State, "idle")
			})
		})
	}
}

// Those who were away together do not come back together.
func TestManyThatAreAwayAreTriedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		for i := range 200 {
			host := fmt.Sprint("m", i)
			l.add(host, named(host), "")
			n.at(host, refuse(syscall.ECONNREFUSED))
		}
		p := start(t, l, n, jittering(t))
		for range 6 {
			l.append(changes(7)...)
			pass(time.Hour)
		}
		settled := time.Now()
		for i := range 200 {
			n.at(fmt.Sprint("m", i), nil)
		}
		pass(2 * time.Hour)
		back := map[time.Time]int{}
		for i := range 200 {
			host := fmt.Sprint("m", i)
			want(t, "taken by "+host, len(n.took(host)), 42)
			at := n.taking(host)[0].at
			if at.Before(settled) {
				t.Fatalf("%s took something while it was away", host)
			}
			back[at.Truncate(time.Second)]++
		}
		for second, n := range back {
			if n > 20 {
				t.Errorf("%d come back in the same second, %v", n, second)
			}
		}
		want(t, "state", p.delivery(t, "m0").State, "idle")
	})
}

// A clock on the wall that is set moves no wait: they go by the other clock, also those
// that were saved. (There is one clock alone in synctest.)
func TestWaitsDoNotGoByTheClockOnTheWall(t *testing.T) {
	l, n := newLog(), newNetwork()
	l.add("away", named("away"), "")
	l.add("lane", named("lane"), "")
	n.at("away", refuse(errDisk))
	n.at("lane", refusing("web"))
	l.append(change("web", windsock.Failed))
	for _, process := range []string{"first", "second"} {
		p := start(t, l, n)
		for _, id := range []string{"away", "lane"} {
			eventually(t, "a failed try", func() bool { d, _ := p.Delivery(id); return d.Attempts > 0 })
		}
		p.mu.RLock()
		away, lane := p.byID["away"], p.byID["lane"]
		p.mu.RUnlock()
		p.stop()
		for id, at := range map[string]time.Time{
			"away": away.nextTryAt,
			"lane": lane.lanes[windsock.Subject{Kind: windsock.KindInstance, ID: "web"}].nextTryAt,
		} {
			if at == at.Round(0) {
				t.Errorf("%s process: the wait of %s goes by the clock on the wall: %v", process, id, at)
			}
		}
	}
}

// The clock was set while windsock was not there. What is saved of a wait is then wrong.
func TestAClockThatWasSetBringsNoBurstAndNoStall(t *testing.T) {
	for _, tc := range []struct {
		set       time.Duration
		from, til time.Duration // the restart, in which the next try is to come; it was due after 50 s
	}{
		{0, 49 * time.Second, 51 * time.Second},
		{time.Hour, 0, 0},
		{-time.Hour, 49 * time.Second, 81 * time.Second}, // it was away for 30 s then
		{-1000 * time.Hour, 49 * time.Second, 81 * time.Second},
	} {
		for id, answer := range map[string]func(*http.Request) (*http.Response, error){"away": refuse(errDisk), "lane": refusing("web-0")} {
			t.Run(fmt.Sprint(id, " ", tc.set), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, n := newLog(), newNetwork()
					l.add("m", named("a"), "")
					first := start(t, l, n)
					n.at("a", answer)
					l.append(changes(7)...)
					pass(30 * time.Second) // tries after 0, 5 and 20 s; the next after 80 s
					first.stop()
					tried := len(n.tried("a"))
					l.set(func() { l.progress["m"] = shifted(l.progress["m"], -tc.set) })
					begun := time.Now()
					p := start(t, l, n)
					synctest.Wait()
					for len(n.tried("a")) == tried && time.Since(begun) < 2*time.Hour {
						pass(time.Second)
					}
					if wait := time.Since(begun); wait < tc.from || wait > tc.til {
						t.Errorf("the next try came after %v", wait)
					}
					pass(time.Second)
					want(t, "tries", len(n.tried("a"))-tried, 1)
					n.at("a", nil)
					pass(2 * time.Hour)
					want(t, "taken", n.took("a"), seqs(2, 8))
					want(t, "state", p.delivery(t, "m").State, "idle")
				})
			})
		}
	}
}

// shifted returns what was saved as a clock shows it that was set.
func shifted(p windsock.Progress, by time.Duration) windsock.Progress {
	move := func(at *time.Time) {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	move(&p.NextTryAt)
	move(&p.SuccessAt)
	move(&p.FailingSince)
	lanes := p.Lanes
	p.Lanes = nil
	for _, l := range lanes {
		move(&l.NextTryAt)
		p.Lanes = append(p.Lanes, l)
	}
	return p
}
