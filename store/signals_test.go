package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock"
)

// late signals when all is over.
func (s *site) late(token windsock.Secret, sig windsock.Signal, want windsock.ComponentState) {
	s.Helper()
	out, err := s.Signal(s.Context(), token, sig)
	if !errors.Is(err, windsock.ErrFinal) || out.State != want || out.Changed {
		s.Fatalf("a late signal: %+v, %v; want ErrFinal with %s", out, err, want)
	}
	if strings.Contains(err.Error(), string(token)) {
		s.Fatalf("%v tells the token", err)
	}
	s.consistent()
}

func TestDiamondIsJoinedOnce(t *testing.T) { eachDB(t, diamondIsJoinedOnce) }

func diamondIsJoinedOnce(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{
		{Name: "a", On: "s1"},
		{Name: "b", On: "s1", After: []string{"a"}},
		{Name: "c", On: "s2", After: []string{"a"}},
		{Name: "d", On: "s2", After: []string{"b", "c"}},
	})
	s.runs("s1", "s2")
	s.done("s1", "a")
	s.want("a:complete b:available c:available d:waiting")
	s.done("s2", "c")
	s.want("a:complete b:available c:complete d:waiting")
	s.done("s1", "b")
	s.done("s2", "d")
	s.want("a:complete b:complete c:complete d:complete")
}

func TestFailedComponentFailsTheDeploymentUntilItIsRetried(t *testing.T) {
	eachDB(t, failedComponentFailsTheDeploymentUntilItIsRetried)
}

func failedComponentFailsTheDeploymentUntilItIsRetried(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.runs("s1", "s2")
	token := tokenOf(s.task("s1", "db").SignalURL)
	s.says(token, failure)
	s.want("db:failed web:waiting")
	s.wantShop(windsock.Failed, "component db on s1 failed: disk full")
	if w := s.component("web").WaitsFor; !slices.Equal(w, []string{"db"}) {
		t.Errorf("web waits for %q", w)
	}
	s.late(token, success(), windsock.ComponentFailed)
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "db"))
	s.want("db:available web:waiting")
	s.wantShop(windsock.Starting, "")
	s.late(token, success(), windsock.ComponentAvailable) // it is of the run before
	s.done("s1", "db", "trouble=no room")                 // an output that stands for an error
	s.wantShop(windsock.Failed, "component db on s1 failed: trouble : no room")
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "db"))
	s.says(tokenOf(s.task("s1", "db").SignalURL), windsock.Signal{Outputs: map[string]any{"deploy_status_code": "3"}})
	s.wantShop(windsock.Failed, "component db on s1 failed: exit status 3")
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "db"))
	s.done("s1", "db", "trouble=")
	s.want("db:complete web:available")
	if _, err := s.RetryComponent(t.Context(), "shop", "db"); !errors.Is(err, windsock.ErrConflict) {
		t.Errorf("retry of what is complete: %v", err)
	}
	h := s.component("db").History
	if len(h) != 6 || !h[1].Late || !h[2].Late || h[1].Run != 1 || h[5].Run != 4 {
		t.Errorf("history %+v", h)
	}
}

func TestRetries(t *testing.T) { eachDB(t, retries) }

func retries(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Retries: 2, Timeout: time.Minute}})
	s.runs("s1")
	first := tokenOf(s.task("s1", "a").SignalURL)
	s.says(first, failure)
	s.want("a:available")
	s.late(first, success(), windsock.ComponentAvailable)
	s.c.advance(2 * time.Minute)
	if err := s.timeOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want("a:available")
	if c := s.component("a"); c.Run != 3 || !strings.Contains(c.Reason, "run 2: nobody signalled") {
		t.Errorf("it is %+v", c)
	}
	s.says(tokenOf(s.task("s1", "a").SignalURL), failure)
	s.want("a:failed")
	want := []string{"a >waiting", "a waiting>available", "a available>failed", "a waiting>available", "a available>timed_out", "a waiting>available", "a available>failed"}
	if got := s.told(0); !slices.Equal(got, want) {
		t.Errorf("told\n%q, want\n%q", got, want)
	}
}

func TestTimeouts(t *testing.T) { eachDB(t, timeouts) }

