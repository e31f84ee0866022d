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

// A replica is one that a windsock shows.
type replica struct {
	Address  string
	Monitors int
	Holds    []struct{ Unit string }
}

func (s server) replicas(t *testing.T) []replica {
	t.Helper()
	var list struct{ Replicas []replica }
	s.Must(t, "GET", "/api/replicas", nil, &list, 200)
	return list.Replicas
}

// held returns how many units of a group each of some processes holds, sorted.
func (s server) held(t *testing.T, group string, by ...server) []int {
	t.Helper()
	n := make([]int, len(by))
	for _, r := range s.replicas(t) {
		i := slices.IndexFunc(by, func(one server) bool { return one.Addr == r.Address })
		if i < 0 {
			continue
		}
		for _, h := range r.Holds {
			if h.Unit == group || strings.HasPrefix(h.Unit, group+"/") {
				n[i]++
			}
		}
	}
	slices.Sort(n)
	return n
}

// shared waits until some processes share a group so, and returns how long that took.
func (s server) shared(t *testing.T, group string, want []int, by ...server) time.Duration {
	t.Helper()
	begun := time.Now()
	program.Eventually(t, fmt.Sprintf("%s are shared %v", group, want), func() bool { return slices.Equal(s.held(t, group, by...), want) })
	return time.Since(begun)
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

	service, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api.declare(t, "shop", "web-1")
	api.Must(t, "PUT", "/api/instances/web-1", m{"deployment_id": "shop", "probe": m{"type": "tcp", "target": service.Addr().String(), "interval": "1s", "fails": 1, "passes": 1}}, nil, 200)
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
	for group, s := range map[string]server{"probes": observer, "deliverer": deliverer} {
		if n := api.held(t, group, s); n[0] != 16 {
			t.Errorf("%d of %s are held by the one with that role", n[0], group)
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
// acknowledged to be told to all monitors, and in order.
func posting(t *testing.T, api server, monitors []*receiver) (stop func()) {
	reporters := make([]*reporter, 8)
	for i := range reporters {
		reporters[i] = &reporter{instance: fmt.Sprint("web-", i), acked: map[int64]string{}, state: "unknown"}
		api.declare(t, "shop", reporters[i].instance)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, r := range reporters {
		wg.Go(func() { r.run(ctx, t, api) })
	}
	return func() {
		cancel()
		wg.Wait()
		for _, monitor := range monitors {
			program.Eventually(t, "every acknowledged change is told", func() bool { return missing(reporters, monitor) == 0 })
			order(t, monitor)
		}
	}
}

// registered registers so many receivers.
func registered(t *testing.T, api server, n int) []*receiver {
	monitors := make([]*receiver, n)
	for i := range monitors {
		monitors[i] = receive(t)
		monitors[i].register(t, api)
	}
	return monitors
}

// A move is a time in which work goes from one process to another.
type move struct{ from, to time.Time }

// retold counts the callbacks that had been told before. It fails the test if one was told
// first when nothing moved, or long before that.
func retold(t *testing.T, monitor *receiver, moves []move) (n int) {
	t.Helper()
	first := map[int64]time.Time{}
	for _, c := range monitor.all() {
		before, again := first[c.Seq]
		if !again {
			first[c.Seq] = c.at
			continue
		}
		n++
		if !slices.ContainsFunc(moves, func(m move) bool { return before.After(m.from.Add(-repeatable)) && before.Before(m.to.Add(late)) }) {
			t.Errorf("%d of %s was told at %s and again at %s, and nothing moved", c.Seq, c.subject(), before, c.at)
		}
	}
	return n
}

// goOn waits until each is told something new.
func goOn(t *testing.T, monitors []*receiver) {
	t.Helper()
	for _, monitor := range monitors {
		told := len(monitor.all())
		program.Eventually(t, "callbacks go on", func() bool { return len(monitor.all()) > told })
	}
}

// Three share the callbacks while everybody posts. Again and again one of them is killed or
// asked to stop, the others share what it did, and another one joins and gets its share:
// nothing is lost, the order holds, and what is told twice was told just before.
func TestDeliverersComeAndGo(t *testing.T) { each(t, deliverersComeAndGo) }

func deliverersComeAndGo(t *testing.T, db string) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	turns := 8
	if testing.Short() {
		turns = 2
	}
	api := with(t, db, "api")
	monitors := registered(t, api, 6)
	there := []server{with(t, db, "deliverer"), with(t, db, "deliverer")}
	stop := posting(t, api, monitors)
	var moves []move
	took := map[string][]time.Duration{}
	for range turns {
		began := time.Now()
		there = append(there, with(t, db, "deliverer"))
		took["a start"] = append(took["a start"], api.shared(t, "deliverer", []int{5, 5, 6}, there...))
		moves = append(moves, move{began, time.Now()})
		goOn(t, monitors)

		i, how := random.IntN(len(there)), "a kill"
		one := there[i]
		there = slices.Delete(there, i, i+1)
		began = time.Now()
		if random.IntN(2) == 0 {
			one.Kill()
		} else {
			how = "a stop"
			one.Interrupt()
		}
		took[how] = append(took[how], api.shared(t, "deliverer", []int{8, 8}, there...))
		moves = append(moves, move{began, time.Now()})
		goOn(t, monitors)
	}
	stop()
	for _, monitor := range monitors {
		t.Logf("%d callbacks, %d of them told before", len(monitor.all()), retold(t, monitor, moves))
	}
	for how, times := range took {
		slices.Sort(times)
		t.Logf("all was shared anew after %s: %v", how, times)
	}
}

// One of two is suspended for longer than its leases last, and the other does all. When the
// first wakes up it neither calls back nor commits what is the other's, and then gets its
// share again.
func TestASuspendedHolderWakesUp(t *testing.T) { each(t, aSuspendedHolderWakesUp) }

func aSuspendedHolderWakesUp(t *testing.T, db string) {
	t.Parallel()
	first := start(t, "127.0.0.1:0", db)
	second := start(t, "127.0.0.1:0", db)
	for _, group := range []string{"deliverer", "probes"} {
		second.shared(t, group, []int{8, 8}, first, second)
	}
	monitors := registered(t, second, 8)
	second.Must(t, "PUT", "/api/deployments/shop", m{}, nil, 201)
	for i := range 16 {
		second.Must(t, "PUT", fmt.Sprint("/api/instances/db-", i), m{"deployment_id": "shop", "probe": m{"type": "tcp", "target": second.Addr, "interval": "1s"}}, nil, 201)
	}
	program.Eventually(t, "both look", func() bool {
		return first.metric(t, "windsock_probes") > 0 && first.metric(t, "windsock_probes")+second.metric(t, "windsock_probes") == 16
	})
	stop := posting(t, second, monitors)
	goOn(t, monitors)
	stopped := time.Now()
	first.pause(t, second)
	for _, group := range []string{"deliverer", "probes"} {
		second.shared(t, group, []int{16}, second)
	}
	for _, unit := range []string{"clock", "retention"} {
		second.shared(t, unit, []int{1}, second)
	}
	t.Logf("taken over after %s", time.Since(stopped))
	moves := []move{{stopped, time.Now()}}
	goOn(t, monitors)

	woke := time.Now()
	first.Signal(syscall.SIGCONT)
	program.Eventually(t, "the first notices", func() bool { return strings.Contains(first.Logged(), "leases are lost") })
	for _, group := range []string{"deliverer", "probes"} {
		t.Logf("%s are shared again after %s", group, second.shared(t, group, []int{8, 8}, first, second))
	}
	moves = append(moves, move{woke, time.Now()})
	goOn(t, monitors)
	program.Eventually(t, "the first is ready", func() bool {
		status, _ := first.Call(t.Context(), "GET", "/readyz", nil, nil)
		return status == 200
	})
	stop()
	for _, monitor := range monitors {
		t.Logf("%d callbacks, %d of them told before", len(monitor.all()), retold(t, monitor, moves))
	}
}

// pause suspends a windsock, but not in the middle of a transaction: it would hold up all
// others for as long as it sleeps.
func (s server) pause(t *testing.T, other server) {
	t.Helper()
	program.Eventually(t, "it sleeps outside of a transaction", func() bool {
		s.Signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := other.Call(ctx, "PUT", "/api/deployments/other", m{"metadata": m{"at": fmt.Sprint(time.Now())}}, nil); err != nil {
			s.Signal(syscall.SIGCONT)
			return false
		}
		return true
	})
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
