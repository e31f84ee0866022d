package monitors

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

const us = "windsock.example.com"

func asUs(d *Deliverer) { d.Origin = us }

func (l *memLog) VerifyMonitor(_ context.Context, id string, g windsock.Grant) error {
	l.mu.Lock()
	t, ok := l.targets[id]
	if err := l.broken; err != nil || !ok || !t.Pending() || t.Scheme != g.Scheme {
		l.mu.Unlock()
		return err
	}
	t.VerifiedAt, t.Origin, t.AllowedRate = time.Now().UTC(), g.Origin, g.Rate
	l.targets[id] = t
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorVerified, SubjectID: id})
	return nil
}

// asked is a network whose monitors are asked whether they may be called.
type asked struct {
	*network
	mu     sync.Mutex
	answer func(*http.Request) (*http.Response, error) // to who asks
	asks   []*http.Request
	times  []time.Time
}

func (a *asked) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodOptions {
		return a.network.RoundTrip(req)
	}
	a.mu.Lock()
	a.asks, a.times = append(a.asks, req), append(a.times, time.Now())
	answer := a.answer
	a.mu.Unlock()
	return answer(req)
}

func (a *asked) answers(answer func(*http.Request) (*http.Response, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *asked) waits() (waits []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 1; i < len(a.times); i++ {
		waits = append(waits, a.times[i].Sub(a.times[i-1]))
	}
	return waits
}

func (a *asked) asked() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asks)
}

func allow(origin string) func(*http.Request) (*http.Response, error) {
	return respond(200, "", "WebHook-Allowed-Origin", origin)
}

func allowRate(rate string) func(*http.Request) (*http.Response, error) {
	return respond(204, "", "WebHook-Allowed-Origin", us, "WebHook-Allowed-Rate", rate)
}

// pending returns a monitor that is to be asked.
func pending(host string) windsock.MonitorSpec {
	return windsock.MonitorSpec{Address: host, Port: 80, Path: "/hooks", Verify: true}
}

func TestNothingIsSentBeforeItIsAllowed(t *testing.T) {
	timedOut := &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}
	for name, c := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		says   string
	}{
		"no header":                  {respond(200, ""), "WebHook-Allowed-Origin is missing"},
		"another host":               {allow("other.example.com"), "is not " + us + ", but other.example.com"},
		"one that ends as ours does": {allow("evil-windsock.example.com"), "is not " + us},
		"a wildcard in the host":     {allow("*.example.com"), "is not " + us},
		"no rate":                    {allowRate("0"), "but 0"},
		"a rate that is none":        {allowRate("fast"), "but fast"},
		"405, but the header":        {respond(405, "", "WebHook-Allowed-Origin", us), "HTTP 405"},
		"a redirect, but the header": {respond(307, "", "WebHook-Allowed-Origin", us, "Location", "http://b/"), "redirects are not followed"},
		"200 that says fail":         {respond(200, `{"result":"fail"}`, "WebHook-Allowed-Origin", us), "HTTP 200, but"},
		"nobody there":               {refuse(timedOut), "connect: timeout"},
		"it hangs":                   {hang, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), &asked{network: newNetwork(), answer: c.answer}
				l.add("m", pending("a"), "")
				first := start(t, l, n, asUs)
				l.append(change("web", windsock.Failed), change("web", windsock.Running))
				pass(12 * time.Second)
				d := first.delivery(t, "m")
				if d.State != "pending" || d.Backlog != 2 || d.Attempts == 0 || d.NextTryAt.IsZero() || !strings.Contains(d.LastError, c.says) {
					t.Errorf("while it is pending: %+v", d)
				}
				pass(2 * time.Hour)
				first.stop()
				p := start(t, l, n, asUs) // as after a restart
				synctest.Wait()
				d = p.delivery(t, "m")
				if d.State != "pending" || d.Backlog != 2 || !strings.Contains(d.LastError, c.says) {
					t.Errorf("after a restart: %+v", d)
				}
				want(t, "sent", n.tried("a"), nil)
				if n := len(n.asked()); n > 9 {
					t.Errorf("it was asked %d times in two hours", n)
				}
				n.answers(allow(us))
				pass(80 * time.Minute)
				want(t, "taken", n.took("a"), []int64{2, 3})
				d = p.delivery(t, "m")
				want(t, "delivery in the end", d, windsock.Delivery{State: "idle", SuccessAt: d.SuccessAt})
			})
		})
	}
}

