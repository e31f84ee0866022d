package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/api"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// seqs of the events on a page.
func (a answer) seqs() []float64 {
	list := []float64{}
	events, _ := a.field("events").([]any)
	for _, e := range events {
		list = append(list, e.(map[string]any)["seq"].(float64))
	}
	return list
}

func TestEventsArePagedAndFiltered(t *testing.T) {
	s := open(t) // events 1 to 3 declare
	s.detect("web-1", "FAIL DETECTED", "source", "nagios").want(200)
	s.detect("web-2", "START DETECTED").want(200)
	head := float64(s.store.Head())
	for query, want := range map[string]map[string]any{
		"":                          {"next": head, "head": head},
		"?after=0&limit=2":          {"next": 2.0, "head": head},
		fmt.Sprint("?after=", head): {"events": []any{}, "next": head, "head": head},
		"?instance=nobody":          {"events": []any{}, "next": head, "head": head},
	} {
		s.call("GET", "/api/events"+query, "").want(200).has(want)
	}
	fail := s.call("GET", "/api/events?instance=web-1&type=instance.state", "").want(200)
	if got := fail.seqs(); len(got) != 1 {
		t.Fatalf("got %s", fail.body)
	}
	for _, query := range []string{"detection=FAIL%20DETECTED&kind=instance", "deployment=shop&detection=FAIL%20DETECTED&type=instance.state", "pool=east&kind=instance&detection=FAIL%20DETECTED"} {
		if d := cmp.Diff(fail.seqs(), s.call("GET", "/api/events?"+query, "").want(200).seqs()); d != "" {
			t.Errorf("%s: (-want +got) %s", query, d)
		}
	}
	if got := s.call("GET", "/api/events?kind=monitor", "").want(200).seqs(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestLongPollAnswersWithTheNextEvent(t *testing.T) {
	s := open(t)
	head := s.store.Head()
	done := make(chan answer)
	go func() {
		done <- s.call("GET", fmt.Sprintf("/api/events?after=%d&wait=60s&instance=web-2&type=instance.state", head), "")
	}()
	s.detect("web-1", "FAIL DETECTED").want(200) // not what it waits for
	s.detect("web-2", "FAIL DETECTED").want(200)
	a := soon(t, done)
	if got := a.want(200).seqs(); len(got) != 1 || a.field("next").(float64) < got[0] {
		t.Errorf("got %s", a.body)
	}
}

// A reader of a stream.
type reader struct {
	*testing.T
	resp *http.Response
	scan *bufio.Scanner
}

func (s *site) stream(query string, headers ...string) *reader {
	s.Helper()
	req := must(http.NewRequest("GET", s.http.URL+"/api/events"+query, nil))
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		s.Fatalf("got %s %v %s", resp.Status, resp.Header, body)
	}
	return &reader{s.T, resp, bufio.NewScanner(resp.Body)}
}

// next reads the next event and checks its frame.
func (r *reader) next() (e windsock.Event) {
	r.Helper()
	frame := map[string]string{}
	for r.scan.Scan() && r.scan.Text() != "" {
		name, value, _ := strings.Cut(r.scan.Text(), ": ")
		frame[name] = value
	}
	if err := json.Unmarshal([]byte(frame["data"]), &e); err != nil {
		r.Fatalf("%v: %v (%v)", frame, err, r.scan.Err())
	}
	if frame["id"] != fmt.Sprint(e.Seq) || frame["event"] != string(e.Type) {
		r.Errorf("the frame %v is not that of its event", frame)
	}
	return e
}

func TestStreamTellsWhatHappensAndGoesOnWhereItWas(t *testing.T) {
	s := open(t)
	head := s.store.Head()
	r := s.stream("")
	s.detect("web-1", "FAIL DETECTED").want(200)
	first := r.next()
	if first.Seq != head+1 || first.State != windsock.Failed {
		t.Errorf("a new stream begins with %+v", first)
	}
	r.resp.Body.Close()
	s.detect("web-1", "START DETECTED").want(200)
	r = s.stream("?after=0", "Last-Event-ID", fmt.Sprint(first.Seq))
	if got := r.next(); got.Seq != first.Seq+1 {
		t.Errorf("it goes on with %d", got.Seq)
	}
	r = s.stream("?after=0&type=deployment.declared")
	if got := r.next(); got.SubjectID != "shop" || got.Type != windsock.DeploymentDeclared {
		t.Errorf("got %+v", got)
	}
	s.call("GET", "/api/events", "", "Accept", "text/event-stream", "Last-Event-ID", "x").refused(400, "invalid", "Last-Event-ID")
	s.call("GET", "/api/events", "", "Accept", "text/event-stream", "Last-Event-ID", "99999").refused(400, "invalid", "Last-Event-ID")
}

// soon is what c brings before any of the waits of these tests would end by itself.
func soon(t *testing.T, c <-chan answer) answer {
	t.Helper()
	select {
	case a := <-c:
		return a
	case <-time.After(20 * time.Second):
		t.Fatal("no answer")
		return answer{}
	}
}

// What waits ends at once when the server is to stop.
func TestStopEndsWhatWaits(t *testing.T) {
	s := open(t)
	r := s.stream("")
	poll, wait := make(chan answer), make(chan answer)
	go func() { poll <- s.call("GET", fmt.Sprintf("/api/events?after=%d&wait=60s", s.store.Head()), "") }()
	go func() { wait <- s.call("GET", "/api/instances/web-1?await=running", "") }()
	s.stop()
	if r.scan.Scan() {
		t.Errorf("the stream says %q", r.scan.Text())
	}
	soon(t, poll).want(200).has(map[string]any{"events": []any{}})
	soon(t, wait).refused(503, "unavailable", "")
}

// A client that leaves is no fault of anybody.
func TestClientThatLeavesIsNotLogged(t *testing.T) {
	s := open(t)
	ctx, leave := context.WithCancel(t.Context())
	for _, path := range []string{"/api/instances/web-1?await=running", "/api/events?after=3&wait=60s"} {
		req := must(http.NewRequestWithContext(ctx, "GET", s.http.URL+path, nil))
		go http.DefaultClient.Do(req)
	}
	waiting := func(want int) func() bool {
		return func() bool {
			return strings.Count(string(s.call("GET", "/metrics", "").body), "windsock_http_requests_in_flight 3") == want
		}
	}
	eventually(t, "both wait", waiting(1))
	leave()
	eventually(t, "both have left", waiting(0))
	s.http.Close()
	if s.logged.Len() > 0 {
		t.Errorf("got %s", s.logged)
	}
}

// pruned is a log that begins after 100.
type pruned struct{ api.Store }

func (pruned) Head() int64 { return 200 }
func (pruned) Events(_ context.Context, after int64, _ int, _ windsock.EventFilter) ([]windsock.Event, error) {
	if after < 100 {
		return nil, fmt.Errorf("events up to 100 are %w", windsock.ErrPruned)
	}
	return nil, nil
}

func TestPrunedLogIsGone(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Store = pruned{srv.Store} })
	s.call("GET", "/api/events?after=99", "").refused(410, "pruned", "after").has(map[string]any{"head": 200.0})
	s.call("GET", "/api/events", "", "Accept", "text/event-stream", "Last-Event-ID", "99").refused(410, "pruned", "after")
	s.call("GET", "/api/events?after=100", "").want(200)
}

