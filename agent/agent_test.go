package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunsInOrder(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	var jobs []job
	for _, id := range []string{"c", "a", "b"} {
		jobs = append(jobs, script(id, fmt.Sprintf("echo %s >>%s; echo hi; printf $in >$heat_outputs_path.out", id, log),
			job{"inputs": []job{{"name": "in", "value": "hunter2-" + id}}, "outputs": []job{{"name": "out"}}}))
	}
	s := serve(t, jobs...)
	work(t, s)
	for _, id := range []string{"a", "b", "c"} {
		want := map[string]any{"deploy_stdout": "hi\n", "deploy_stderr": "", "deploy_status_code": 0.0, "out": "hunter2-" + id}
		if diff := cmp.Diff(want, s.result(t, id).plainly(t)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", id, diff)
		}
	}
	if diff := cmp.Diff([]string{"c", "a", "b"}, lines(t, log)); diff != "" {
		t.Errorf("order: (-want +got)\n%s", diff)
	}
	var started []string
	for _, word := range s.history() {
		if strings.HasPrefix(word, "started") {
			started = append(started, word)
		}
	}
	if diff := cmp.Diff([]string{"started c", "started a", "started b"}, started); diff != "" {
		t.Errorf("said to have begun: (-want +got)\n%s", diff)
	}
}

// Two that wait for each other come to their end only when they run at the same time.
func TestRunsInParallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, pipe := range []string{"a", "b"} {
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, script("1", "cd "+dir+"; echo >a; cat b"), script("2", "cd "+dir+"; cat a; echo >b"))
	h := newHarness(t, s)
	h.Parallel = 2
	h.start(t)
	s.result(t, "1")
	s.result(t, "2")
}

// Another run of a component waits for the one before to be dead.
func TestRunsOfOneComponentDoNotOverlap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := "cd " + dir + "; mkdir alone || exit 9; trap 'rmdir alone; exit 1' TERM; echo >>began; %s; rmdir alone"
	s := serve(t, script("run-1", fmt.Sprintf(config, "while :; do sleep 0.01; done"), job{"name": "db"}))
	h := newHarness(t, s)
	h.Parallel, h.killAfter = 2, time.Minute
	h.start(t)
	if !await(time.Minute, func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil }) {
		t.Fatal("it never began")
	}
	s.set(script("run-2", fmt.Sprintf(config, ":"), job{"name": "db"}))
	if r := s.result(t, "run-2"); fmt.Sprint(r[statusKey]) != "0" {
		t.Errorf("the second run says %v", r)
	}
	if slices.Contains(s.history(), "signalled run-1") {
		t.Errorf("the run that was superseded was signalled: %q", s.history())
	}
}

// What is not wanted any more is killed, and nothing is signalled.
func TestCancelledWhileItRuns(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, script("a", "echo begun >"+pipe+"; sleep 1000"))
	h := work(t, s)
	lines(t, pipe)
	s.set(script("b", ""))
	s.result(t, "b") // it has its turn when a is dead
	if slices.Contains(s.history(), "signalled a") {
		t.Errorf("heard %q", s.history())
	}
	s.set()
	awaitForgotten(t, s, h)
}

// awaitForgotten has the service say that there is nothing to do, until the agent has
// forgotten all.
func awaitForgotten(t *testing.T, s *service, h *harness) {
	t.Helper()
	var left []os.DirEntry
	if !await(time.Minute, func() bool {
		s.set()
		left, _ = os.ReadDir(filepath.Join(h.State, "tasks"))
		return len(left) == 0
	}) {
		t.Errorf("the journal still has %v", left)
	}
}

