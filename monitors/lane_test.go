package monitors

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// refusing answers 500 to what is about a subject, and takes the rest.
func refusing(subject string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		if strings.HasSuffix(req.Header.Get("Ce-Subject"), "/"+subject) {
			return respond(500, "no")(req)
		}
		return respond(200, "")(req)
	}
}

func lanesOf(p windsock.Progress) map[string]int64 {
	first := map[string]int64{}
	for _, l := range p.Lanes {
		first[l.Subject.ID] = l.FirstSeq
	}
	return first
}

func TestARefusedSubjectHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", refusing("web-0"))
		l.append(changes(700)...) // web-0 to web-6 in turn, from 2 on
		pass(time.Second)
		heard := n.heard("a")
		want(t, "taken of the one that is refused", len(heard["instance/web-0"]), 0)
		for i := 1; i < 7; i++ {
			want(t, "taken of another", len(heard["instance/web-"+strconv.Itoa(i)]), 100)
		}
		d := p.delivery(t, "m")
		if d.State != "retrying" || d.Parked != 1 || d.Backlog != 100 || d.Attempts != 1 || d.LastError != "HTTP 500: no" || d.NextTryAt.IsZero() || d.OldestAt.IsZero() {
			t.Errorf("delivery: %+v", d)
		}
		saved := l.progressOf("m")
		want(t, "saved cursor", saved.Cursor, l.Head())
		want(t, "saved lanes", lanesOf(saved), map[string]int64{"web-0": 2})

		l.append(change("web-0", windsock.Stopped), change("web-1", windsock.Stopped)) // one waits behind the others
		synctest.Wait()
		want(t, "backlog", p.delivery(t, "m").Backlog, 101)
		n.at("a", nil)
		pass(time.Minute)
		var all []int64
		for seq := int64(2); seq <= 701; seq += 7 {
			all = append(all, seq)
		}
		want(t, "taken when it is accepted", n.heard("a")["instance/web-0"], append(all, 702))
		d = p.delivery(t, "m")
		want(t, "delivery in the end", d, windsock.Delivery{State: "idle", SuccessAt: d.SuccessAt})
		want(t, "saved lanes in the end", len(l.progressOf("m").Lanes), 0)
	})
}

// Two events of one subject come within a millisecond, and the first is refused once.
func TestOrderIsKeptWhenTheFirstTryFails(t *testing.T) {
	for name, first := range map[string]func(*http.Request) (*http.Response, error){
		"by this event": respond(500, "no"), "by the monitor": respond(503, "no"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				p := start(t, l, n)
				var failed bool
				n.at("a", func(req *http.Request) (*http.Response, error) {
					if strings.HasSuffix(req.Header.Get("Ce-Subject"), "/web") && !failed {
						failed = true
						return first(req)
					}
					return respond(200, "")(req)
				})
				l.append(change("web", windsock.Failed))
				pass(time.Millisecond)
				l.append(change("web", windsock.Running), change("other", windsock.Failed))
				synctest.Wait()
				if name == "by this event" {
					want(t, "taken meanwhile", n.took("a"), []int64{4})
				} else {
					want(t, "tried meanwhile", n.tried("a"), []int64{2})
				}
				pass(10 * time.Second)
				want(t, "taken", n.heard("a"), map[string][]int64{"instance/web": {2, 3}, "instance/other": {4}})
				want(t, "tries", len(n.tried("a")), 4)
				want(t, "delivery", p.delivery(t, "m").State, "idle")
			})
		})
	}
}

func TestALaneKeepsToTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		n.at("a", respond(500, ""))
		l.append(change("web", windsock.Failed), change("web", windsock.Running))
		pass(4 * time.Hour)
		want(t, "waits", n.gaps("a"), []time.Duration{
			5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
			time.Hour, time.Hour, time.Hour,
		})
		want(t, "tries of the second event", slices.Contains(n.tried("a"), 3), false)
	})
}

func TestSubjectsGoInParallelUpToTheLimit(t *testing.T) {
	for _, parallel := range []int{1, 3, 16} {
		t.Run(strconv.Itoa(parallel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				m := named("a")
				m.Parallel = parallel
				l.add("m", m, "")
				start(t, l, n)
				n.at("a", after(time.Second))
				for i := range 120 {
					l.append(change(fmt.Sprintf("web-%d", i%40), windsock.Failed))
				}
				pass(time.Hour)
				want(t, "taken", n.took("a"), seqs(2, 121))
				want(t, "at once", n.atOnce("a"), parallel)
				want(t, "at once of one subject", n.doubled, nil)
				for subject, seqs := range n.heard("a") {
					if !slices.IsSorted(seqs) {
						t.Errorf("%s was told in the order %d", subject, seqs)
					}
				}
				if parallel == 1 && !slices.IsSorted(n.tried("a")) {
					t.Error("with one at a time, all is in order")
				}
			})
		})
	}
}

// Monitors that hang with all the requests they may have leave room for others.
func TestManyHangingMonitorsStarveNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		for i := range 20 {
			host := fmt.Sprintf("hung-%d", i)
			l.add(host, named(host), "")
			n.at(host, hang)
		}
		l.add("well", named("well"), "")
		start(t, l, n, func(d *Deliverer) { d.Requests = 64 })
		var events []windsock.Event
		for i := range 200 {
			events = append(events, change(fmt.Sprintf("web-%d", i), windsock.Failed))
		}
		l.append(events...)
		synctest.Wait() // no time passes
		want(t, "taken by the one that is well", n.took("well"), seqs(22, 221))
		most := 0
		for i := range 20 {
			host := fmt.Sprintf("hung-%d", i)
			if n.atOnce(host) == 0 {
				t.Errorf("%s got no turn", host)
			}
			most += n.atOnce(host)
		}
		if most > 64/2+20 {
			t.Errorf("those that hang hold %d requests", most)
		}
	})
}

func TestWhatFailsTogetherIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", hang)
		l.append(changes(7)...)
		pass(11 * time.Second)
		want(t, "tries at first", len(n.tried("a")), 7)
		d := p.delivery(t, "m")
		want(t, "attempts", d.Attempts, 1)
		want(t, "state", d.State, "retrying")
		pass(10 * time.Second)
		want(t, "tries afterwards: the oldest alone", n.tried("a")[7:], []int64{2})
		n.at("a", nil)
		pass(time.Minute)
		want(t, "taken", n.took("a"), seqs(2, 8))
	})
}

func TestRetryAfterHoldsForTheWholeMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		n.at("a", func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.Header.Get("Ce-Subject"), "/web-0") {
				<-time.After(10 * time.Millisecond)
				return respond(429, "", "Retry-After", "120")(req)
			}
			return after(time.Second)(req) // those under way then still succeed
		})
		l.append(changes(7)...)
		pass(2 * time.Second)
		l.append(changes(7)...)
		pass(117 * time.Second)
		want(t, "tries before the time", len(n.tried("a")), 7)
		n.at("a", nil)
		pass(2 * time.Second)
		want(t, "taken after it", n.took("a"), seqs(2, 15))
	})
}

func TestARestartKeepsTheLanes(t *testing.T) {
	for _, how := range []string{"stopped", "killed"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", named("a"), "")
				first := start(t, l, n)
				n.at("a", refusing("web-0"))
				l.append(changes(70)...)
				pass(30 * time.Second) // tries at 0, 5 and 20 s; the next is at 80 s
				before := first.delivery(t, "m")
				tries := len(n.tried("a"))
				next := l
				if how == "killed" {
					next = l.crashed()
				}
				first.stop()

				second := start(t, next, n)
				synctest.Wait()
				want(t, "delivery before and after", second.delivery(t, "m"), before)
				want(t, "parked", before.Parked, 1)
				want(t, "backlog", before.Backlog, 10)
				next.append(changes(7)...)
				pass(49 * time.Second)
				want(t, "tries, short of 80 s", len(n.tried("a")), tries+6)
				n.at("a", nil)
				pass(2 * time.Second)
				want(t, "taken", n.took("a"), seqs(2, 78))
				want(t, "delivery", second.delivery(t, "m").State, "idle")
			})
		})
	}
}

// What was delivered while an older event was under way is not repeated by a crash: what
// a subject heard beyond the cursor is saved with it.
func TestACrashRepeatsNothingThatOvertookASlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		n.at("a", func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.Header.Get("Ce-Subject"), "/web-0") {
				return hang(req)
			}
			return respond(200, "")(req)
		})
		l.append(changes(70)...)
		pass(time.Second)
		killed := l.crashed()
		want(t, "saved cursor", killed.progressOf("m").Cursor, 1)

		n2 := newNetwork()
		p := start(t, killed, n2)
		synctest.Wait()
		var slow []int64
		for seq := int64(2); seq <= 71; seq += 7 {
			slow = append(slow, seq)
		}
		want(t, "taken after the crash", n2.took("a"), slow)
		want(t, "backlog", p.delivery(t, "m").Backlog, 0)
	})
}

func TestLanesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		n.at("a", respond(500, "no"))
		const subjects = maxLanes + 200
		for range 2 {
			for i := range subjects {
				l.append(change(fmt.Sprintf("web-%d", i), windsock.Failed))
			}
		}
		pass(time.Hour)
		d := p.delivery(t, "m")
		want(t, "parked", d.Parked, maxLanes)
		want(t, "backlog", d.Backlog, 2*subjects)
		want(t, "saved lanes", len(l.progressOf("m").Lanes), maxLanes)
		if d.State != "retrying" || d.Attempts == 0 {
			t.Errorf("delivery: %+v", d)
		}
		if cursor := l.progressOf("m").Cursor; cursor > maxLanes+1 {
			t.Errorf("the cursor passed what is in no lane: %d", cursor)
		}
		n.at("a", nil)
		pass(3 * time.Hour)
		want(t, "taken", n.took("a"), seqs(2, 2*subjects+1))
		for subject, seqs := range n.heard("a") {
			if !slices.IsSorted(seqs) {
				t.Errorf("%s was told in the order %d", subject, seqs)
			}
		}
		want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
		want(t, "saved lanes in the end", len(l.progressOf("m").Lanes), 0)
	})
}

func TestAMonitorWithLanesIsRemovedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		start(t, l, n)
		n.at("a", refusing("web-0"))
		l.append(changes(7)...)
		pass(time.Second)
		n.at("a", hang)
		l.append(changes(700)...)
		pass(time.Second)
		l.remove("m")
		tries := len(n.tried("a"))
		pass(24 * time.Hour)
		want(t, "tries after it was removed", len(n.tried("a")), tries)
		l.set(func() {
			if p, ok := l.progress["m"]; ok {
				t.Errorf("saved for it: %+v", p)
			}
		})
	})
}
