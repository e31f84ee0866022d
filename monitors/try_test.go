package monitors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

func (l *memLog) triesOf(id string) (tries []windsock.Try, omitted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries[id], l.omitted[id]
}

func (l *memLog) triesText(id string) string {
	tries, _ := l.triesOf(id)
	text, _ := json.Marshal(tries)
	return string(text)
}

func TestTriesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		m := named("a")
		m.Path = "/in/T0KEN-IN-PATH"
		l.add("m", m, "")
		begun := plain(time.Now())
		answers := []func(*http.Request) (*http.Response, error){
			refuse(errDisk), respond(503, "later"), respond(500, "no\nsuch T0KEN-IN-PATH"), respond(200, `{"result":"fail"}`), respond(410, ""), respond(200, "thanks"),
		}
		n.at("a", func(req *http.Request) (*http.Response, error) {
			answer := answers[0]
			answers = answers[1:] // there are no more tries than these
			return answer(req)
		})
		p := start(t, l, n)
		e := change("web", windsock.Failed)
		l.append(e)
		for range 300 { // the last tries are an hour apart
			pass(time.Minute)
		}
		p.stop()
		tries, omitted := l.triesOf("m")
		want(t, "omitted", omitted, 0)
		type row struct {
			Result               windsock.Result
			Attempt, Status      int
			Class, Error, Answer string
		}
		var got []row
		for i, y := range tries {
			got = append(got, row{y.Result, y.Attempt, y.Status, y.Class, y.Error, y.Answer})
			want(t, "event", []any{y.Seq, y.LastSeq, y.Events, y.Kind, y.SubjectID, y.DeploymentID},
				[]any{int64(2), int64(2), 1, windsock.KindInstance, "web", "shop"})
			want(t, "URL", y.URL, "http://a:80/in/[hidden]/api/deployment/instance/web")
			if i == 0 {
				want(t, "begun", y.BegunAt, begun)
			} else if !y.BegunAt.After(tries[i-1].BegunAt) {
				t.Errorf("try %d began at %v, the one before at %v", i, y.BegunAt, tries[i-1].BegunAt)
			}
		}
		want(t, "tries", got, []row{
			{windsock.TryAway, 1, 0, "connection", "the disk is full", ""},
			{windsock.TryAway, 2, 503, "status", "HTTP 503: later", "later"},
			{windsock.TryRefused, 3, 500, "status", "HTTP 500: no such [hidden]", "no such [hidden]"},
			{windsock.TryRefused, 2, 200, "refused", `HTTP 200, but: {"result":"fail"}`, `{"result":"fail"}`},
			{windsock.TryGone, 3, 410, "status", "HTTP 410", ""},
			{windsock.TryTaken, 4, 200, "", "", "thanks"},
		})
	})
}

func TestATryThatCannotBeSignedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.add("m", named("a"), "whsec_not base64")
		start(t, l, newNetwork())
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		tries, _ := l.triesOf("m")
		want(t, "tries", len(tries), 1)
		want(t, "what it was", []any{tries[0].Result, tries[0].Class, tries[0].Wire}, []any{windsock.TryAway, "signature", windsock.Wire{}})
	})
}

// A storm leaves a sample, and the number of the rest. Not one that failed is missing.
func TestAStormIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		calm := named("calm")
		calm.Scope = "instance:calm"
		l.add("calm", calm, "")
		l.add("busy", named("busy"), "")
		n.at("busy", func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Ce-Subject") == "instance/bad" {
				return respond(500, "")(req)
			}
			return respond(200, "")(req)
		})
		start(t, l, n)
		const storm = 2000
		for range 10 {
			l.append(changes(storm / 10)...)
			pass(time.Second)
		}
		l.append(change("bad", windsock.Failed), change("calm", windsock.Failed))
		pass(time.Second)
		tries, omitted := l.triesOf("busy")
		byResult := map[windsock.Result]int{}
		for _, y := range tries {
			byResult[y.Result]++
		}
		want(t, "failed", byResult[windsock.TryRefused], 1)
		if taken := byResult[windsock.TryTaken]; taken < ofMonitor.row || taken > ofMonitor.row+12 {
			t.Errorf("%d that were taken are kept, want about %d", taken, ofMonitor.row+10)
		}
		want(t, "kept and omitted", byResult[windsock.TryTaken]+omitted, storm+1)
		tries, omitted = l.triesOf("calm")
		want(t, "of who was told little", []int{len(tries), omitted}, []int{1, 0})
	})
}

func (s *saver) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken + s.failed
}

// What waits to be saved is bounded, and what is not kept is counted then, too.
func TestTriesThatCannotBeSavedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		const monitors, each = 30, 20
		for i := range monitors {
			l.add(fmt.Sprint("m", i), named("a"), "")
		}
		p := start(t, l, n)
		synctest.Wait()
		l.set(func() { l.broken = errDisk })
		l.append(changes(each)...)
		pass(time.Second)
		want(t, "waiting", p.saver.waiting(), maxTaken)
		l.set(func() { l.broken = nil })
		pass(time.Second)
		kept, omitted := 0, 0
		for i := range monitors {
			tries, more := l.triesOf(fmt.Sprint("m", i))
			kept, omitted = kept+len(tries), omitted+more
		}
		want(t, "kept and omitted", []int{kept, omitted}, []int{maxTaken, monitors*each - maxTaken})
		want(t, "waiting after that", p.saver.waiting(), 0)

		l.set(func() { l.broken = errDisk })
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		for i := range monitors {
			l.remove(fmt.Sprint("m", i))
		}
		pass(time.Second)
		want(t, "waiting for who was removed", p.saver.waiting(), 0)
	})
}

func TestCredit(t *testing.T) {
	var c credit
	a := allowance{5, time.Second}
	at := time.Now()
	several := func() (n int) {
		for range 10 {
			if c.take(a, at) {
				n++
			}
		}
		return n
	}
	want(t, "in a row", several(), 5)
	at = at.Add(time.Second - 1)
	want(t, "too soon", several(), 0)
	at = at.Add(1)
	want(t, "after a while", several(), 1)
	at = at.Add(time.Hour)
	want(t, "after an hour", several(), 5)
}