// What windsock answers to a signal decides whether it is said again.
func TestAnswersToSignals(t *testing.T) {
	t.Parallel()
	const ok = http.StatusOK
	for name, tc := range map[string]struct {
		started int   // the answer to that
		answers []int // to the results, one after the other
		runs    bool
		signals int
		last    func(r result) bool
	}{
		"taken":                             {ok, []int{ok}, true, 1, nil},
		"over before it began":              {409, nil, false, 0, nil},
		"unknown before it began":           {404, nil, false, 0, nil},
		"nobody cares that it began":        {500, []int{ok}, true, 1, nil},
		"over meanwhile":                    {ok, []int{409}, true, 1, nil},
		"unknown meanwhile":                 {ok, []int{404}, true, 1, nil},
		"gone meanwhile":                    {ok, []int{410}, true, 1, nil},
		"too busy first":                    {ok, []int{429, ok}, true, 2, nil},
		"broken first":                      {ok, []int{502, ok}, true, 2, nil},
		"a proxy that has lost its sense":   {ok, []int{403, ok}, true, 2, nil},
		"too large, and what it prints cut": {ok, []int{413, ok}, true, 2, func(r result) bool { return len(r[stdoutKey].(string)) < 70<<10 && r["big"] != nil }},
		"too large all the same":            {ok, []int{413, 413, ok}, true, 3, notTaken},
		"too large whatever it is":          {ok, []int{413, 413, 413}, true, 3, notTaken},
		"refused":                           {ok, []int{400, ok}, true, 2, notTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := filepath.Join(t.TempDir(), "ran")
			s := serve(t)
			var signals atomic.Int64
			var last atomic.Pointer[result]
			s.answer = func(id string, said result) int {
				switch {
				case id == "next":
					return ok
				case said["status"] == "started":
					return tc.started
				}
				last.Store(&said)
				return tc.answers[signals.Add(1)-1]
			}
			config := "echo ran >" + ran + "; head -c 1000000 /dev/zero | tr '\\0' x; printf 1 >$heat_outputs_path.big"
			s.set(script("a", config, job{"outputs": []job{{"name": "big"}}}), script("next", ""))
			h := work(t, s)
			s.result(t, "next")
			s.await(t, "all signals", func() bool { return signals.Load() == int64(tc.signals) })
			s.set() // what is over is not listed
			awaitForgotten(t, s, h)
			h.stop()
			if n := signals.Load(); n != int64(tc.signals) {
				t.Errorf("signalled %d times, want %d", n, tc.signals)
			}
			if runs := len(lines(t, ran)) == 1; runs != tc.runs {
				t.Errorf("ran: %v, want %v", runs, tc.runs)
			}
			if tc.last != nil && !tc.last(*last.Load()) {
				t.Errorf("the last signal is %.300v", *last.Load())
			}
		})
	}
}

// notTaken is a failure that says why.
func notTaken(r result) bool {
	return fmt.Sprint(r[statusKey]) == "1" && r["big"] == nil && len(r[stdoutKey].(string)) < 70<<10 &&
		strings.Contains(fmt.Sprint(r[reasonKey]), "its outputs were not taken: windsock answers 4")
}

