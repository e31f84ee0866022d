package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const kills = 25

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
func (r *reporter) run(ctx context.Context, t *testing.T, s *server) {
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

// Killed at random moments while everybody posts: what was acknowledged is there, the
// state is right, every callback that is due arrives, in order.
func TestKilledWhilePosting(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	db := filepath.Join(t.TempDir(), "w.db")
	monitor := receive(t)
	s := start(t, "127.0.0.1:0", db)
	addr := s.addr
	reporters := make([]*reporter, 8)
	for i := range reporters {
		reporters[i] = &reporter{instance: fmt.Sprint("web-", i), acked: map[int64]string{}, state: "unknown"}
		s.declare(t, "shop", reporters[i].instance)
	}
	monitor.register(t, s)
	for round := range kills {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, r := range reporters {
			wg.Go(func() { r.run(ctx, t, s) })
		}
		select {
		case <-time.After(time.Duration(random.IntN(250)) * time.Millisecond):
		case <-t.Context().Done():
		}
		s.kill()
		cancel()
		wg.Wait()
		s = start(t, addr, db)
		for _, r := range reporters {
			var i struct {
				State string `json:"observed_state"`
			}
			s.must(t, "GET", "/api/instances/"+r.instance, nil, &i, 200)
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
	eventually(t, "every acknowledged change is told", func() bool { return missing(reporters, monitor) == 0 })
	eventually(t, "the monitor has no backlog", func() bool {
		var list struct {
			Monitors []struct {
				Delivery struct{ Backlog int }
			}
		}
		s.must(t, "GET", "/api/monitors/list", nil, &list, 200)
		return len(list.Monitors) == 1 && list.Monitors[0].Delivery.Backlog == 0
	})
	order(t, monitor)
	told := len(monitor.all())
	t.Logf("%d kills, %d acknowledged changes, %d callbacks", kills, due, told)
	if due < kills {
		t.Errorf("only %d changes were acknowledged", due)
	}

	// A restart by itself tells nothing.
	for range 3 {
		s.interrupt()
		s = start(t, addr, db)
	}
	if out, err := s.report(t.Context(), "web-0", map[string]string{"failed": "START DETECTED"}[reporters[0].state]+map[string]string{"running": "FAIL DETECTED", "unknown": "FAIL DETECTED"}[reporters[0].state]); err != nil || !out.Changed {
		t.Fatalf("after the restarts: %+v %v", out, err)
	}
	eventually(t, "the change after the restarts is told", func() bool { return len(monitor.all()) > told })
	if n := len(monitor.all()); n != told+1 {
		t.Errorf("three restarts and one change made %d callbacks: %v", n-told, monitor.all()[told:])
	}
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