func TestAHandshake(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"our name":         allow(us),
		"in other letters": allow("WINDSOCK.example.com"),
		"everybody":        allow("*"),
		"at any rate":      allowRate("*"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), &asked{network: newNetwork(), answer: answer}
				l.add("m", pending("a"), newSecret)
				l.set(func() {
					m := l.targets["m"]
					m.Bearer, m.Headers = "token", map[string]windsock.Secret{"X-Team": "blue"}
					l.targets["m"] = m
				})
				l.append(change("web", windsock.Failed))
				origins := make(chan string, 10)
				n.at("a", func(req *http.Request) (*http.Response, error) {
					origins <- req.Header.Get(originHeader)
					return respond(200, "")(req)
				})
				p := start(t, l, n, asUs, func(d *Deliverer) { d.ID = "log-1" })
				synctest.Wait() // at once
				want(t, "state", p.delivery(t, "m").State, "idle")
				want(t, "taken", n.took("a"), []int64{2})
				want(t, "who called", <-origins, us)

				requests := n.asked()
				want(t, "handshakes", len(requests), 1)
				req := requests[0]
				want(t, "URL", req.URL.String(), "http://a:80/hooks")
				want(t, "headers", req.Header, http.Header{
					"User-Agent": {"windsock/dev"}, "Webhook-Request-Origin": {us}, "Authorization": {"Bearer token"},
					"X-Team": {"blue"}, "Windsock-Id": {"log-1"},
				})
				body, err := io.ReadAll(req.Body)
				want(t, "body", string(body), "")
				want(t, "error", err, nil)

				p.stop() // what was granted survives
				l.append(change("web", windsock.Running))
				start(t, l, n, func(d *Deliverer) { d.Origin = "another.example.com" })
				synctest.Wait()
				want(t, "taken", n.took("a"), []int64{2, 4})
				want(t, "who called then", <-origins, us)
				want(t, "handshakes", len(n.asked()), 1)
			})
		})
	}
}

func TestHandshakesFollowTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: respond(404, "")}
		l.add("m", pending("a"), "")
		p := start(t, l, n, asUs)
		pass(2 * time.Hour)
		want(t, "waits", n.waits(), []time.Duration{
			5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
		})
		n.answers(respond(503, "", "Retry-After", "1800"))
		pass(2 * time.Hour)
		want(t, "waits when it is asked to wait", n.waits()[8:], []time.Duration{30 * time.Minute, 30 * time.Minute})
		n.answers(respond(404, ""))
		pass(26 * time.Hour)
		want(t, "what a day of that makes of it", p.delivery(t, "m").State, "pending")
		want(t, "said of it", l.pauses(), nil)
	})
}

func TestAPendingMonitorGetsOtherWishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: respond(404, "")}
		l.add("m", pending("a"), "")
		p := start(t, l, n, asUs)
		l.append(change("web", windsock.Failed)) // 2
		pass(time.Second)
		open := pending("a")
		open.Verify = false
		l.add("m", open, "") // 3
		synctest.Wait()
		want(t, "taken when it is not to be asked any more", n.took("a"), []int64{2})

		l.add("m", pending("a"), "") // 4
		l.append(change("web", windsock.Running))
		synctest.Wait()
		want(t, "state when it is to be asked again", p.delivery(t, "m").State, "pending")
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		synctest.Wait()
		n.answers(allow(us))
		asks := len(n.asked())
		pass(2 * time.Hour)
		want(t, "state while an operator pauses it", p.delivery(t, "m").State, "paused")
		want(t, "handshakes meanwhile", len(n.asked()), asks)
		l.ResumeMonitor(t.Context(), "m", windsock.Replay)
		synctest.Wait()
		want(t, "taken after that", n.took("a"), []int64{2, 5})
	})
}

// A grant that cannot be stored is asked for again.
func TestAGrantIsStoredBeforeItCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: allow(us)}
		l.add("m", pending("a"), "")
		l.append(change("web", windsock.Failed))
		l.broken = errDisk
		p := start(t, l, n, asUs)
		pass(time.Second)
		want(t, "sent", n.tried("a"), nil)
		d := p.delivery(t, "m")
		want(t, "shown", []any{d.State, d.LastError}, []any{"pending", "what it allows could not be stored"})
		l.set(func() { l.broken = nil })
		pass(time.Minute)
		want(t, "taken", n.took("a"), []int64{2})
		want(t, "handshakes", len(n.asked()), 2)
	})
}

