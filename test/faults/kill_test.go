package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"windsock/test/postgres"
	"windsock/test/program"
)

// A reporter posts changes of one instance, one after the other, and keeps a ledger.
type reporter struct {
	instance string
	k        int              // the next word
	acked    map[int64]string // seq of a change that was acknowledged, and its word
	state    string           // as last acknowledged
	doubt    string           // what a post that was not acknowledged would have made of it, if there was one
}

var states = map[string]string{"FAIL DETECTED": "failed", "START DETECTED": "running"}

// run posts until ctx ends or a post is not acknowledged.
func (r *reporter) run(ctx context.Context, t *testing.T, s server) {
	for ctx.Err() == nil {
		word := []string{"FAIL DETECTED", "START DETECTED"}[r.k%2]
		r.k++
		r.doubt = states[word]
		o, err := s.report(ctx, r.instance, word)
		if err != nil {
			return
		}
		r.state, r.doubt = states[word], ""
		if o.State != r.state {
			t.Errorf("%s: %s was acknowledged as %s", r.instance, word, o.State)
		}
		if o.Changed {
			r.acked[o.EventSeq] = word
		}
	}
}

// Killed at random moments while everybody posts, some of them while a callback is under
// way and some right after one was answered: what was acknowledged is there, the state is
// right, every callback that is due arrives, in order. What is told twice was told just
// before a kill.
func TestKilledWhilePosting(t *testing.T) {
	t.Parallel()
	kills := 200
	if testing.Short() {
		kills = 25
	}
	killedWhilePosting(t, filepath.Join(t.TempDir(), "w.db"), kills)
}

func TestKilledWhilePostingToPostgres(t *testing.T) {
	t.Parallel()
	killedWhilePosting(t, postgres.Schema(t), 10)
}

func killedWhilePosting(t *testing.T, db string, kills int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	monitor := receive(t)
	s := start(t, "127.0.0.1:0", db)
	addr := s.Addr
	reporters := make([]*reporter, 8)
	for i := range reporters {
		reporters[i] = &reporter{instance: fmt.Sprint("web-", i), acked: map[int64]string{}, state: "unknown"}
		s.declare(t, "shop", reporters[i].instance)
	}
	monitor.register(t, s)
	var killed []time.Time
	for round := range kills {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, r := range reporters {
			wg.Go(func() { r.run(ctx, t, s) })
		}
		kill := func() { s.Signal(os.Kill) }
		switch delay := time.After(time.Duration(random.IntN(250)) * time.Millisecond); random.IntN(3) {
		case 0:
			<-delay
		case 1:
			<-delay
			monitor.next(func(answer func()) { kill(); answer() })
		case 2:
			<-delay
			monitor.next(func(answer func()) { answer(); kill() })
		}
		s.Kill()
		killed = append(killed, time.Now())
		cancel()
		wg.Wait()
		s = start(t, addr, db)
		for _, r := range reporters {
			var i struct {
				State string `json:"observed_state"`
			}
			s.Must(t, "GET", "/api/instances/"+r.instance, nil, &i, 200)
			if i.State != r.state && (r.doubt == "" || i.State != r.doubt) {
				t.Errorf("after kill %d: %s is %s, acknowledged was %s and in doubt %q", round, r.instance, i.State, r.state, r.doubt)
			}
			r.state = i.State
		}
		if t.Failed() {
			break
		}
	}
	due := 0
	for _, r := range reporters {
		due += len(r.acked)
	}
	program.Eventually(t, "every acknowledged change is told", func() bool { return missing(reporters, monitor) == 0 })
	program.Eventually(t, "the monitor has no backlog", func() bool {
		var list struct {
			Monitors []struct {
				Delivery struct{ Backlog int }
			}
		}
		s.Must(t, "GET", "/api/monitors/list", nil, &list, 200)
		return len(list.Monitors) == 1 && list.Monitors[0].Delivery.Backlog == 0
	})
	order(t, monitor)
	told := len(monitor.all())
	twice, oldest := repeated(t, monitor, killed)
	t.Logf("%d kills, %d acknowledged changes, %d callbacks, %d of them told before, the oldest %s before the kill", len(killed), due, told, twice, oldest)
	if due < kills {
		t.Errorf("only %d changes were acknowledged", due)
	}

	// A restart by itself tells nothing.
	for range 3 {
		s.Interrupt()
		s = start(t, addr, db)
	}
	word := "FAIL DETECTED"
	if reporters[0].state == "failed" {
		word = "START DETECTED"
	}
	if out, err := s.report(t.Context(), "web-0", word); err != nil || !out.Changed {
		t.Fatalf("after the restarts: %+v %v", out, err)
	}
	program.Eventually(t, "the change after the restarts is told", func() bool { return len(monitor.all()) > told })
	if n := len(monitor.all()); n != told+1 {
		t.Errorf("three restarts and one change made %d callbacks: %v", n-told, monitor.all()[told:])
	}
}

// repeatable is how long before a kill a callback may have been answered that is told
// again: cursors are saved every 50 ms, and on a busy machine a save takes its time. One
// that was under way may reach us as late as late after the kill.
const (
	repeatable = 2 * time.Second
	late       = 500 * time.Millisecond
)

// repeated counts the callbacks that had been told before, and returns how long before
// the next kill the oldest of them was. It fails the test when that is too long, or when
// there was no kill in between.
func repeated(t *testing.T, monitor *receiver, killed []time.Time) (n int, oldest time.Duration) {
	t.Helper()
	first := map[int64]time.Time{}
	for _, c := range monitor.all() {
		before, again := first[c.Seq]
		first[c.Seq] = c.at
		if !again {
			continue
		}
		n++
		next := slices.IndexFunc(killed, func(k time.Time) bool { return k.After(before.Add(-late)) })
		if next < 0 || killed[next].After(c.at) {
			t.Errorf("%d of %s was told twice without a kill", c.Seq, c.subject())
			continue
		}
		if age := killed[next].Sub(before); age > repeatable {
			t.Errorf("%d of %s was told again though it had been taken %s before the kill", c.Seq, c.subject(), age)
		} else {
			oldest = max(oldest, age)
		}
	}
	return n, oldest
}

// missing counts the acknowledged changes that the monitor was not told.
func missing(reporters []*reporter, monitor *receiver) (n int) {
	words := map[int64]string{}
	for _, c := range monitor.all() {
		words[c.Seq] = c.State
	}
	for _, r := range reporters {
		for seq, word := range r.acked {
			if words[seq] != word {
				n++
			}
		}
	}
	return n
}

// order fails the test if a subject was told something new that is older than what it
// had been told before. To be told again is allowed.
func order(t *testing.T, monitor *receiver) {
	t.Helper()
	seen, newest := map[int64]bool{}, map[string]int64{}
	for _, c := range monitor.all() {
		if !seen[c.Seq] && c.Seq < newest[c.subject()] {
			t.Errorf("%s: %d told after %d", c.subject(), c.Seq, newest[c.subject()])
		}
		seen[c.Seq] = true
		newest[c.subject()] = max(newest[c.subject()], c.Seq)
	}
}