// Of a component that nobody waits for it counts only that it began: it goes on when it
// is not listed any more, and signals no result.
func TestSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t)
	s.answer = func(id string, said result) int {
		if id == "quiet" {
			go s.set(script("next", ""))
		}
		return http.StatusOK
	}
	s.set(script("quiet", "cd "+dir+"; echo begun >>log; until test -e go; do sleep 0.01; done; echo done >>log",
		job{"inputs": []job{{"name": "deploy_signal_transport", "value": "NO_SIGNAL"}}}))
	h := newHarness(t, s)
	h.Parallel = 2
	h.start(t)
	s.result(t, "next") // so the list without it was heeded
	put(t, filepath.Join(dir, "go"), "", 0o600)
	awaitForgotten(t, s, h)
	if diff := cmp.Diff([]string{"begun", "done"}, lines(t, filepath.Join(dir, "log"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if slices.Contains(s.history(), "signalled quiet") {
		t.Errorf("heard %q", s.history())
	}
}

// At the end what runs has its grace; what does not use it is killed and left to the next
// agent.
func TestStops(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"what runs finishes": time.Minute, "what runs is killed": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := serve(t, script("a", "cd "+dir+"; echo begun >>log; until test -e go; do sleep 0.01; done; echo done >>log"), script("b", "echo 1"))
			h := newHarness(t, s)
			h.Grace = grace
			h.start(t)
			if !await(time.Minute, func() bool { return len(lines(t, filepath.Join(dir, "log"))) == 1 }) {
				t.Fatal("it never began")
			}
			h.cancel()
			if grace > 0 {
				put(t, filepath.Join(dir, "go"), "", 0o600)
			}
			h.stop()
			if signalled := slices.Contains(s.history(), "signalled a"); signalled != (grace > 0) {
				t.Errorf("signalled: %v", signalled)
			}
			if slices.Contains(s.history(), "started b") {
				t.Error("b was begun")
			}
			put(t, filepath.Join(dir, "go"), "", 0o600)
			h.start(t)
			s.result(t, "a")
			s.result(t, "b")
			want := []string{"begun", "done"}
			if grace == 0 {
				want = []string{"begun", "begun", "done"}
			}
			if diff := cmp.Diff(want, lines(t, filepath.Join(dir, "log"))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// While more results wait than the disk is to hold, nothing is begun.
func TestResultsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	tries := 0
	s.answer = func(id string, said result) int {
		if id == "a" && said["status"] == nil {
			if tries++; tries < 3 {
				return http.StatusServiceUnavailable
			}
		}
		return http.StatusOK
	}
	s.set(script("a", "echo much"), script("b", ""))
	h := newHarness(t, s)
	h.maxWaiting = 10
	h.start(t)
	s.result(t, "b")
	if diff := cmp.Diff([]string{"started a", "signalled a", "signalled a", "signalled a", "started b", "signalled b"}, s.history()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// One that nobody understands hides no other.
func TestBrokenComponentHidesNoOther(t *testing.T) {
	t.Parallel()
	s := serve(t, job{"id": "broken", "outputs": "none"}, script("a", ""))
	work(t, s)
	s.result(t, "a")
}

func TestOneAgentAtATime(t *testing.T) {
	t.Parallel()
	s := serve(t, script("a", ""))
	h := work(t, s)
	s.result(t, "a")
	if err := h.Run(t.Context()); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second one: got %v", err)
	}
}

// remote is a windsock without a network, for virtual time.
type remote func(r *http.Request) (status int, header http.Header, body string)

func (f remote) RoundTrip(r *http.Request) (*http.Response, error) {
	status, header, body := f(r)
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// far is an agent of it.
func far(t *testing.T, f remote) (*Agent, *bytes.Buffer) {
	log := new(bytes.Buffer)
	a := newAgent(&url.URL{Scheme: "http", Host: "windsock.example"}, t.TempDir(), slog.New(slog.NewTextHandler(log, nil)))
	a.Client = &http.Client{Transport: f}
	put(t, a.TokenFile, token, 0o600)
	return a, log
}

// A result is signalled for a day beyond its deadline, at a pace that hurts nobody.
func TestRetriesForHours(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header http.Header
		after  time.Duration // it is taken; 0: never
		tries  [2]int        // at least and at most
	}{
		"broken for five hours":       {503, nil, 5 * time.Hour, [2]int{240, 450}},
		"out of reach for five hours": {0, nil, 5 * time.Hour, [2]int{240, 450}},
		"asks for five minutes":       {429, http.Header{"Retry-After": {"300"}}, 5 * time.Hour, [2]int{61, 62}},
		"for ever":                    {503, nil, 0, [2]int{1200, 2300}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, tries := time.Now(), 0
				var ended time.Duration
				a, log := far(t, func(r *http.Request) (int, http.Header, string) {
					tries++
					ended = time.Since(begun)
					if tc.after > 0 && ended >= tc.after {
						return 200, nil, ""
					}
					return tc.status, tc.header, ""
				})
				j, err := openJournal(a.State, 0, a.Log)
				if err != nil {
					t.Fatal(err)
				}
				defer j.close()
				w := &worker{Agent: a, journal: j, stop: t.Context(), hard: t.Context()}
				e := entry{ID: "a", Phase: finished, SignalURL: "http://x/api/signal/wss_a", DeadlineAt: begun.Add(time.Hour), Result: []byte("{}")}
				w.deliver(&e, func() {})
				if tries < tc.tries[0] || tries > tc.tries[1] {
					t.Errorf("%d tries in %v, want %v", tries, ended, tc.tries)
				}
				if longest := max(tc.after, 25*time.Hour*time.Duration(1-min(tc.after, 1))) + 10*time.Minute; ended > longest {
					t.Errorf("it took %v", ended)
				}
				if p := j.phase("a"); p != settled {
					t.Errorf("it is %q", p)
				}
				if n := strings.Count(log.String(), "\n"); n > 2 {
					t.Errorf("%d lines in the log, want one for each change:\n%s", n, log)
				}
			})
		})
	}
}

// Whoever does not let us in, or says at once that there is nothing, is not asked all the
// time; a token that takes the place of another is used.
func TestAsksAtAPace(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(r *http.Request) (int, http.Header, string)
		most   int // requests in an hour
		lines  int // in the log
	}{
		"304 at once":             {func(*http.Request) (int, http.Header, string) { return 304, nil, "" }, 3601, 0},
		"200 without an ETag":     {func(*http.Request) (int, http.Header, string) { return 200, nil, "{}" }, 3601, 0},
		"401":                     {func(*http.Request) (int, http.Header, string) { return 401, nil, "" }, 90, 1},
		"no answer":               {func(*http.Request) (int, http.Header, string) { return 0, nil, "" }, 90, 1},
		"no JSON":                 {func(*http.Request) (int, http.Header, string) { return 200, nil, "<html>" }, 90, 1},
		"it is asked to wait 10m": {func(*http.Request) (int, http.Header, string) { return 503, http.Header{"Retry-After": {"600"}}, "" }, 7, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				a, log := far(t, func(r *http.Request) (int, http.Header, string) { asked++; return tc.answer(r) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := a.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if asked < 2 || asked > tc.most {
					t.Errorf("asked %d times in an hour, want at most %d", asked, tc.most)
				}
				if n := strings.Count(log.String(), "\n"); n != tc.lines || strings.Contains(log.String(), token) {
					t.Errorf("want %d lines in the log:\n%s", tc.lines, log)
				}
			})
		})
	}
	t.Run("another token", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var a *Agent
			a, log := far(t, func(r *http.Request) (int, http.Header, string) {
				if r.Header.Get("Authorization") == "Bearer wsi_another" {
					cancel()
					return 200, nil, "{}"
				}
				put(t, a.TokenFile, "wsi_another", 0o600)
				return 401, nil, ""
			})
			if err := a.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), "401") {
				t.Errorf("the log does not tell:\n%s", log)
			}
		})
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		want string // "": an error
	}{
		"with an end of line":     {"wsi_a\n", 0o600, "wsi_a"},
		"for reading alone":       {"wsi_a", 0o400, "wsi_a"},
		"the group may read it":   {"wsi_a", 0o640, ""},
		"everybody may read it":   {"wsi_a", 0o604, ""},
		"everybody may write it":  {"wsi_a", 0o602, ""},
		"there is none":           {"\n", 0o600, ""},
		"more than one":           {"wsi_a\nwsi_b", 0o600, ""},
		"that breaks the request": {"wsi_a\x01", 0o600, ""},
	} {
		path := filepath.Join(t.TempDir(), "token")
		put(t, path, tc.text, tc.mode)
		got, err := readToken(path)
		if got != tc.want || (err == nil) != (tc.want != "") || err != nil && strings.Contains(err.Error(), "wsi_") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

// A signal goes the way that the agent knows.
func TestSignalURL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mine, theirs, want string }{
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/api/signal/wss_a", "http://127.0.0.1:8080/api/signal/wss_a"},
		{"https://proxy.example/windsock/", "http://10.0.0.1:8080/api/signal/wss_a", "https://proxy.example/windsock/api/signal/wss_a"},
		{"http://10.0.0.1:8080", "https://proxy.example/windsock/api/signal/wss_a?x=1", "http://10.0.0.1:8080/api/signal/wss_a?x=1"},
		{"http://10.0.0.1", "https://proxy.example/elsewhere/wss%2Fa", "http://10.0.0.1/elsewhere/wss%2Fa"},
	} {
		mine, err := url.Parse(tc.mine)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (&Agent{URL: mine}).signalURL(tc.theirs); got != tc.want || err != nil {
			t.Errorf("%s of %s: got %s, %v, want %s", tc.theirs, tc.mine, got, err, tc.want)
		}
	}
}

