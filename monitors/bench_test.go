package monitors

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"windsock"
)

// BenchmarkFanOut compares callbacks with what a plain client reaches that posts the same
// bodies over as many kept connections to the same sink. One op is one callback; ratio is
// our rate by its rate.
func BenchmarkFanOut(b *testing.B) {
	for _, monitors := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("monitors=%d", monitors), func(b *testing.B) {
			sink := newSink(b)
			plain := plainRate(b, sink.url, monitors, b.N)
			ours := fanOutRate(b, sink, monitors, b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours, "callbacks/s")
			b.ReportMetric(plain, "plain/s")
			b.ReportMetric(ours/plain, "ratio")
		})
	}
}

// A sink takes callbacks and counts them.
type sink struct {
	url   string
	count atomic.Int64
	due   atomic.Int64
	full  chan struct{} // when due are there
}

func newSink(b *testing.B) *sink {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &sink{url: "http://" + ln.Addr().String(), full: make(chan struct{}, 1)}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusNoContent)
		if s.count.Add(1) == s.due.Load() {
			s.full <- struct{}{}
		}
	})}
	var serving sync.WaitGroup
	serving.Go(func() { srv.Serve(ln) })
	b.Cleanup(func() {
		srv.Close()
		serving.Wait()
	})
	return s
}

// expect has the sink count n from now on.
func (s *sink) expect(n int) {
	s.count.Store(0)
	s.due.Store(int64(n))
}

func plainRate(b *testing.B, url string, clients, posts int) float64 {
	n := &notice{Event: sample()}
	n.encode()
	transport := NewTransport(Guard{Self: onLoopback})
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var left atomic.Int64
	left.Store(int64(posts))
	begun := time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := client.Post(url+"/api/deployment/instance/web-1", "application/json", bytes.NewReader(n.body))
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	return float64(posts) / time.Since(begun).Seconds()
}

func fanOutRate(b *testing.B, s *sink, monitors, callbacks int) float64 {
	l := newLog()
	for i := range monitors {
		m := spec(s.url)
		m.Path = fmt.Sprintf("/m%d", i)
		l.add(m.Path, m, "")
	}
	p := start(b, l, nil, func(d *Deliverer) { d.Transport = nil })
	events := make([]windsock.Event, max(callbacks/monitors, 1))
	for i := range events {
		events[i] = sample()
		events[i].ID = fmt.Sprintf("event-%d", i)
	}
	s.expect(len(events) * monitors)
	begun := time.Now()
	l.append(events...)
	<-s.full
	took := time.Since(begun)
	p.stop()
	return float64(len(events)*monitors) / took.Seconds()
}

// BenchmarkIdleMonitors tells how much memory a monitor takes that has nothing to do.
func BenchmarkIdleMonitors(b *testing.B) {
	const monitors = 10_000
	id := func(i int) string { return fmt.Sprintf("019ad000-0000-7000-8000-%012d", i) }
	l := newLog()
	for i := range monitors {
		m := named(fmt.Sprintf("host-%d.example", i))
		m.Scope = windsock.Scope(fmt.Sprintf("instance:web-%d", i))
		l.add(id(i), m, windsock.Secret("whsec_"+strings.Repeat("A", 43)+"="))
	}
	before := heapInUse()
	p := start(b, l, newNetwork())
	eventually(b, "all monitors", func() bool { _, ok := p.Delivery(id(monitors - 1)); return ok })
	each := float64(heapInUse()-before) / monitors
	p.stop()
	b.Run(fmt.Sprint("monitors=", monitors), func(b *testing.B) { // measured once, above
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(each, "B/monitor")
	})
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the second for what the first had finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkOutOfScope tells what an event costs that concerns none of a thousand monitors.
func BenchmarkOutOfScope(b *testing.B) {
	l := newLog()
	for i := range 1000 {
		m := named("a")
		m.Scope = windsock.Scope(fmt.Sprintf("pool:p%d", i))
		l.add(fmt.Sprintf("m%d", i), m, "")
	}
	p := start(b, l, newNetwork())
	eventually(b, "all monitors", func() bool { _, ok := p.Delivery("m999"); return ok })
	e := sample()
	b.ReportAllocs()
	for b.Loop() {
		p.hand(&e)
	}
}