// quiet is a store in which nothing happens.
type quiet struct{ api.Store }

func (quiet) Head() int64 { return 7 }
func (quiet) Wait(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}
func (quiet) Events(context.Context, int64, int, windsock.EventFilter) ([]windsock.Event, error) {
	return nil, nil
}
func (quiet) Instance(context.Context, string) (windsock.Instance, error) {
	return windsock.Instance{Observed: windsock.Observed{State: windsock.Starting}}, nil
}

// handler is the API over a store alone.
func handler(st api.Store, changes ...func(*api.Server)) http.Handler {
	reg := prometheus.NewRegistry()
	srv := &api.Server{
		Store: st, Logger: slog.New(slog.DiscardHandler), Registerer: reg, Gatherer: reg, Stop: context.Background(),
	}
	for _, change := range changes {
		change(srv)
	}
	return srv.Handler()
}

// pipe is a connection whose client reads what is written to it, or does not.
type pipe struct {
	*httptest.ResponseRecorder
	deadline time.Time // of the next write
	writes   []time.Time
	stuck    int // from this write on
}

func (p *pipe) SetReadDeadline(time.Time) error { return nil }

func (p *pipe) SetWriteDeadline(t time.Time) error {
	p.deadline = t
	return nil
}

func (p *pipe) Write(data []byte) (int, error) {
	if p.writes = append(p.writes, time.Now()); len(p.writes) == p.stuck {
		<-time.After(time.Until(p.deadline)) // on the clock of the bubble
		return 0, os.ErrDeadlineExceeded
	}
	return p.ResponseRecorder.Write(data)
}

func TestIdleStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 46*time.Second)
		defer cancel()
		req := httptest.NewRequest("GET", "/api/events?instance=web-1", nil).WithContext(ctx)
		req.Header.Set("Accept", "text/event-stream")
		p := &pipe{ResponseRecorder: httptest.NewRecorder()}
		handler(quiet{}).ServeHTTP(p, req)
		var at []time.Duration
		for _, w := range p.writes {
			at = append(at, w.Sub(start))
		}
		if d := cmp.Diff([]time.Duration{0, 15 * time.Second, 30 * time.Second, 45 * time.Second}, at); d != "" {
			t.Errorf("(-want +got) %s", d)
		}
		if want := strings.Repeat(":\nid: 7\n\n", 3); p.Body.String() != want {
			t.Errorf("got %q", p.Body)
		}
		if got := time.Since(start); got != 46*time.Second {
			t.Errorf("it ended after %v, the client left after 46s", got)
		}
	})
}

func TestStuckReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		req := httptest.NewRequest("GET", "/api/events", nil)
		req.Header.Set("Accept", "text/event-stream")
		handler(quiet{}).ServeHTTP(&pipe{ResponseRecorder: httptest.NewRecorder(), stuck: 3}, req)
		if got := time.Since(start); got != 40*time.Second { // two beats and the time for one write
			t.Errorf("it ended after %v", got)
		}
	})
}

func TestWaitsEndInTime(t *testing.T) {
	for path, want := range map[string]struct {
		after  time.Duration
		status int
	}{
		"/api/events?after=7&wait=30s":                   {30 * time.Second, 200},
		"/api/events?after=7":                            {0, 200},
		"/api/instances/web-1?await=running":             {time.Minute, 504},
		"/api/instances/web-1?await=running&timeout=2.5": {2500 * time.Millisecond, 504},
		"/api/instances/web-1?await=starting":            {0, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			w := httptest.NewRecorder()
			handler(quiet{}).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if got := time.Since(start); got != want.after || w.Code != want.status {
				t.Errorf("%s: %d after %v: %s", path, w.Code, got, w.Body)
			}
		})
	}
}

// wire is a listener of connections in memory, so that a server and its time-outs run on
// the clock of a bubble.
type wire chan net.Conn

func (l wire) Accept() (net.Conn, error) {
	if c, open := <-l; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l wire) Close() error   { return nil }
func (l wire) Addr() net.Addr { return &net.TCPAddr{} }

// dial runs a server on the wire and returns the client's end of a connection.
func dial(t *testing.T, srv *http.Server) net.Conn {
	l := make(wire)
	go srv.Serve(l)
	client, server := net.Pipe()
	l <- server
	t.Cleanup(func() {
		client.Close()
		close(l)
		srv.Close()
	})
	return client
}