func timeouts(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Timeout: time.Minute}, {Name: "b", On: "s1", Timeout: 3 * time.Minute}, {Name: "w", Signals: 2, Timeout: 2 * time.Minute}})
	s.runs("s1")
	b := tokenOf(s.task("s1", "b").SignalURL)
	s.says(b, windsock.Signal{Status: windsock.SignalStarted})
	var alive time.Time
	pass := func(d time.Duration) {
		s.c.advance(d)
		if err := s.tick(t.Context(), &alive); err != nil {
			t.Fatal(err)
		}
		s.consistent()
	}
	pass(30 * time.Second)
	s.want("a:available b:running w:running")
	pass(31 * time.Second)
	s.want("a:timed_out b:running w:running")
	s.wantShop(windsock.Failed, "component a on s1 timed out: nobody signalled that it began, or that it was done, in 1m0s")
	s.reopen() // what passes while nobody is there does not count
	pass(time.Minute)
	s.want("a:timed_out b:running w:timed_out")
	if r := s.component("w").Reason; r != "0 of 2 signals came in 2m0s" {
		t.Errorf("w: %s", r)
	}
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	s.c.advance(time.Hour)
	s.open()
	pass(0)
	s.want("a:timed_out b:running w:timed_out")
	s.says(b, success())
	s.want("a:timed_out b:complete w:timed_out")
}

func TestWhatFailsWhenItsTimeIsUpWasTooLate(t *testing.T) {
	eachDB(t, whatFailsWhenItsTimeIsUpWasTooLate)
}

func whatFailsWhenItsTimeIsUpWasTooLate(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Timeout: time.Minute}, {Name: "b", On: "s1", Timeout: time.Minute}, {Name: "c", On: "s1"}})
	s.runs("s1")
	a, b, c := s.tokenOf("s1", "a"), s.tokenOf("s1", "b"), s.tokenOf("s1", "c")
	s.c.advance(time.Minute) // and the clock did not look yet
	s.says(a, windsock.Signal{Status: windsock.SignalFailure, Reason: "killed at its deadline"})
	s.says(b, success())
	s.says(c, failure)
	s.want("a:timed_out b:complete c:failed")
	s.wantShop(windsock.Failed, "component a on s1 timed out: killed at its deadline; and 1 more")
}

func TestCancelledComponentIsWaitedForByNobody(t *testing.T) {
	eachDB(t, cancelledComponentIsWaitedForByNobody)
}

func cancelledComponentIsWaitedForByNobody(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.runs("s1", "s2")
	token := tokenOf(s.task("s1", "db").SignalURL)
	must[windsock.Component](t)(s.CancelComponent(t.Context(), "shop", "db"))
	s.want("db:cancelled web:available")
	if got := s.offered("s1"); len(got) > 0 {
		t.Errorf("s1 may run %v", got)
	}
	s.late(token, success(), windsock.ComponentCancelled)
	if _, err := s.CancelComponent(t.Context(), "shop", "db"); !errors.Is(err, windsock.ErrConflict) {
		t.Errorf("cancelled once more: %v", err)
	}
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "db"))
	s.want("db:available web:waiting")
	s.done("s1", "db")
	s.done("s2", "web")
	s.want("db:complete web:complete")
	s.wantShop(windsock.Running, "")
	if _, err := s.CancelComponent(t.Context(), "shop", "none"); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
}

func TestForgedTokensAreNotFound(t *testing.T) { eachDB(t, forgedTokensAreNotFound) }

func forgedTokensAreNotFound(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.runs("s1", "s2")
	token := string(tokenOf(s.task("s1", "db").SignalURL))
	other := newSite(t, fresh) // has another key
	other.deploy(dbAndWeb)
	other.runs("s1")
	forged := []string{"", "wss_", token[4:], token[:len(token)-1], token + "A", "wsi_" + token[4:], string(other.tokenOf("s1", "db"))}
	for i := range len(token) - 4 {
		b := []byte(token)
		b[4+i] ^= 1
		if b[4+i] == '=' || b[4+i] == ',' {
			b[4+i] = 'A'
		}
		if string(b) != token {
			forged = append(forged, string(b))
		}
	}
	for _, f := range forged {
		if _, err := s.Signal(t.Context(), windsock.Secret(f), success()); !errors.Is(err, windsock.ErrNotFound) {
			t.Fatalf("%q: %v", f, err)
		}
	}
	s.want("db:available web:waiting")
	if _, _, err := s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: "shop"}, windsock.Cond{}); err != nil { // made by nothing: all goes
		t.Fatal(err)
	}
	if _, err := s.Signal(t.Context(), windsock.Secret(token), success()); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("of what was removed: %v", err)
	}
}

