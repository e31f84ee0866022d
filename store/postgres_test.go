package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"windsock"
	"windsock/test/postgres"
)

var orderEvents = flag.Int("order-events", 20_000, "events that TestSeqIsInTheOrderOfTheCommits writes, about")

// quiet opens a store that logs nothing.
func quiet(t *testing.T, db string) *Store {
	t.Helper()
	s, err := Open(t.Context(), db, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// with adds parameters to a URL that has some.
func with(db string, params ...string) string { return db + "&" + strings.Join(params, "&") }

// alternate is the k-th of the states that a test has an instance be in, each another one.
func alternate(k int) windsock.State {
	return []windsock.State{windsock.Failed, windsock.Running}[k%2]
}

// Sixteen write, in four processes; who follows the log by its seq in a fifth one steps
// over none. A record says from one thing to a thousandth of all there is to be said, most
// of them little: so a million events, by hand, take minutes, and still thousands of commits.
func TestSeqIsInTheOrderOfTheCommits(t *testing.T) {
	const writers, processes = 16, 4
	sizes := bits.Len(uint(*orderEvents / 1000))
	db, seed := postgres.Schema(t), rand.Uint64()
	t.Logf("seed %d", seed)
	var stores []*Store
	for range processes {
		stores = append(stores, quiet(t, db))
	}
	var deployments []windsock.DeploymentSpec
	var instances []windsock.InstanceSpec
	for w := range writers {
		deployments = append(deployments, windsock.DeploymentSpec{ID: fmt.Sprintf("d%d", w), Flap: "off"})
		for m := range 1 << sizes {
			instances = append(instances, windsock.InstanceSpec{ID: fmt.Sprintf("i%d-%d", w, m), DeploymentID: deployments[w].ID})
		}
	}
	if err := stores[0].Declare(t.Context(), deployments, instances); err != nil {
		t.Fatal(err)
	}
	from := stores[0].Head()
	var told, records atomic.Int64
	ctx, done := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for k := 0; told.Load() < int64(*orderEvents); k++ {
				var obs []windsock.Observation
				for m := range 1 + r.IntN(1<<r.IntN(sizes+1)) {
					obs = append(obs, instanceSaid(fmt.Sprintf("i%d-%d", w, m), "a", alternate(k)))
				}
				out, err := stores[w%processes].Record(t.Context(), obs)
				if err != nil {
					t.Error(err)
					return
				}
				records.Add(1)
				for _, o := range out {
					if o.Changed {
						told.Add(1)
					}
				}
			}
		})
	}
	reader := quiet(t, db)
	wg.Go(func() { reader.watch(ctx) })
	read, changes := from, int64(0)
	follow := func() {
		for {
			events, err := reader.Events(t.Context(), read, 1000, windsock.EventFilter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Seq != read+1 {
					t.Fatalf("seq %d after %d", e.Seq, read)
				}
				read = e.Seq
				if e.Type == windsock.InstanceState {
					changes++
				}
			}
			if len(events) < 1000 {
				return
			}
		}
	}
	for told.Load() < int64(*orderEvents) && !t.Failed() {
		if err := reader.Wait(t.Context(), read); err != nil {
			t.Fatal(err)
		}
		follow()
	}
	done()
	wg.Wait()
	follow()
	if changes != told.Load() {
		t.Errorf("%d changes were acknowledged, %d read", told.Load(), changes)
	}
	t.Logf("%d events of %d records", read-from, records.Load())
}

// What one process commits another hears of without looking.
func TestNewsOfAnotherProcess(t *testing.T) {
	db := postgres.Schema(t)
	a, b := quiet(t, db), quiet(t, db)
	declare(t, a, "shop", "web-1")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.watch(ctx) })
	for k := range 20 {
		began := time.Now()
		seq := record(t, a, instanceSaid("web-1", "a", alternate(k)))[0].EventSeq
		if err := b.Wait(t.Context(), seq-1); err != nil {
			t.Fatal(err)
		}
		t.Logf("heard of %d after %s", seq, time.Since(began))
	}
	cancel()
	wg.Wait()
}

