package observer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"windsock"
)

// listen serves handler at a loopback address until the test ends.
func listen(tb testing.TB, ip string, handler http.HandlerFunc) (address string) {
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		tb.Fatal(err)
	}
	srv := &http.Server{Handler: handler}
	go srv.Serve(l)
	tb.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// With real probes, a service that breaks and comes back is seen to do so.
func TestSeesRealServices(t *testing.T) {
	var broken atomic.Bool
	address := listen(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	probes := map[string]windsock.Probe{
		"http": {Type: windsock.ProbeHTTP, Target: "http://" + address + "/?token=SECRET"},
		"tcp":  {Type: windsock.ProbeTCP, Target: address},
		"exec": {Type: windsock.ProbeExec, Command: []string{"/bin/sh", "-c", "echo CRITICAL: as ever; exit 2"}},
	}
	m := newModel()
	seen := make(chan windsock.Observation, 1000)
	m.record = func(batch []windsock.Observation) error {
		for _, o := range batch {
			select {
			case seen <- o:
			default: // nobody waits any more
			}
		}
		return nil
	}
	await := func(id string, state windsock.State, reason string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case o := <-seen:
				if o.Subject.ID == id && o.State == state && o.Reason == reason {
					return
				}
			case <-deadline:
				t.Fatalf("%s was not seen %s: %q", id, state, reason)
			}
		}
	}
	o := newObserver(m)
	defer running(t, o)()
	for id, p := range probes {
		p.Interval, p.Timeout, p.Fails, p.Passes = windsock.Duration(100*time.Millisecond), windsock.Duration(time.Minute), 2, 2
		m.declare(id, p)
	}
	await("http", windsock.Running, "answered 200 OK")
	await("tcp", windsock.Running, "connected")
	await("exec", windsock.Failed, "CRITICAL: as ever")
	broken.Store(true)
	await("http", windsock.Failed, "answered 503 Service Unavailable")
	broken.Store(false)
	await("http", windsock.Running, "answered 200 OK")
	if looks, err := o.Check(t.Context(), probed("tcp")); windsock.Seen(looks) != windsock.Running || err != nil {
		t.Errorf("Check: %+v, %v", looks, err)
	}
}

// BenchmarkProbes measures how many HTTP looks a second the whole observer makes, with
// the server on the same machine, when more are due than it can.
func BenchmarkProbes(b *testing.B) {
	const targets, servers = 2000, 20
	m := newModel()
	var addresses []string
	for i := range servers {
		addresses = append(addresses, listen(b, fmt.Sprintf("127.0.0.%d", i+1), func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "fine\n")
		}))
	}
	for i := range targets {
		m.probes[fmt.Sprintf("web-%d", i)] = windsock.Probe{
			Type: windsock.ProbeHTTP, Target: "http://" + addresses[i%servers] + "/",
			Interval: windsock.Duration(100 * time.Millisecond), Timeout: windsock.Duration(5 * time.Second),
		}
	}
	var passed, failed atomic.Int64
	enough := make(chan struct{})
	m.record = func(batch []windsock.Observation) error {
		for i := range batch {
			if batch[i].State != windsock.Running {
				failed.Add(1)
			} else if passed.Add(1) == int64(b.N) {
				close(enough)
			}
		}
		return nil
	}
	o := newObserver(m)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- o.Run(ctx) }()
	<-enough
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "probes/s")
	cancel()
	<-ended
	if failed.Load() > 0 {
		b.Errorf("%d looks did not pass", failed.Load())
	}
}