func TestAPendingMonitorIsRemovedInTheMiddleOfAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: hang}
		l.add("m", pending("a"), "")
		p := start(t, l, n, asUs)
		pass(time.Second)
		var ended time.Time
		n.answers(func(req *http.Request) (*http.Response, error) {
			defer func() { ended = time.Now() }()
			return hang(req)
		})
		pass(15 * time.Second)
		l.expire("m")
		expired := time.Now()
		pass(time.Hour)
		want(t, "time from the end of its lease to that of the handshake", ended.Sub(expired), 0)
		want(t, "handshakes", len(n.asked()), 2)
		if strings.Contains(p.logged.String(), "canceled") {
			t.Errorf("logged as a failure: %s", p.logged)
		}
	})
}

func TestTheAllowedRateIsObeyed(t *testing.T) {
	const every = 3 * time.Second // 20 a minute
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: allowRate("20")}
		l.add("m", pending("a"), "")
		l.add("other", named("b"), "")
		l.append(changes(100)...)
		p := start(t, l, n, asUs)
		synctest.Wait()
		want(t, "taken by the other at once", len(n.took("b")), 100)
		want(t, "taken right after the handshake", len(n.took("a")), 0)
		pass(time.Minute)
		want(t, "taken in a minute", len(n.took("a")), 20)
		want(t, "waits", slices.Compact(n.gaps("a")), []time.Duration{every})

		n.at("a", hang) // and with retries of the whole monitor,
		pass(time.Minute)
		n.at("a", respond(500, "no")) // of lanes,
		pass(10 * time.Minute)
		n.at("a", after(2*every)) // and when it is slow
		p.stop()
		started := len(n.tried("a"))
		start(t, l, n, asUs) // or over a restart
		synctest.Wait()
		want(t, "tries right after a restart", len(n.tried("a")), started)
		pass(3 * time.Hour)
		want(t, "taken in the end", n.took("a"), seqs(3, 102))
		if least := slices.Min(n.gaps("a")); least < every {
			t.Errorf("the shortest wait between two tries was %s", least)
		}
	})
}

// A rate that is obeyed does not hold up what it leaves room for: a wait for the rate is
// not one for a retry.
func TestTheRateDoesNotStallRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: allowRate("60")}
		l.add("m", pending("a"), "")
		start(t, l, n, asUs)
		pass(2 * time.Second)
		n.at("a", respond(503, ""))
		l.append(changes(50)...)
		pass(3 * time.Second)
		n.at("a", nil)
		pass(5*time.Second + 50*time.Second)
		want(t, "taken", len(n.took("a")), 50)
	})
}

// Nothing that a monitor answers to a handshake shows its keys.
func TestHandshakesShowNoKeys(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("WebHook-Allowed-Origin", req.Header.Get("Authorization"))
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, req.Header)
	})
	l := newLog()
	m := spec(r.URL)
	m.Verify, m.Path = true, "/T0KEN-IN-PATH"
	l.add("m", m, newSecret)
	l.set(func() {
		m := l.targets["m"]
		m.Bearer = windsock.Secret(strings.Repeat("PLANTED-", 30))
		l.targets["m"] = m
	})
	p := start(t, l, nil, ours, asUs)
	eventually(t, "a handshake in vain", func() bool {
		d, ok := p.Delivery("m")
		return ok && d.LastError != ""
	})
	got := r.await(t, 1)[0]
	want(t, "request", got.Method+" "+got.URL.Path, "OPTIONS /T0KEN-IN-PATH")
	want(t, "its body", len(got.body), 0)
	for _, text := range []string{p.delivery(t, "m").LastError, p.logged.String()} {
		if strings.Contains(text, "PLANTED") || strings.Contains(text, "T0KEN") || strings.Contains(text, string(newSecret)[6:]) {
			t.Errorf("it shows keys: %s", text)
		}
	}
	if text := p.delivery(t, "m").LastError; !strings.Contains(text, "[hidden]") {
		t.Errorf("last error: %s", text)
	}
}