// The server crashes and comes back while all write: what is acknowledged is kept, what is
// not is not, and nobody has to start windsock anew.
func TestTheServerIsRestarted(t *testing.T) {
	server := postgres.Start(t)
	s := quiet(t, server.URL())
	const writers = 8
	for w := range writers {
		declare(t, s, fmt.Sprintf("d%d", w), fmt.Sprintf("i%d", w))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hearing sync.WaitGroup
	hearing.Go(func() { s.watch(ctx) })
	var acknowledged, refused, unsure atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			state := windsock.Failed
			for {
				select {
				case <-stop:
					return
				default:
				}
				out, err := s.Record(t.Context(), []windsock.Observation{instanceSaid(fmt.Sprintf("i%d", w), "a", state)})
				switch {
				case errors.Is(err, errUnsure):
					unsure.Add(1)
				case errors.Is(err, windsock.ErrUnavailable):
					refused.Add(1)
					continue // and so the state is as it was
				case err != nil || !out[0].Changed:
					t.Errorf("writer %d: %+v %v", w, out, err)
					return
				default:
					acknowledged.Add(1)
				}
				state = map[windsock.State]windsock.State{windsock.Running: windsock.Failed, windsock.Failed: windsock.Running}[state]
			}
		})
	}
	for range 5 {
		for n := acknowledged.Load(); acknowledged.Load() < n+200 && !t.Failed(); {
			if err := s.Wait(t.Context(), s.Head()); err != nil {
				t.Fatal(err)
			}
		}
		server.Stop()
		server.Start(t)
	}
	for n := acknowledged.Load(); acknowledged.Load() < n+200 && !t.Failed(); {
		if err := s.Wait(t.Context(), s.Head()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	kept := int64(0)
	for after := int64(0); ; {
		events := must[[]windsock.Event](t)(s.Events(t.Context(), after, 1000, windsock.EventFilter{}))
		for _, e := range events {
			if e.Type == windsock.InstanceState {
				kept++
			}
			after = e.Seq
		}
		if len(events) == 0 {
			break
		}
	}
	if n := acknowledged.Load(); kept < n || kept > n+unsure.Load() {
		t.Errorf("%d acknowledged, %d unsure, %d kept", n, unsure.Load(), kept)
	}
	t.Logf("%d acknowledged, %d refused, %d unsure", acknowledged.Load(), refused.Load(), unsure.Load())
	other := quiet(t, server.URL())
	declare(t, other, "later", "late")
	seq := record(t, other, instanceSaid("late", "a", windsock.Running))[0].EventSeq
	if seq == 0 {
		t.Fatal("it changed nothing")
	}
	if err := s.Wait(t.Context(), seq-1); err != nil { // it listens again
		t.Error(err)
	}
	cancel()
	hearing.Wait()
}

// begun is a transaction that has written something.
func begun(t *testing.T, s *Store) *tx {
	t.Helper()
	x, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.end)
	x.at(&op{now: s.now()})
	x.log(&windsock.Event{Type: windsock.MonitorAdded, Kind: windsock.KindMonitor, SubjectID: "m"})
	x.exec(`UPDATE log SET head = ?`, x.head)
	if err := x.send(); err != nil {
		t.Fatal(err)
	}
	return x
}

// Of a commit whose connection breaks the server says whether it was made.
func TestACommitWhoseConnectionBreaks(t *testing.T) {
	s := quiet(t, postgres.Schema(t))
	declare(t, s, "shop", "web-1")
	for _, made := range []bool{true, false} {
		x := begun(t, s)
		end := x.sql.Rollback
		if made {
			end = x.commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		x.end()
		lost := errors.New("connection reset by peer")
		if err := x.outcome(lost); (err == nil) != made || !made && !errors.Is(err, lost) || errors.Is(err, errUnsure) {
			t.Errorf("committed %v: %v", made, err)
		}
	}
}

// Who is refused as the connection broke before his turn is told that he may try again.
func TestAConnectionThatBreaksBeforeOnesTurn(t *testing.T) {
	s := quiet(t, postgres.Schema(t))
	x := begun(t, s)
	var pid int
	x.get(&pid, `SELECT pg_backend_pid()`)
	if err := s.read.Get(new(bool), `SELECT pg_terminate_backend(?)`, pid); err != nil {
		t.Fatal(err)
	}
	x.get(&pid, `SELECT 1`)
	if err := x.admit(&op{ctx: t.Context()}); x.err == nil || !errors.Is(err, windsock.ErrUnavailable) {
		t.Errorf("with %v he is told %v", x.err, err)
	}
}

// A process that was suspended in a transaction holds up the others no longer than it may,
// and cannot commit when it wakes up.
func TestASuspendedWriterHoldsUpNobody(t *testing.T) {
	db := postgres.Schema(t)
	a, b := quiet(t, with(db, "idle_in_transaction_session_timeout=200ms")), quiet(t, db)
	declare(t, a, "shop", "web-1")
	x := begun(t, a)
	record(t, b, instanceSaid("web-1", "a", windsock.Failed))
	if err := x.commit(); err == nil || errors.Is(err, errUnsure) {
		t.Errorf("the suspended one committed: %v", err)
	}
	x.end()
	record(t, a, instanceSaid("web-1", "a", windsock.Running)) // on another connection
}

func TestAStatementTakesNoLongerThanItMay(t *testing.T) {
	db := postgres.Schema(t)
	a, b := quiet(t, db), quiet(t, with(db, "statement_timeout=100ms"))
	declare(t, a, "shop", "web-1")
	x := begun(t, a)
	_, err := b.Record(t.Context(), []windsock.Observation{instanceSaid("web-1", "a", windsock.Failed)})
	if !errors.Is(err, windsock.ErrUnavailable) {
		t.Errorf("while another writes: %v", err)
	}
	if err := b.Ping(t.Context()); err == nil {
		t.Error("it is said to be ready")
	}
	x.end()
	record(t, b, instanceSaid("web-1", "a", windsock.Running))
}

func TestSeveralProcessesStartAtOnce(t *testing.T) {
	db := postgres.Schema(t)
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() { ids[i] = quiet(t, db).LogID() })
	}
	wg.Wait()
	if slices.Sort(ids); ids[0] == "" || len(slices.Compact(ids)) != 1 {
		t.Errorf("the logs are %q", ids)
	}
}