func (s *site) tokenOf(instance, name string) windsock.Secret {
	return tokenOf(s.task(instance, name).SignalURL)
}

// condition deploys one that is signalled by what a component on s1 is told.
func (s *site) condition(signals int, after ...string) windsock.Secret {
	s.Helper()
	s.deploy([]node{
		{Name: "a", On: "s1", Gets: map[string]string{"CURL": "handle.endpoint"}},
		{Name: "w", Handle: "handle", Signals: signals, After: after},
		{Name: "b", On: "s1", Gets: map[string]string{"DATA": "w.data"}},
	})
	s.runs("s1")
	url := s.task("s1", "a").Inputs[0].Value.(string)
	if !strings.HasPrefix(url, "http://w/api/signal/wss_") {
		s.Fatalf("the handle is %q", url)
	}
	return tokenOf(url)
}

func TestConditionCountsDistinctSenders(t *testing.T) { eachDB(t, conditionCountsDistinctSenders) }

func conditionCountsDistinctSenders(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	token := s.condition(3)
	s.want("a:available w:running b:waiting")
	s.says(token, windsock.Signal{Status: windsock.SignalSuccess, ID: "2", Data: "x"})
	s.says(token, windsock.Signal{Status: windsock.SignalSuccess, ID: "2", Data: "y"})
	s.says(token, windsock.Signal{Status: windsock.SignalStarted})
	if c := s.component("w"); c.Signals != 1 || c.Want != 3 {
		t.Errorf("it is %+v", c)
	}
	s.says(token, windsock.Signal{Data: map[string]any{"k": 1.0}}) // 2 is taken
	if got := s.says(token, windsock.Signal{ID: "n"}); got != windsock.ComponentComplete {
		t.Errorf("it is %s", got)
	}
	s.want("a:available w:complete b:available")
	if data := s.task("s1", "b").Inputs[0].Value; data != `{"2":"y","3":{"k":1},"n":null}` {
		t.Errorf("data is %v", data)
	}
	s.late(token, windsock.Signal{ID: "m"}, windsock.ComponentComplete)
}

func TestConditionFailsAtOnce(t *testing.T) { eachDB(t, conditionFailsAtOnce) }

func conditionFailsAtOnce(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	token := s.condition(2)
	s.says(token, windsock.Signal{Status: windsock.SignalSuccess, ID: "1"})
	s.says(token, windsock.Signal{Status: windsock.SignalFailure, ID: "1", Reason: "no network"})
	s.want("a:available w:failed b:waiting")
	s.wantShop(windsock.Failed, "component w failed: no network")
	must[windsock.Component](t)(s.RetryComponent(t.Context(), "shop", "w"))
	s.says(token, windsock.Signal{ID: "1"})
	s.want("a:available w:running b:waiting")
	s.says(token, windsock.Signal{ID: "2"})
	s.want("a:available w:complete b:available")
}

func TestConditionCountsWhatCameBeforeItsTurn(t *testing.T) {
	eachDB(t, conditionCountsWhatCameBeforeItsTurn)
}

func conditionCountsWhatCameBeforeItsTurn(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	token := s.condition(1, "a")
	s.want("a:available w:waiting b:waiting")
	s.says(token, windsock.Signal{Data: "early"})
	s.want("a:available w:waiting b:waiting")
	s.done("s1", "a")
	s.want("a:complete w:complete b:available")
	s = newSite(t, fresh)
	token = s.condition(1, "a")
	s.says(token, failure)
	s.want("a:available w:failed b:waiting")
}

func TestConditionWaitsForItsServers(t *testing.T) { eachDB(t, conditionWaitsForItsServers) }

func conditionWaitsForItsServers(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1"}, {Name: "w", Handle: "h", Needs: []string{"s1"}}})
	s.want("a:waiting w:waiting")
	if w := s.component("w").WaitsFor; !slices.Equal(w, []string{"s1"}) {
		t.Errorf("w waits for %q", w)
	}
	s.runs("s1")
	s.want("a:available w:running")
}