// A deadline holds by the clock of windsock.
func TestDeadlineByItsClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		date time.Duration // from our time
		want time.Duration
	}{"as ours": {0, time.Hour}, "an hour ahead": {time.Hour, 0}, "a day behind": {-24 * time.Hour, 25 * time.Hour}} {
		header := http.Header{"Date": {now.Add(tc.date).UTC().Format(http.TimeFormat)}}
		if got := ours(now.Add(time.Hour), header).Sub(now); (got - tc.want).Abs() > 10*time.Second {
			t.Errorf("%s: got %v from now, want %v", name, got, tc.want)
		}
	}
}

// An entry that is damaged holds up no other, and what was half written is nothing.
func TestJournalDamaged(t *testing.T) {
	t.Parallel()
	state, log := t.TempDir(), slog.New(slog.DiscardHandler)
	j, err := openJournal(state, 0, log)
	if err != nil {
		t.Fatal(err)
	}
	want := entry{ID: "../a/b", Phase: finished, Result: json.RawMessage(`{"x":1}`)}
	if err := j.put(want); err != nil {
		t.Fatal(err)
	}
	j.close()
	put(t, filepath.Join(state, "tasks", fileName("b")), `{"id": "b", "pha`, 0o600)
	put(t, filepath.Join(state, "tasks", fileName("c")+temporary), `{"id": "c"`, 0o600)
	if j, err = openJournal(state, 0, log); err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if got, _ := j.in(finished); len(j.entries) != 1 || !cmp.Equal(got, []entry{want}, cmp.AllowUnexported(entry{})) {
		t.Errorf("got %v, want %v alone", j.entries, want)
	}
	if left, _ := os.ReadDir(filepath.Join(state, "tasks")); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may look: %v, %v", info.Mode(), err)
	}
}
