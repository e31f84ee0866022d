package agent

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A process is an agent that can be killed.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (h *harness) fork(t *testing.T) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "AGENT_STATE="+h.dir, "AGENT_URL="+h.URL.String())
	p.cmd.Stderr = h.log
	p.cmd.WaitDelay = time.Millisecond // what it leaves behind may hold on to that
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

// killed is a script that ends the agent that runs it where the file "kill" says so, and
// in the middle of it leaves a child behind.
const killed = `cd DIR; echo NAME >>begun
at=$(cat kill) && rm kill
test "$at" != begun || { sleep 1000 & kill -9 $AGENT_PID; wait; }
echo NAME >>effects
case $at in
done) kill -9 $AGENT_PID;;
after*) (sleep ${at#after}; kill -9 $AGENT_PID) >/dev/null 2>&1 & ;;
esac
`

// Killed at every step, some of them again and again: each component has its effect, its
// result is taken, and it does not run any more once it was signalled.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	n := 24
	if testing.Short() {
		n = 8
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := serve(t)
	h := newHarness(t, s)

	var mu sync.Mutex // for what follows
	var agent *process
	at := ""                      // of the signals: when it is to be killed
	var delay time.Duration       // after the answer
	atSignal := map[string]int{}  // how often it had begun when the first result came
	resigned := map[string]bool{} // its result was taken already
	s.answer = func(id string, said result) int {
		mu.Lock()
		defer mu.Unlock()
		step := "started"
		if said["status"] == nil {
			step = "result"
			if _, again := atSignal[id]; !again {
				atSignal[id] = count(t, h, "begun", id)
			}
		}
		status := http.StatusOK
		if resigned[id] {
			status = http.StatusConflict
		}
		if at == step+" comes" {
			at = ""
			agent.cmd.Process.Kill()
			<-agent.ended
			return http.StatusServiceUnavailable // nobody hears it
		}
		resigned[id] = resigned[id] || step == "result"
		if at == step+" is answered" {
			at = ""
			victim := agent.cmd.Process
			time.AfterFunc(delay, func() { victim.Kill() })
		}
		return status
	}
	var jobs []job
	for i := range n {
		id := fmt.Sprint("task-", i)
		jobs = append(jobs, script(id, strings.NewReplacer("DIR", h.dir, "NAME", id).Replace(killed)))
	}
	s.set(jobs...)
	all := func() bool { return len(s.took) == n }
	kills := map[string]int{}
	for done := false; !done; {
		steps := []string{"started comes", "started is answered", "begun", "done", "after", "result comes", "result is answered", ""}
		step := steps[random.IntN(len(steps))]
		mu.Lock()
		delay = time.Duration(random.IntN(1000)) * time.Microsecond
		switch step {
		case "after":
			put(t, filepath.Join(h.dir, "kill"), fmt.Sprintf("after0.%03d", random.IntN(20)), 0o600)
		case "begun", "done":
			put(t, filepath.Join(h.dir, "kill"), step, 0o600)
		default:
			os.Remove(filepath.Join(h.dir, "kill"))
			at = step
		}
		agent = h.fork(t)
		mu.Unlock()
		kills[step]++
		if step == "" { // until one more is done, and then at any moment
			s.mu.Lock()
			before := len(s.took)
			s.mu.Unlock()
			s.await(t, "one more", func() bool { return len(s.took) > before || all() })
			agent.cmd.Process.Kill()
		}
		for ended := false; !ended; { // it ends because of us, or has nothing more to do
			s.mu.Lock()
			done = all()
			changed := s.changed
			s.mu.Unlock()
			if done {
				agent.cmd.Process.Kill()
				changed = nil
			}
			select {
			case <-agent.ended:
				ended = true
			case <-changed:
			case <-time.After(time.Minute):
				t.Fatalf("killed at %q: nothing moves; heard %q, log:\n%s", step, s.history(), h.log)
			}
		}
		mu.Lock()
		at = ""
		mu.Unlock()
	}
	t.Logf("killed: %v", kills)
	h.start(t) // the last one is not killed
	s.set(script("last", ""))
	s.result(t, "last")
	awaitForgotten(t, s, h)
	for _, j := range jobs {
		id := j["id"].(string)
		if effects := count(t, h, "effects", id); effects == 0 {
			t.Errorf("%s had no effect", id)
		}
		if runs := count(t, h, "begun", id); runs != atSignal[id] {
			t.Errorf("%s had run %d times when it was signalled, and %d times at the end", id, atSignal[id], runs)
		}
		if r := s.result(t, id); fmt.Sprint(r[statusKey]) != "0" {
			t.Errorf("%s ended as %v", id, r)
		}
		if left := orphans(id); len(left) > 0 {
			t.Errorf("%s: %v are left of a run that was interrupted", id, left)
		}
	}
}

// count says how often the script has written so.
func count(t *testing.T, h *harness, file, id string) int {
	n := 0
	for _, line := range lines(t, filepath.Join(h.dir, file)) {
		if line == id {
			n++
		}
	}
	return n
}

// A component may wish not to be run again when it was interrupted. That is told by the
// next agent before it does anything else.
func TestInterruptedIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t)
	h := newHarness(t, s)
	config := strings.NewReplacer("DIR", h.dir, "NAME", "once").Replace(killed)
	s.set(script("once", config, job{"options": job{"on_interrupt": "report"}}), script("next", ""))
	put(t, filepath.Join(h.dir, "kill"), "begun", 0o600)
	<-h.fork(t).ended
	h.start(t)
	r := s.result(t, "once")
	if fmt.Sprint(r[statusKey]) == "0" || !strings.Contains(fmt.Sprint(r[reasonKey]), "it was interrupted") {
		t.Errorf("got %v", r)
	}
	s.result(t, "next")
	if n := count(t, h, "begun", "once"); n != 1 || slices.Index(s.history(), "signalled once") > slices.Index(s.history(), "started next") {
		t.Errorf("it began %d times; heard %q", n, s.history())
	}
	if left := orphans("once"); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
}

// One that nobody lists again, as it began, is kept by the agent until it has run.
func TestInterruptedSilent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	h := newHarness(t, s)
	config := strings.NewReplacer("DIR", h.dir, "NAME", "quiet").Replace(killed)
	s.set(script("quiet", config, job{"signal_url": ""}))
	put(t, filepath.Join(h.dir, "kill"), "begun", 0o600)
	<-h.fork(t).ended
	s.set(script("next", ""))
	h.start(t)
	s.result(t, "next")
	if begun, effects := count(t, h, "begun", "quiet"), count(t, h, "effects", "quiet"); begun != 2 || effects != 1 {
		t.Errorf("it began %d times and had %d effects", begun, effects)
	}
}