// What boots a server has to tell it where to signal to, as no component is told.
func TestHandlesTellWhereToSignal(t *testing.T) { eachDB(t, handlesTellWhereToSignal) }

func handlesTellWhereToSignal(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1"}, {Name: "w", Handle: "h"}, {Name: "x", Handle: "web.0.h"}})
	urls := must[map[string]string](t)(s.Handles(t.Context(), "shop", "http://w"))
	if len(urls) != 2 || urls["h"] == urls["web.0.h"] {
		t.Fatalf("the handles are %q, want one for w and one for x", urls)
	}
	s.says(tokenOf(urls["web.0.h"]), windsock.Signal{})
	s.want("a:waiting w:running x:complete")
	if _, err := s.Handles(t.Context(), "other", ""); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("of no deployment: %v", err)
	}
}

func TestManySignalsAtOnceLoseNone(t *testing.T) { eachDB(t, manySignalsAtOnceLoseNone) }

func manySignalsAtOnceLoseNone(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	token := s.condition(100)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := s.Signal(t.Context(), token, windsock.Signal{Status: windsock.SignalSuccess}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.consistent()
	s.want("a:available w:complete b:available")
	if c := s.component("w"); c.Signals != 100 || len(c.History) != signalsKept {
		t.Errorf("it has %d signals, %d kept", c.Signals, len(c.History))
	}
}

func TestOnlyTheLatestSignalsAreKept(t *testing.T) { eachDB(t, onlyTheLatestSignalsAreKept) }

func onlyTheLatestSignalsAreKept(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	token := s.condition(2)
	for i := range signalsKept + 20 {
		s.says(token, windsock.Signal{ID: "same", Reason: fmt.Sprint(i)})
	}
	h := s.component("w").History
	if len(h) != signalsKept || h[0].Reason != "20" || h[len(h)-1].Reason != "119" {
		t.Errorf("%d are kept, from %+v to %+v", len(h), h[0], h[len(h)-1])
	}
}

func TestSilentComponentIsCompleteOnceItBegan(t *testing.T) {
	eachDB(t, silentComponentIsCompleteOnceItBegan)
}

func silentComponentIsCompleteOnceItBegan(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Silent: true}})
	s.runs("s1")
	task := s.task("s1", "a")
	if i := slices.IndexFunc(task.Inputs, func(in windsock.Input) bool { return in.Name == "deploy_signal_transport" }); task.Inputs[i].Value != "NO_SIGNAL" {
		t.Errorf("inputs %v", task.Inputs)
	}
	s.want("a:available")
	s.says(tokenOf(task.SignalURL), windsock.Signal{Status: windsock.SignalStarted})
	s.want("a:complete")
}

func TestLongOutputsAreKeptInPart(t *testing.T) { eachDB(t, longOutputsAreKeptInPart) }

func longOutputsAreKeptInPart(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy(dbAndWeb)
	s.runs("s1")
	long := strings.Repeat("x", 2<<20)
	s.done("s1", "db", "ip="+long, "deploy_stdout="+long)
	c := s.component("db")
	if n := len(c.Outputs["deploy_stdout"]); n < 256<<10 || n > 257<<10 {
		t.Errorf("%d bytes of the log are kept", n)
	}
	if n := len(c.Outputs["ip"]); n < 1<<20 || n > 1<<20+1000 || !strings.Contains(c.Reason, "output ip is kept only in part, it has 2097152 bytes") {
		t.Errorf("%d bytes of the output are kept: %s", n, c.Reason)
	}
	if !strings.Contains(string(c.Outputs["deploy_stdout"]), "1835008 bytes left out") {
		t.Error("nothing says how much is left out")
	}
}

func TestComponentThatCannotBeRunHidesNoOther(t *testing.T) {
	eachDB(t, componentThatCannotBeRunHidesNoOther)
}

func componentThatCannotBeRunHidesNoOther(t *testing.T, fresh maker) {
	s := newSite(t, fresh)
	s.deploy([]node{{Name: "a", On: "s1", Text: "broken"}, {Name: "b", On: "s1"}, {Name: "c", On: "s1", After: []string{"a"}}})
	s.runs("s1")
	s.want("a:failed b:available c:waiting")
	s.wantShop(windsock.Failed, "component a on s1 failed: it is broken")
	if got := s.offered("s1"); len(got) != 1 {
		t.Errorf("s1 may run %v", got)
	}
}