func TestTimeoutsOfTheServerDoNotEndAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, &http.Server{Handler: handler(quiet{}), ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second})
		fmt.Fprint(conn, "GET /api/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
		lines, beats := bufio.NewScanner(conn), 0
		for beats < 4 && lines.Scan() {
			if lines.Text() == ":" {
				beats++
			}
		}
		if beats < 4 {
			t.Errorf("it ended after %d beats: %v", beats, lines.Err())
		}
	})
}

func TestAnswerThatIsNotTakenIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, &http.Server{Handler: handler(quiet{})})
		fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		<-time.After(2 * time.Minute) // on the clock of the bubble
		if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
			t.Errorf("after two minutes it is still there: %q, %v", got, err)
		}
	})
}

// Who says that he has nothing more to say may still listen: he must not hear a success
// of which there is none.
func TestHalfClosedConnectionHearsNoEmptySuccess(t *testing.T) {
	s := open(t)
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	check(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /api/instances/web-1?await=running HTTP/1.1\r\nHost: x\r\n\r\n")
	check(t, conn.(*net.TCPConn).CloseWrite())
	if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestBodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	for path, want := range map[string]string{web1: "400", "/api/nothing": "404"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			conn := dial(t, &http.Server{Handler: handler(quiet{})})
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", path)
			answer, err := io.ReadAll(conn)
			if got := time.Since(start); got != 30*time.Second || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
				t.Errorf("%s: after %v: %q, %v", path, got, answer, err)
			}
		})
	}
}

// broken is a store whose waits fail.
type broken struct{ quiet }

func (broken) Wait(context.Context, int64) error { return errors.New("closed") }

func TestStreamOfABrokenStoreEnds(t *testing.T) {
	req := httptest.NewRequest("GET", "/api/events", nil)
	req.Header.Set("Accept", "text/event-stream")
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("got %v", got)
		}
	}()
	handler(broken{}).ServeHTTP(httptest.NewRecorder(), req)
}

func TestAwaitAnswersOnceTheStateIsReached(t *testing.T) {
	s := open(t)
	done := make(chan answer)
	go func() { done <- s.call("GET", "/api/deployments/shop?await=running&timeout=60s", "") }()
	s.detect("web-1", "START DETECTED").want(200)
	s.detect("web-2", "START DETECTED").want(200)
	soon(t, done).want(200).has(map[string]any{"observed_state": "running"})

	go func() { done <- s.call("GET", "/api/instances/web-1?await=gone", "") }()
	s.call("DELETE", "/api/instances/web-1", "").want(204)
	soon(t, done).refused(404, "not-found", "id")
	s.call("GET", "/api/instances/web-2?await=failed&timeout=0", "").refused(504, "await-timeout", "").has(map[string]any{"observed_state": "running"})
}

func TestEventsBeforeOne(t *testing.T) {
	s := open(t)
	s.detect("web-1", "FAIL DETECTED").want(200)
	head := s.store.Head()
	var got []float64
	before := float64(1 << 40)
	for before > 0 {
		page := s.call("GET", fmt.Sprintf("/api/events?before=%.0f&limit=2", before), "").want(200)
		got = append(got, page.seqs()...)
		before = page.field("next").(float64)
	}
	if int64(len(got)) != head {
		t.Errorf("got %v, want all %d", got, head)
	}
	for i := range got {
		if got[i] != float64(head)-float64(i) {
			t.Fatalf("got %v, want the newest first", got)
		}
	}
	if got := s.call("GET", "/api/events?before=1000&deployment=shop&type=instance.state", "").want(200).seqs(); len(got) != 1 {
		t.Errorf("of the deployment's instances it shows %v", got)
	}
	for _, query := range []string{"before=0", "before=x", "before=5&after=1", "before=5&wait=1s"} {
		s.call("GET", "/api/events?"+query, "").refused(400, "invalid", "before")
	}
	s.call("GET", "/api/events?before=5", "", "Accept", "text/event-stream").refused(400, "invalid", "before")
}

func TestCallerIsTold(t *testing.T) {
	s := open(t)
	s.call("GET", "/api/whoami", "").want(200).has(map[string]any{"name": "", "role": "admin", "scope": "global"})
}