// A process that starts beside others puts no deadline off: they could have been met.
func TestOneThatJoinsPutsNothingOff(t *testing.T) {
	db, c := postgres.Schema(t), &clock{now: noon}
	a := open(t, db, c)
	defer a.Close()
	declare(t, a, "shop", "web-1")
	o := instanceSaid("web-1", "a", windsock.Running)
	o.TTL = 10 * time.Minute
	record(t, a, o)
	c.advance(9 * time.Minute)
	b := open(t, db, c)
	defer b.Close()
	c.advance(2 * time.Minute)
	if err := a.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i := must[windsock.Instance](t)(a.Instance(t.Context(), "web-1")); i.State != windsock.Unknown {
		t.Errorf("after its promise ran out it is %s", i.State)
	}
}

// PostgreSQL has texts that are texts.
func TestWhatIsNoText(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		o := instanceSaid("web-1", "a", windsock.Failed)
		o.Reason = "a\x00b\xffc"
		if out := record(t, s, o, instanceSaid("web\x00", "a", windsock.Failed), instanceSaid("web\xff", "a", windsock.Failed)); !out[0].Changed || !errors.Is(out[1].Err, windsock.ErrNotFound) || !errors.Is(out[2].Err, windsock.ErrNotFound) {
			t.Errorf("%+v", out)
		}
		for _, id := range []string{"web\x00", "web\xff"} {
			if _, err := s.Instance(t.Context(), id); !errors.Is(err, windsock.ErrNotFound) {
				t.Errorf("Instance(%q): %v", id, err)
			}
		}
	})
}

func TestTheServersConnectionsHaveTheirOptions(t *testing.T) {
	s := quiet(t, postgres.Schema(t))
	for option, want := range map[string][2]string{
		"statement_timeout":                   {"10s", "30s"},
		"idle_in_transaction_session_timeout": {"10s", "10s"},
		"default_transaction_read_only":       {"off", "on"},
		"default_transaction_isolation":       {"read committed", "repeatable read"},
		"synchronous_commit":                  {"on", "on"},
	} {
		var w, r string
		if err := errors.Join(s.write.Get(&w, "SHOW "+option), s.read.Get(&r, "SHOW "+option)); err != nil || w != want[0] || r != want[1] {
			t.Errorf("%s is %s where we write and %s where we read (%v), want %v", option, w, r, err, want)
		}
	}
}

func TestAPasswordIsNotShown(t *testing.T) {
	const url = "postgres://me:hush@127.0.0.1:1/db?password=hush&sslpassword=hush"
	_, err := Open(t.Context(), url, Options{})
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "127.0.0.1:1/db") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Open(t.Context(), "postgres://me:hush@[/db", Options{}); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("the error is %v", err)
	}
}

// Rows that are written twice in one transaction are as they were written last, however
// the server joins what it is to write.
func TestWhatIsWrittenTwiceIsAsItWasLast(t *testing.T) {
	for _, off := range []string{"enable_hashjoin=off", "enable_nestloop=off"} {
		s := quiet(t, with(postgres.Schema(t), off, "enable_mergejoin=off"))
		ids := []string{"web-1", "web-2", "web-3"}
		declare(t, s, "shop", ids...)
		err := s.do(t.Context(), func(t *tx) error {
			w := t.work()
			w.loadInstances(ids)
			for n := range 10 {
				for _, i := range w.instances {
					i.Reason, i.changed = fmt.Sprint(n), true
				}
				w.flush()
			}
			return w.err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if i := must[windsock.Instance](t)(s.Instance(t.Context(), id)); i.Reason != "9" {
				t.Errorf("%s: %s has %q, want 9", off, id, i.Reason)
			}
		}
	}
}
