package api_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/api"
)

// poll asks for work, in a bubble, over a connection that may be used again.
type poll struct {
	*testing.T
	net.Conn
	answers *bufio.Reader
}

// parked starts a server that parks those who wait, within a bubble.
func parked(t *testing.T, sw *software, stop context.Context) (poll, *api.Server) {
	var server *api.Server
	h := working(sw, func(srv *api.Server) { srv.Stop, server = stop, srv })
	srv := &http.Server{Handler: h}
	go srv.Serve(server.Parked())
	conn := dial(t, srv)
	return poll{t, conn, bufio.NewReader(conn)}, server
}

func (p poll) ask(tag string, headers ...string) {
	p.Helper()
	_, err := fmt.Fprintf(p.Conn, "GET %s?wait=30s HTTP/1.1\r\nHost: windsock.example\r\nAuthorization: %s\r\nIf-None-Match: %s\r\n%s\r\n", workOfWeb1, bearerOfIt, tag, strings.Join(headers, ""))
	check(p.T, err)
}

// answered reads one answer and returns when it came, and its tag.
func (p poll) answered(status int) (at time.Time, tag string) {
	p.Helper()
	resp, err := http.ReadResponse(p.answers, nil)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		p.Fatalf("got %s %v %s, %v; want %d", resp.Status, resp.Header, body, err, status)
	}
	return time.Now(), resp.Header.Get("ETag")
}

func TestParkedConnectionsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := newSoftware()
		p, _ := parked(t, sw, t.Context())
		start := time.Now()
		p.ask(`"1-"`)
		if at, tag := p.answered(304); at.Sub(start) != 30*time.Second || tag != `"1-"` {
			t.Errorf("got %s after %v", tag, at.Sub(start))
		}
		time.AfterFunc(10*time.Second, sw.move)
		p.ask(`"1-"`)
		at, tag := p.answered(200)
		if at.Sub(start) != 40*time.Second || tag != `"2-"` {
			t.Errorf("got %s after %v", tag, at.Sub(start))
		}
		go func() { // all at once; each has its answer, in turn
			p.ask(tag)
			p.ask(`"other-"`)
			p.ask(tag, "Connection: close\r\n")
		}()
		for _, want := range []struct {
			status int
			after  time.Duration
		}{{304, 70 * time.Second}, {200, 70 * time.Second}, {304, 100 * time.Second}} {
			if at, _ := p.answered(want.status); at.Sub(start) != want.after {
				t.Errorf("got %d after %v, want it after %v", want.status, at.Sub(start), want.after)
			}
		}
		if _, err := p.answers.ReadByte(); err != io.EOF {
			t.Errorf("it is not closed: %v", err)
		}
	})
}

// Over TLS too, which the server has to know each time a connection comes back: it makes
// the addresses at which the instance signals.
func TestParkedConnectionsOfTLSComeBack(t *testing.T) {
	any := httptest.NewTLSServer(nil)
	any.Close()
	shown := &tls.Config{Certificates: any.TLS.Certificates}
	synctest.Test(t, func(t *testing.T) {
		sw := newSoftware()
		var server *api.Server
		srv := &http.Server{Handler: working(sw, func(s *api.Server) { server = s })}
		go srv.Serve(server.Parked())
		l := make(wire)
		go srv.Serve(tls.NewListener(l, shown))
		client, end := net.Pipe()
		l <- end
		conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
		t.Cleanup(func() { client.Close(); close(l); srv.Close() })
		p := poll{t, conn, bufio.NewReader(conn)}
		tag := `"1-"`
		for range 3 {
			time.AfterFunc(10*time.Second, sw.move)
			p.ask(tag)
			_, tag = p.answered(200)
			p.ask(tag)
			p.answered(304)
		}
		if want := slices.Repeat([]string{"https://windsock.example"}, 3); !slices.Equal(sw.bases, want) {
			t.Errorf("signals go to %q, want %q", sw.bases, want)
		}
	})
}

func TestParkedConnectionsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		p, server := parked(t, newSoftware(), stop)
		start := time.Now()
		p.ask(`"1-"`)
		time.AfterFunc(10*time.Second, cancel)
		if at, _ := p.answered(304); at.Sub(start) != 10*time.Second {
			t.Errorf("answered after %v", at.Sub(start))
		}
		if _, err := p.answers.ReadByte(); err != io.EOF {
			t.Errorf("it is not closed: %v", err)
		}
		server.Wait()
	})
}

// What a request sends behind its head must not be taken for the next one.
func TestWhoSendsABodyIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := parked(t, newSoftware(), t.Context())
		body := "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
		p.ask(`"1-"`, fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n", len(body)))
		go io.WriteString(p.Conn, body)
		p.answered(304)
		if rest, err := io.ReadAll(p.answers); len(rest) > 0 {
			t.Errorf("got %s, %v", rest, err)
		}
	})
}

// parking is software that has nothing new for anybody, and counts who waits.
type parking struct {
	api.Software
	waiting atomic.Int64
	all     chan struct{} // is closed when so many wait
	want    int64
}

func (p *parking) Work(_ context.Context, id string, _ windsock.Secret, _ string) (windsock.Work, error) {
	return windsock.Work{InstanceID: id, Revision: 1}, nil
}

func (p *parking) WorkRevision(ctx context.Context, id string, token windsock.Secret) (windsock.Work, error) {
	return p.Work(ctx, id, token, "")
}

func (p *parking) AwaitWork(ctx context.Context, _ string, _ int64) error {
	if p.waiting.Add(1) == p.want {
		close(p.all)
	}
	<-ctx.Done()
	return ctx.Err()
}

// What an agent costs that waits for work, with both ends of its connection, without the
// store.
func BenchmarkParkedAgent(b *testing.B) {
	const agents = 5000
	for b.Loop() {
		stop, cancel := context.WithCancel(b.Context())
		sw := &parking{all: make(chan struct{}), want: agents}
		var server *api.Server
		srv := httptest.NewUnstartedServer(handler(quiet{}, func(s *api.Server) { s.Software, s.Stop, server = sw, stop, s }))
		go srv.Config.Serve(server.Parked())
		srv.Start()
		before := inUse()
		conns := make([]net.Conn, agents)
		for i := range conns {
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprintf(c, "GET /api/instances/web-%d/components?wait=60s HTTP/1.1\r\nHost: windsock.example:8080\r\nAuthorization: Bearer wsi_%043d\r\nIf-None-Match: \"1-\"\r\nUser-Agent: windsock-agent/1.0\r\nAccept-Encoding: gzip\r\n\r\n", i, i)
			conns[i] = c
		}
		<-sw.all
		after := inUse()
		b.ReportMetric(float64(after-before)/agents/1024, "KiB/agent")
		cancel() // all are answered
		var answered sync.WaitGroup
		for _, c := range conns {
			answered.Go(func() {
				defer c.Close()
				if resp, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil); err != nil || resp.StatusCode != http.StatusNotModified {
					b.Errorf("got %v, %v", resp, err)
				}
			})
		}
		answered.Wait()
		srv.Close()
	}
}

// inUse is how much memory is in use after what is not was collected.
func inUse() uint64 {
	debug.FreeOSMemory()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
