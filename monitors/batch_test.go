package monitors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"windsock"
)

// A sent is an event in a request.
type sent struct {
	seq         int64
	subject, id string
	as          take
}

// eventsIn returns what a request tells, in order. Its body may be read again.
func eventsIn(req *http.Request) []sent {
	body, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.HasSuffix(req.URL.Path, "/api/events") {
		var said message
		seq, err := strconv.ParseInt(req.Header.Get("Ce-Sequence"), 10, 64)
		if err := errors.Join(err, json.Unmarshal(body, &said)); err != nil {
			panic(err)
		}
		subject := req.Header.Get("Ce-Subject")
		return []sent{{seq, subject, req.Header.Get("Ce-Id"), takeOf(&said, subject, req.Header.Get(replayHeader) != "")}}
	}
	var list []struct {
		message
		ID     string `json:"id"`
		Replay bool   `json:"replay"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		panic(err)
	}
	events := make([]sent, len(list))
	for i, e := range list {
		kind, id := "deployment", e.DeploymentID
		switch {
		case e.MonitorID != "":
			kind, _, _ = strings.Cut(string(e.Type), ".")
			id = e.MonitorID
		case e.InstanceID != "":
			kind, id = "instance", e.InstanceID
		}
		events[i] = sent{e.Seq, kind + "/" + id, e.ID, takeOf(&e.message, kind+"/"+id, e.Replay)}
	}
	return events
}

func subjectsOf(events []sent) map[string]bool {
	subjects := map[string]bool{}
	for _, e := range events {
		subjects[e.subject] = true
	}
	return subjects
}

// takenOf returns what a monitor took that answered so: of each subject what is before the
// first that it names. The answer may be read again.
func takenOf(events []sent, resp *http.Response, err error) (taken []sent) {
	if err != nil || resp.StatusCode != 200 {
		return nil
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(string(body), `"fail"`) {
		return nil
	}
	held := map[string]bool{}
	for _, e := range events {
		if strings.Contains(string(body), strconv.Quote(e.id)) {
			held[e.subject] = true
		}
		if !held[e.subject] {
			taken = append(taken, e)
		}
	}
	return taken
}

// batching returns a monitor of the network that is told in batches.
func batching(host string) windsock.MonitorSpec {
	return windsock.MonitorSpec{Address: host, Port: 80, Format: windsock.Batch}
}

// naming answers 200 and names the events of which bad is true as failed.
func naming(bad func(sent) bool) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		failed := []any{}
		for _, e := range eventsIn(req) {
			if bad(e) && e.seq%2 == 0 {
				failed = append(failed, e.id)
			} else if bad(e) {
				failed = append(failed, map[string]string{"id": e.id, "reason": "not this one"})
			}
		}
		body, _ := json.Marshal(map[string]any{"failed": failed})
		return respond(200, string(body))(req)
	}
}

// all500 answers 500 to a batch in which one is bad.
func all500(bad func(sent) bool) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		if slices.ContainsFunc(eventsIn(req), bad) {
			return respond(500, "no")(req)
		}
		return respond(200, "")(req)
	}
}

func about(subject string) func(sent) bool {
	return func(e sent) bool { return e.subject == subject }
}

// A request is one that was sent, as it was.
type request struct {
	at     time.Time
	header http.Header
	url    string
	body   []byte
	events []sent
}

// posts keeps the requests that a host of the network is sent.
type posts struct {
	mu   sync.Mutex
	list []request
}

// keep has what a host is sent kept, and then answered.
func (p *posts) keep(n *network, host string, answer func(*http.Request) (*http.Response, error)) {
	n.at(host, func(req *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		p.list = append(p.list, request{time.Now(), req.Header.Clone(), req.URL.String(), body, eventsIn(req)})
		p.mu.Unlock()
		return answer(req)
	})
}

// from returns the requests after the first n.
func (p *posts) from(n int) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list[n:])
}

func sizes(list []request) (sizes []int) {
	for _, k := range list {
		sizes = append(sizes, len(k.events))
	}
	return sizes
}

func attempts(list []request) (attempts []string) {
	for _, k := range list {
		attempts = append(attempts, k.header.Get(windsock.AttemptHeader))
	}
	return attempts
}

// warm has a monitor that was idle not be so, with an event of its own: what comes then
// is collected.
func warm(l *memLog) {
	l.append(change("warm", windsock.Failed))
	synctest.Wait()
}

// distinct returns changes of so many subjects.
func distinct(n int) []windsock.Event {
	events := make([]windsock.Event, n)
	for i := range events {
		events[i] = change(fmt.Sprintf("web-%d", i), windsock.Failed)
	}
	return events
}

func TestABatchHoldsWhatWaitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, p := newLog(), newNetwork(), &posts{}
		l.add("m", batching("a"), "")
		p.keep(n, "a", after(time.Millisecond))
		d := start(t, l, n)
		warm(l)
		l.append(changes(1700)...)
		pass(time.Second)
		var told []int64
		for _, k := range p.from(0) {
			want(t, "URL", k.url, "http://a:80/api/events")
			want(t, "a header of single callbacks", k.header.Get("Ce-Id"), "")
			for _, e := range k.events {
				told = append(told, e.seq)
			}
		}
		want(t, "told", told, seqs(2, 1702))
		want(t, "batches", sizes(p.from(0)), []int{1, maxBatch, maxBatch, maxBatch, 200})
		want(t, "delivery", d.delivery(t, "m").State, "idle")
		want(t, "cursor", l.progressOf("m").Cursor, l.Head())
	})
}

func TestBatchesOfOtherSubjectsGoInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		n.at("a", after(time.Second))
		start(t, l, n)
		l.append(distinct(3000)...)
		l.append(distinct(3000)...)
		pass(time.Minute)
		want(t, "taken", n.took("a"), seqs(2, 6001))
		want(t, "under way together about one subject", n.doubled, nil)
		if n.atOnce("a") < 2 {
			t.Error("one after the other")
		}
		for subject, seqs := range n.heard("a") {
			if !slices.IsSorted(seqs) {
				t.Errorf("%s was told in the order %d", subject, seqs)
			}
		}
	})
}

func TestABatchLingersForAtMost50Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, p := newLog(), newNetwork(), &posts{}
		l.add("m", batching("a"), "")
		p.keep(n, "a", respond(200, ""))
		start(t, l, n)
		pass(time.Minute)
		begun := time.Now()
		for range 20 { // every 8 ms
			l.append(change("web", windsock.Failed))
			pass(8 * time.Millisecond)
		}
		l.append(distinct(maxBatch)...)
		synctest.Wait()
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		var at []time.Duration
		for _, k := range p.from(0) {
			at = append(at, k.at.Sub(begun))
		}
		const ms = time.Millisecond
		want(t, "batches", sizes(p.from(0)), []int{1, 6, 6, 6, maxBatch, 2})
		want(t, "when", at, []time.Duration{0, 50 * ms, 100 * ms, 150 * ms, 160 * ms, 210 * ms})
	})
}

func TestABatchIsAtMostAMebibyte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, p := newLog(), newNetwork(), &posts{}
		l.add("m", batching("a"), "")
		p.keep(n, "a", respond(200, ""))
		start(t, l, n)
		warm(l)
		events := distinct(40)
		for i := range events {
			events[i].Reason = strings.Repeat("x", 100_000)
		}
		events[20].Reason = strings.Repeat("x", 3<<20)
		l.append(events...)
		pass(time.Second)
		want(t, "taken", n.took("a"), seqs(2, 42))
		for _, k := range p.from(0) {
			if len(k.body) > maxBytes && len(k.events) > 1 {
				t.Errorf("%d bytes with %d events", len(k.body), len(k.events))
			}
		}
		want(t, "batches", sizes(p.from(0)), []int{1, 10, 10, 1, 10, 9})
	})
}

func TestABatchIsSignedAndKeepsItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		l, n, p := newLog(), newNetwork(), &posts{}
		l.add("m", batching("a"), secret)
		p.keep(n, "a", respond(200, ""))
		start(t, l, n)
		warm(l)
		p.keep(n, "a", respond(503, ""))
		l.append(changes(5)...)
		pass(5 * time.Second)
		p.keep(n, "a", respond(200, ""))
		l.append(changes(5)...)
		pass(time.Minute)
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		got := p.from(1)
		for i, k := range got {
			if err := verifier.VerifyIgnoringTimestamp(k.body, k.header); err != nil {
				t.Errorf("batch %d: %v", i, err)
			}
		}
		id := func(i int) string { return got[i].header.Get("Webhook-Id") }
		want(t, "batches", sizes(got), []int{5, 5, 5})
		if id(0) != id(1) || !strings.HasPrefix(id(0), "batch_") || id(2) == id(0) {
			t.Errorf("ids %s, %s, %s", id(0), id(1), id(2))
		}
		want(t, "attempts", attempts(got), []string{"1", "2", "1"})
		var first map[string]any
		if err := json.Unmarshal(got[0].body[1:bytes.IndexByte(got[0].body, '}')+1], &first); err != nil {
			t.Fatal(err)
		}
		want(t, "what an event says", first, map[string]any{
			"id": "event-3", "version": "1", "deployment_id": "shop", "instance_id": "web-0", "state": "FAIL DETECTED", "type": "instance.state",
			"observed_state": "failed", "previous_state": "unknown", "expected_state": "running", "source": "probe:http",
			"seq": 3.0, "time": first["time"],
		})
	})
}

func TestAttemptsAreCounted(t *testing.T) {
	for format, spec := range map[string]windsock.MonitorSpec{"seed": named("a"), "batch": batching("a")} {
		for name, status := range map[string]int{"by the lane": 500, "by the monitor": 503} {
			t.Run(format+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, n, p := newLog(), newNetwork(), &posts{}
					l.add("m", spec, "")
					p.keep(n, "a", respond(status, ""))
					first := start(t, l, n)
					l.append(change("web", windsock.Failed))
					pass(6 * time.Second)
					first.stop()
					start(t, l, n)
					pass(20 * time.Second)
					p.keep(n, "a", respond(200, ""))
					l.append(change("web", windsock.Running))
					pass(2 * time.Minute)
					want(t, "attempts", attempts(p.from(0)), []string{"1", "2", "3", "4", "1"})
				})
			})
		}
	}
}

// One event among five hundred is never taken, and holds up its subject alone.
func TestAPoisonedEventParksItsLaneAlone(t *testing.T) {
	for _, at := range []int{0, 250, 499} {
		for name, refuse := range map[string]func(func(sent) bool) func(*http.Request) (*http.Response, error){"named": naming, "not named": all500} {
			t.Run(fmt.Sprint(name, " at ", at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, n, p := newLog(), newNetwork(), &posts{}
					l.add("m", batching("a"), "")
					poisoned := fmt.Sprintf("instance/web-%d", at)
					p.keep(n, "a", refuse(about(poisoned)))
					d := start(t, l, n)
					warm(l)
					l.append(distinct(500)...)
					l.append(distinct(500)...)
					pass(3 * time.Second)
					want(t, "taken", len(n.took("a")), 999)
					got := d.delivery(t, "m")
					if got.State != "retrying" || got.Parked != 1 || got.Backlog != 2 || got.Attempts != 1 || !strings.HasPrefix(got.LastError, "HTTP ") {
						t.Errorf("delivery: %+v", got)
					}
					seq := int64(at + 3)
					want(t, "saved cursor", l.progressOf("m").Cursor, l.Head())
					want(t, "saved lanes", lanesOf(l.progressOf("m")), map[string]int64{strings.TrimPrefix(poisoned, "instance/"): seq})
					tried := p.from(0)
					if name == "named" {
						want(t, "batches", sizes(tried), []int{1, 500, 499})
					} else if len(tried) > 40 {
						t.Errorf("it took batches of %d", sizes(tried))
					}
					pass(3 * time.Second)
					again := p.from(len(tried))
					if len(again) != 1 || len(again[0].events) != 1 || again[0].events[0].seq != seq || again[0].events[0].subject != poisoned {
						t.Errorf("tried again: %v", again)
					}
					p.keep(n, "a", respond(200, ""))
					pass(time.Minute)
					want(t, "taken in the end", n.took("a"), seqs(2, 1002))
					want(t, "of the one that was refused", n.heard("a")[poisoned], []int64{seq, seq + 500})
					got = d.delivery(t, "m")
					want(t, "delivery in the end", got, windsock.Delivery{State: "idle", SuccessAt: got.SuccessAt})
				})
			})
		}
	}
}

// What of a batch was taken and what not, by an answer.
func TestPartialAnswers(t *testing.T) {
	// event-3 and event-5 are of web-0, event-4 of web-1
	tests := map[string]struct {
		status int
		answer string
		taken  []int64
		parked map[string]int64
	}{
		"nothing said":          {200, ``, []int64{3, 4, 5}, nil},
		"no JSON":               {202, `<p>thanks</p>`, []int64{3, 4, 5}, nil},
		"another JSON":          {200, `["event-3"]`, []int64{3, 4, 5}, nil},
		"none failed":           {200, `{"failed":[]}`, []int64{3, 4, 5}, nil},
		"null":                  {200, `{"failed":null}`, []int64{3, 4, 5}, nil},
		"the first":             {207, `{"failed":["event-3"]}`, []int64{4}, map[string]int64{"web-0": 3}},
		"the last, with why":    {200, `{"result":"success","failed":[{"id":"event-5","reason":"no"}]}`, []int64{3, 4}, map[string]int64{"web-0": 5}},
		"two of one subject":    {200, `{"failed":["event-5",{"id":"event-3"}]}`, []int64{4}, map[string]int64{"web-0": 3}},
		"all":                   {200, `{"failed":["event-5","event-4","event-3"]}`, nil, map[string]int64{"web-0": 3, "web-1": 4}},
		"some that nobody sent": {200, `{"failed":["event-2","event-4","evt"]}`, []int64{3, 5}, map[string]int64{"web-1": 4}},
		"only what nobody sent": {200, `{"failed":["event-2"]}`, []int64{3, 4, 5}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n := newLog(), newNetwork()
				l.add("m", batching("a"), "")
				d := start(t, l, n)
				warm(l)
				n.at("a", respond(tc.status, tc.answer))
				l.append(change("web-0", windsock.Failed), change("web-1", windsock.Failed), change("web-0", windsock.Running))
				pass(time.Second)
				want(t, "tries", n.tried("a"), []int64{2, 3, 4, 5})
				p := l.progressOf("m")
				want(t, "cursor", p.Cursor, int64(5))
				if len(p.Lanes) > 0 || tc.parked != nil {
					want(t, "lanes", lanesOf(p), tc.parked)
				}
				waits := int64(3 - len(tc.taken))
				want(t, "backlog", d.delivery(t, "m").Backlog, waits)
				noted := strings.Contains(d.logged.String(), "names events that were not sent")
				want(t, "it is noted that others are named", noted, strings.Contains(name, "nobody"))

				n.at("a", nil)
				pass(time.Minute)
				again := slices.Sorted(slices.Values(append(n.tried("a")[4:], tc.taken...)))
				want(t, "told twice, or never", again, []int64{3, 4, 5})
			})
		})
	}
}

// An answer that does not make clear what was taken takes nothing: the batch is halved.
func TestWhatCannotBeUnderstoodTakesNothing(t *testing.T) {
	many, _ := json.Marshal(map[string]any{"failed": []string{strings.Repeat("x", maxAnswer)}})
	for name, answer := range map[string]string{
		"fail":            `{"result":"fail"}`,
		"fail and a list": `{"result":"fail","failed":["event-3"]}`,
		"a number":        `{"failed":1}`,
		"an id":           `{"failed":"event-2"}`,
		"numbers":         `{"failed":[2,3]}`,
		"no id":           `{"failed":[{"reason":"no"}]}`,
		"an empty id":     `{"failed":[""]}`,
		"too long":        string(many),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, n, p := newLog(), newNetwork(), &posts{}
				l.add("m", batching("a"), "")
				p.keep(n, "a", func(req *http.Request) (*http.Response, error) {
					if len(eventsIn(req)) > 1 {
						return respond(200, answer)(req)
					}
					return respond(200, "")(req)
				})
				d := start(t, l, n)
				warm(l)
				l.append(distinct(4)...)
				pass(time.Second)
				want(t, "batches", sizes(p.from(1))[:3], []int{4, 2, 1})
				want(t, "parked", d.delivery(t, "m").Parked, 0)
				want(t, "backlog", d.delivery(t, "m").Backlog, 0)
				want(t, "cursor", l.progressOf("m").Cursor, int64(6))
				if !strings.Contains(d.logged.String(), "batch refused") {
					t.Errorf("logged: %s", d.logged)
				}
			})
		})
	}
}

func TestTheReasonOfAFailedEventIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), secret)
		n.at("a", respond(200, `{"failed":[{"id":"event-2","reason":"by `+secret+`:\n no web"}]}`))
		p := start(t, l, n)
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		want(t, "last error", p.delivery(t, "m").LastError, "HTTP 200, but it failed: by [hidden]:  no web")
	})
}

func TestABatchThatMeetsNobodyIsTriedAgainAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, p := newLog(), newNetwork(), &posts{}
		l.add("m", batching("a"), "")
		d := start(t, l, n)
		warm(l)
		p.keep(n, "a", hang)
		l.append(distinct(200)...)
		pass(30 * time.Minute)
		want(t, "batches", sizes(p.from(0))[:5], []int{200, 200, 100, 50, 25})
		if got := d.delivery(t, "m"); got.Parked != 0 || got.Backlog != 200 || got.State != "retrying" {
			t.Errorf("delivery: %+v", got)
		}
		p.keep(n, "a", respond(200, ""))
		pass(time.Hour)
		want(t, "taken", n.took("a"), seqs(2, 202))
		tried := len(p.from(0))
		l.append(distinct(300)...)
		l.append(distinct(300)...)
		l.append(distinct(300)...)
		pass(time.Second)
		if sizes := sizes(p.from(tried)); slices.Max(sizes) < 200 {
			t.Errorf("afterwards in batches of %d", sizes)
		}
	})
}

func TestABatchIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		p := start(t, l, n)
		warm(l)
		n.at("a", respond(410, ""))
		l.append(distinct(20)...)
		pass(10 * time.Minute)
		want(t, "paused by", p.delivery(t, "m").PausedBy, windsock.PausedByGone)
		want(t, "tries", len(n.gaps("a")), 1)
		n.at("a", nil)
		pass(2 * time.Hour)
		want(t, "paused by, later", p.delivery(t, "m").PausedBy, "")
		want(t, "taken", len(n.took("a")), 21)
	})
}

func TestRetryAfterHoldsForBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		start(t, l, n)
		warm(l)
		n.at("a", respond(429, "", "Retry-After", "120"))
		l.append(distinct(20)...)
		pass(119 * time.Second)
		want(t, "tries before the time", len(n.gaps("a")), 1)
		n.at("a", nil)
		pass(2 * time.Second)
		want(t, "taken after it", len(n.took("a")), 21)
	})
}

func TestBatchesHaveBoundedLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		n.at("a", naming(func(sent) bool { return true }))
		p := start(t, l, n)
		l.append(distinct(maxLanes + 200)...)
		pass(time.Hour)
		d := p.delivery(t, "m")
		want(t, "parked", d.Parked, maxLanes)
		want(t, "backlog", d.Backlog, maxLanes+200)
		if d.State != "retrying" || d.Attempts == 0 {
			t.Errorf("delivery: %+v", d)
		}
		n.at("a", nil)
		pass(3 * time.Hour)
		want(t, "taken", len(n.took("a")), maxLanes+200)
		want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
	})
}

// What was taken and saved before the kill is not told again, what was under way is.
func TestAKillRepeatsNoBatchThatWasSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		n.at("a", func(req *http.Request) (*http.Response, error) {
			if slices.ContainsFunc(eventsIn(req), about("instance/web-0")) {
				return hang(req)
			}
			return respond(200, "")(req)
		})
		start(t, l, n)
		l.append(distinct(500)...)
		l.append(distinct(2000)[500:]...)
		pass(time.Second)
		saved := n.took("a")
		killed := l.crashed()

		n2 := newNetwork()
		p := start(t, killed, n2)
		pass(time.Second)
		want(t, "taken by both", len(saved)+len(n2.took("a")), 2000)
		if len(saved) < 1000 {
			t.Errorf("%d were taken while one batch hung", len(saved))
		}
		want(t, "backlog", p.delivery(t, "m").Backlog, 0)
	})
}

func TestAMonitorIsRemovedWithABatchUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		start(t, l, n)
		n.at("a", hang)
		l.append(distinct(700)...)
		l.append(distinct(700)...)
		pass(time.Second)
		begun := time.Now()
		l.remove("m")
		synctest.Wait()
		want(t, "how long that took", time.Since(begun), 0)
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

func last(p *posts) request {
	list := p.from(0)
	return list[len(list)-1]
}

func TestAFormatIsChangedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, p := newLog(), newNetwork(), &posts{}
		l.add("m", named("a"), "")
		p.keep(n, "a", after(time.Second))
		start(t, l, n)
		l.append(changes(70)...)
		pass(1500 * time.Millisecond)
		l.add("m", batching("a"), "")
		pass(10 * time.Second)
		want(t, "taken", n.took("a"), seqs(2, 71))
		want(t, "the last one's", last(p).url, "http://a:80/api/events")
		l.add("m", named("a"), "")
		l.append(changes(1)...)
		pass(2 * time.Second)
		want(t, "then again", last(p).url, "http://a:80/api/deployment/instance/web-0")
		want(t, "under way together about one subject", n.doubled, nil)
	})
}

// A monitor that is told one by one has a short queue, and may have heard in batches of
// much that lies beyond it.
func TestTheBacklogIsExactBeyondTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", batching("a"), "")
		n.at("a", func(req *http.Request) (*http.Response, error) {
			if slices.ContainsFunc(eventsIn(req), about("instance/web-0")) {
				return after(5 * time.Second)(req)
			}
			return respond(200, "")(req)
		})
		p := start(t, l, n)
		warm(l)
		l.append(distinct(3000)...)
		pass(time.Second)
		want(t, "backlog while a batch is slow", p.delivery(t, "m").Backlog, maxBatch)
		l.PauseMonitor(t.Context(), "m", windsock.PausedByOperator, "")
		l.add("m", named("a"), "")
		l.append(distinct(1000)...)
		pass(time.Second)
		want(t, "backlog of the other format", p.delivery(t, "m").Backlog, maxBatch+1000)
		killed := l.crashed()
		pass(10 * time.Second)
		want(t, "backlog when the batch was taken after all", p.delivery(t, "m").Backlog, 1000)
		p.stop()
		p = start(t, killed, n)
		pass(time.Second)
		want(t, "backlog after a kill", p.delivery(t, "m").Backlog, maxBatch+1000)
		killed.ResumeMonitor(t.Context(), "m", windsock.Replay)
		pass(time.Minute)
		want(t, "backlog in the end", p.delivery(t, "m").Backlog, 0)
		want(t, "taken again", len(n.tried("a")), 1+3000+1000+maxBatch)
	})
}

// What an answer says is believed or refused, never more than it says and never a panic.
func FuzzFailedOf(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"failed":["a",{"id":"b","reason":"c"}]}`, `{"failed":null}`, `{"failed":[1]}`, `{"failed":{"id":"a"}}`, `{"failed":["a"`, ` {"Failed":["a"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		failed, err := failedOf(body)
		if err != nil && failed != nil {
			t.Errorf("%q: both %v and %v", body, failed, err)
		}
		for id := range failed {
			if id == "" {
				t.Errorf("%q: an empty id", body)
			}
		}
		var said struct {
			Failed []string `json:"failed"`
		}
		if json.Unmarshal(body, &said) == nil && len(body) < maxAnswer { // the plain form
			for _, id := range said.Failed {
				if _, is := failed[id]; !is && err == nil {
					t.Errorf("%q: %q is not among %v", body, id, failed)
				}
			}
		}
	})
}
