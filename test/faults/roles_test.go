package faults

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"windsock/test/program"
)

// with starts a windsock with some roles.
func with(t *testing.T, db, roles string) server {
	t.Helper()
	return start(t, "127.0.0.1:0", db, "--roles", roles)
}

// holder returns the address of the process that holds the lease of a unit, or "".
func (s server) holder(t *testing.T, unit string) string {
	t.Helper()
	var list struct {
		Replicas []struct {
			Address string
			Holds   []struct{ Unit string }
		}
	}
	s.Must(t, "GET", "/api/replicas", nil, &list, 200)
	for _, r := range list.Replicas {
		for _, h := range r.Holds {
			if h.Unit == unit {
				return r.Address
			}
		}
	}
	return ""
}

// metric returns the value of a series, which is 0 when it is not shown.
func (s server) metric(t *testing.T, series string) (v float64) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			fmt.Sscan(text, &v)
		}
	}
	return v
}

const taken = `windsock_deliveries_total{result="success"}`

// Three processes, each with one role, do together what one does: a probe fails and a
// monitor hears of it; the API has others look and call.
func TestARoleForEachProcess(t *testing.T) { each(t, aRoleForEachProcess) }

func aRoleForEachProcess(t *testing.T, db string) {
	t.Parallel()
	api := with(t, db, "api")
	monitor := receive(t)
	monitor.register(t, api)

	api.declare(t, "shop", "web-1")
	for path, kind := range map[string]string{"/api/instances/web-1/check": "no-observer", "/api/monitors/" + api.monitor(t) + "/ping": "no-deliverer"} {
		var problem struct{ Type string }
		if status, err := api.Call(t.Context(), "POST", path, nil, &problem); status != 503 || !strings.Contains(fmt.Sprint(err), "/problems/"+kind) {
			t.Errorf("%s while nobody does: %d %v, want %s", path, status, err, kind)
		}
	}
	observer, deliverer := with(t, db, "observer"), with(t, db, "deliverer")
	if status, _ := observer.Call(t.Context(), "GET", "/api/instances", nil, nil); status != 503 {
		t.Errorf("a process without the role api answers %d", status)
	}

	service, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api.Must(t, "PUT", "/api/instances/web-1", m{"deployment_id": "shop", "probe": m{"type": "tcp", "target": service.Addr().String(), "interval": "1s", "fails": 1, "passes": 1}}, nil, 200)
	told := func(state string) bool {
		return slices.ContainsFunc(monitor.all(), func(c callback) bool { return c.InstanceID == "web-1" && c.State == state })
	}
	program.Eventually(t, "it is told that the service runs", func() bool { return told("START DETECTED") })
	var seen struct {
		Seen     string `json:"seen_state"`
		Observed string `json:"observed_state"`
	}
	api.Must(t, "POST", "/api/instances/web-1/check", nil, &seen, 200)
	if seen.Seen != "running" || seen.Observed != "running" {
		t.Errorf("the check shows %+v", seen)
	}
	api.Must(t, "PATCH", "/api/instances/web-1", m{"probe": m{"type": "tcp", "target": service.Addr().String(), "interval": "1h", "fails": 1, "passes": 1}}, nil, 200)
	service.Close()
	program.Eventually(t, "a check of the deployment sees that it does not", func() bool {
		var all struct {
			Instances []struct {
				Seen string `json:"seen_state"`
			}
		}
		api.Must(t, "POST", "/api/deployments/shop/check", nil, &all, 200)
		return len(all.Instances) == 1 && all.Instances[0].Seen == "failed"
	})
	program.Eventually(t, "that is told", func() bool { return told("FAIL DETECTED") })

	api.Must(t, "POST", "/api/monitors/"+api.monitor(t)+"/ping", nil, nil, 200)
	for unit, s := range map[string]server{"observer": observer, "deliverer": deliverer} {
		if at := api.holder(t, unit); at != s.Addr {
			t.Errorf("%s is held by %q, want %q", unit, at, s.Addr)
		}
		s.Must(t, "GET", "/readyz", nil, nil, 200)
	}
	if n := deliverer.metric(t, taken); n < 2 {
		t.Errorf("the deliverer counts %v callbacks", n)
	}
	if n := observer.metric(t, "windsock_probes"); n != 1 {
		t.Errorf("the observer counts %v probes", n)
	}

	// How long it takes from a post at one process to the callback by another.
	api.declare(t, "shop", "web-2")
	var took []time.Duration
	for k := range 21 {
		n, begun := len(monitor.all()), time.Now()
		if _, err := api.report(t.Context(), "web-2", []string{"START DETECTED", "FAIL DETECTED"}[k%2]); err != nil {
			t.Fatal(err)
		}
		for deadline := time.After(time.Minute); len(monitor.all()) == n; {
			select {
			case <-deadline:
				t.Fatal("a post was not told within a minute")
			case <-time.After(time.Millisecond):
			}
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("from the post to the callback: median %s, longest %s", took[len(took)/2], took[len(took)-1])
}

// monitor returns the id of the only one.
func (s server) monitor(t *testing.T) string {
	t.Helper()
	var list struct {
		Monitors []struct {
			ID string `json:"monitor_id"`
		}
	}
	s.Must(t, "GET", "/api/monitors/list", nil, &list, 200)
	if len(list.Monitors) != 1 {
		t.Fatalf("%d monitors", len(list.Monitors))
	}
	return list.Monitors[0].ID
}

// posting has eight instances change all the time until stop, which waits for all that was
// acknowledged to be told, and in order.
func posting(t *testing.T, api server, monitor *receiver) (reporters []*reporter, stop func()) {
	reporters = make([]*reporter, 8)
	for i := range reporters {
		reporters[i] = &reporter{instance: fmt.Sprint("web-", i), acked: map[int64]string{}, state: "unknown"}
		api.declare(t, "shop", reporters[i].instance)
	}
	monitor.register(t, api)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, r := range reporters {
		wg.Go(func() { r.run(ctx, t, api) })
	}
	return reporters, func() {
		cancel()
		wg.Wait()
		program.Eventually(t, "every acknowledged change is told", func() bool { return missing(reporters, monitor) == 0 })
		order(t, monitor)
	}
}

// One who calls back is killed or asked to stop while everybody posts, and another one
// takes over, again and again: nothing is lost, the order holds, and what is told twice
// was told just before.
func TestTheNextDelivererTakesOver(t *testing.T) { each(t, theNextDelivererTakesOver) }

func theNextDelivererTakesOver(t *testing.T, db string) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	turns := 20
	if testing.Short() {
		turns = 4
	}
	api, monitor := with(t, db, "api"), receive(t)
	now := with(t, db, "deliverer")
	_, stop := posting(t, api, monitor)
	var ended []time.Time
	waits := map[bool][]time.Duration{}
	for range turns {
		next := with(t, db, "deliverer")
		told := len(monitor.all())
		program.Eventually(t, "callbacks go on", func() bool { return len(monitor.all()) > told+20 })
		kill := random.IntN(2) == 0
		if kill {
			now.Kill()
		} else {
			now.Interrupt()
		}
		ended = append(ended, time.Now())
		program.Eventually(t, "the next one calls back", func() bool { return next.metric(t, taken) > 0 })
		waits[kill] = append(waits[kill], time.Since(ended[len(ended)-1]))
		now = next
	}
	stop()
	twice, oldest := repeated(t, monitor, ended)
	for _, w := range waits {
		slices.Sort(w)
	}
	t.Logf("%d callbacks, %d of them told before, the oldest %s before the end; the next took over %v after a kill, %v after a stop", len(monitor.all()), twice, oldest, waits[true], waits[false])
}

// One who calls back, observes and keeps the clock is suspended for longer than its leases
// last, and another takes over. When the first wakes up it neither calls back nor commits
// what is the other's.
func TestASuspendedHolderWakesUp(t *testing.T) { each(t, aSuspendedHolderWakesUp) }

func aSuspendedHolderWakesUp(t *testing.T, db string) {
	t.Parallel()
	first := start(t, "127.0.0.1:0", db)
	second := start(t, "127.0.0.1:0", db)
	monitor := receive(t)
	_, stop := posting(t, second, monitor)
	second.Must(t, "PUT", "/api/instances/db-1", m{"deployment_id": "shop", "probe": m{"type": "tcp", "target": second.Addr, "interval": "1s"}}, nil, 201)
	program.Eventually(t, "callbacks are under way", func() bool { return len(monitor.all()) > 100 })
	units := []string{"deliverer", "observer", "clock", "retention"}
	for _, unit := range units {
		if at := second.holder(t, unit); at != first.Addr {
			t.Fatalf("%s is held by %q, want %q", unit, at, first.Addr)
		}
	}
	stops := first.pause(t, second)
	stopped := time.Now()
	for _, unit := range units {
		program.Eventually(t, unit+" is taken over", func() bool { return second.holder(t, unit) == second.Addr })
	}
	t.Logf("taken over after %s", time.Since(stopped))
	told := len(monitor.all())
	program.Eventually(t, "the second calls back", func() bool { return len(monitor.all()) > told+100 })

	first.Signal(syscall.SIGCONT)
	program.Eventually(t, "the first notices", func() bool { return strings.Count(first.Logged(), "the lease is lost") == len(units) })
	before := first.metric(t, taken)
	told = len(monitor.all())
	program.Eventually(t, "callbacks go on", func() bool { return len(monitor.all()) > told+100 })
	if after := first.metric(t, taken); after != before {
		t.Errorf("the first made %v callbacks after it had lost the lease", after-before)
	}
	for _, unit := range units {
		if at := second.holder(t, unit); at != second.Addr {
			t.Errorf("%s is held by %q, want %q", unit, at, second.Addr)
		}
	}
	program.Eventually(t, "the first is ready, as it waits", func() bool {
		status, _ := first.Call(t.Context(), "GET", "/readyz", nil, nil)
		return status == 200
	})
	stop()
	twice, oldest := repeated(t, monitor, stops)
	t.Logf("%d callbacks, %d of them told before, the oldest %s before the suspend", len(monitor.all()), twice, oldest)
}

// pause suspends a windsock, but not in the middle of a transaction: it would hold up all
// others for as long as it sleeps. It returns when it was tried, as a failed try is a
// pause as well.
func (s server) pause(t *testing.T, other server) (tries []time.Time) {
	t.Helper()
	program.Eventually(t, "it sleeps outside of a transaction", func() bool {
		tries = append(tries, time.Now())
		s.Signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := other.Call(ctx, "PUT", "/api/deployments/other", m{"metadata": m{"at": fmt.Sprint(time.Now())}}, nil); err != nil {
			s.Signal(syscall.SIGCONT)
			return false
		}
		return true
	})
	return tries
}

// Two processes write as fast as they can: nobody is told that the database is locked, or
// anything else of 5xx.
func TestTwoProcessesWrite(t *testing.T) { each(t, twoProcessesWrite) }

func twoProcessesWrite(t *testing.T, db string) {
	t.Parallel()
	span := 30 * time.Second
	if testing.Short() {
		span = 3 * time.Second
	}
	both := []server{with(t, db, "api"), with(t, db, "api")}
	until := time.Now().Add(span)
	var n [2]atomic.Int64
	var wg sync.WaitGroup
	for i, s := range both {
		for w := range 16 {
			id := fmt.Sprintf("web-%d-%d", i, w)
			s.declare(t, "shop", id)
			wg.Go(func() {
				var slowest time.Duration
				for k := 0; time.Now().Before(until) && !t.Failed(); k++ {
					begun := time.Now()
					if _, err := s.report(t.Context(), id, []string{"FAIL DETECTED", "START DETECTED"}[k%2]); err != nil {
						t.Errorf("%s: %v", id, err)
					}
					slowest = max(slowest, time.Since(begun))
					n[i].Add(1)
				}
				if w == 0 {
					t.Logf("the slowest took %s", slowest)
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d and %d posts", n[0].Load(), n[1].Load())
	var shown struct{ Head int64 }
	for _, s := range both {
		s.Must(t, "GET", "/api/events?limit=1", nil, &shown, 200)
	}
	s := both[0]
	resp, err := http.Get(fmt.Sprintf("http://%s/api/events?after=%d", s.Addr, shown.Head))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("one process refuses the head of the log that the other shows: %s", resp.Status)
	}
}