// The guard holds for handshakes as for callbacks.
func TestHandshakesAreGuarded(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	m := spec(r.URL)
	m.Verify = true
	l.add("m", m, "")
	p := start(t, l, nil, asUs) // loopback is not called
	eventually(t, "a handshake in vain", func() bool {
		d, ok := p.Delivery("m")
		return ok && strings.HasPrefix(d.LastError, "blocked_address")
	})
	want(t, "requests", len(r.all()), 0)
}

// Whatever happens, nothing is sent to a monitor that is pending, and none that is asked
// loses an event or hears of a subject in another order.
func TestHandshakesWhateverHappens(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { askedAndToggled(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func askedAndToggled(t *testing.T, r *rand.Rand) {
	l, n := newLog(), &asked{network: newNetwork(), answer: allow(us)}
	var closed atomic.Bool // the deliverer knows that it is pending
	var calls atomic.Int64
	n.at("a", func(req *http.Request) (*http.Response, error) {
		if closed.Load() {
			t.Errorf("called while it is pending, by %s", req.URL)
		}
		return respond([...]int{200, 200, 200, 500, 503}[calls.Add(1)%5], "")(req)
	})
	answers := [...]func(*http.Request) (*http.Response, error){
		allow(us), allow("*"), allowRate("600"), allow("evil." + us), respond(405, ""), hang, refuse(errDisk), respond(503, "", "Retry-After", "3"),
	}
	scheme := "http"
	l.add("m", pending("a"), "")
	p := start(t, l, n, asUs)
	for range 40 {
		switch r.IntN(6) {
		case 0:
			n.answers(answers[r.IntN(len(answers))])
		case 1, 2:
			l.append(changes(r.IntN(20))...)
		case 3: // called by another scheme, it has to be asked again, and the answer is no
			n.answers(answers[3+r.IntN(5)])
			scheme = map[string]string{"http": "https", "https": "http"}[scheme]
			l.set(func() {
				m := l.targets["m"]
				m.VerifiedAt, m.Origin, m.AllowedRate = time.Time{}, "", 0
				l.targets["m"] = m
			})
			m := pending("a")
			m.Scheme = scheme
			l.add("m", m, "")
			synctest.Wait()
			closed.Store(true)
			pass(time.Duration(r.IntN(100)) * time.Second)
			closed.Store(false)
		case 4:
			p.stop()
			p = start(t, l, n, asUs)
		case 5:
			pass(time.Duration(r.IntN(100)) * time.Second)
		}
	}
	n.answers(allow(us))
	n.at("a", nil)
	pass(80 * time.Minute)
	m, due := windsock.Monitor{MonitorSpec: pending("a"), ID: "m"}, map[string][]int64{}
	for _, e := range l.events {
		if m.Wants(&e) {
			due["instance/"+e.SubjectID] = append(due["instance/"+e.SubjectID], e.Seq)
		}
	}
	want(t, "heard", n.heard("a"), due)
}

// What another process was granted holds here, too, at once.
func TestAGrantToAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork(), answer: respond(404, "")}
		l.add("m", pending("a"), "")
		l.append(change("web", windsock.Failed))
		p := start(t, l, n, asUs)
		pass(10 * time.Minute)
		want(t, "state", p.delivery(t, "m").State, "pending")
		if err := l.VerifyMonitor(t.Context(), "m", windsock.Grant{Scheme: "http", Origin: us}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, "taken", n.took("a"), []int64{2})
		d := p.delivery(t, "m")
		want(t, "delivery", d, windsock.Delivery{State: "idle", SuccessAt: d.SuccessAt})
	})
}

// An answer that comes when the monitor is to be called by another scheme grants nothing.
func TestAnAnswerToAnOldQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), &asked{network: newNetwork()}
		n.answers(func(req *http.Request) (*http.Response, error) {
			if req.URL.Scheme == "https" {
				return respond(404, "")(req)
			}
			<-time.After(5 * time.Second)
			return allow(us)(req)
		})
		l.add("m", pending("a"), "")
		l.append(change("web", windsock.Failed))
		p := start(t, l, n, asUs)
		pass(time.Second)
		m := pending("a")
		m.Scheme = "https"
		l.add("m", m, "")
		pass(time.Hour)
		d := p.delivery(t, "m")
		want(t, "shown", []any{d.State, d.LastError}, []any{"pending", "HTTP 404"})
		want(t, "sent", n.tried("a"), nil)
		if last := n.asked()[len(n.asked())-1].URL.String(); last != "https://a:80/hooks" {
			t.Errorf("asked at %s", last)
		}
	})
}
