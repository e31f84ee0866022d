package monitors

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"time"

	"windsock"
)

// parts names the phases that there were.
func parts(p windsock.Phases) string {
	var names []string
	for _, part := range []struct {
		name string
		took windsock.Duration
	}{{"dns", p.DNS}, {"connect", p.Connect}, {"tls", p.TLS}, {"first_byte", p.FirstByte}, {"body", p.Body}} {
		if part.took > 0 {
			names = append(names, part.name)
		}
	}
	return strings.Join(names, " ")
}

// sum is how long all phases took together.
func sum(p windsock.Phases) windsock.Duration {
	return p.DNS + p.Connect + p.TLS + p.FirstByte + p.Body
}

func TestPhases(t *testing.T) {
	ca := newCA(t, "ours")
	cert, key, _ := issue(t, ca, "localhost", time.Now().Add(time.Hour))
	r := newTLSReceiver(t, cert, key, nil)
	plain := newReceiver(t, nil)
	at := func(rawURL, name string) windsock.MonitorSpec {
		m := spec(rawURL)
		m.Address = name
		return m
	}
	l := newLog()
	l.add("tls", at(r.URL, "localhost"), "")
	l.change("tls", func(m *windsock.Target) { m.TLS.CA = ca.pem })
	l.add("untrusted", at(r.URL, "localhost"), "")
	l.add("plain", spec(plain.URL), "")
	l.add("nowhere", at(plain.URL, "nowhere.invalid"), "")
	gone := newReceiver(t, nil)
	gone.Close()
	l.add("nobody", spec(gone.URL), "")
	p := ready(t, l)
	remote := func(rawURL string) string { u, _ := url.Parse(rawURL); return u.Host }
	for _, step := range []struct {
		name, monitor, parts, remote, protocol string
		reused                                 bool
	}{
		{"a new connection", "tls", "dns connect tls first_byte body", remote(r.URL), "HTTP/2", false},
		{"the same again", "tls", "first_byte body", remote(r.URL), "HTTP/2", true},
		{"an address and no TLS", "plain", "connect first_byte body", remote(plain.URL), "HTTP/1.1", false},
		{"the same again", "plain", "first_byte body", remote(plain.URL), "HTTP/1.1", true},
		{"a certificate that is not trusted", "untrusted", "dns connect tls", remote(r.URL), "", false},
		{"a name that is none", "nowhere", "dns", "", "", false},
		{"nobody accepts", "nobody", "connect", remote(gone.URL), "", false},
	} {
		got, err := p.Ping(t.Context(), step.monitor)
		want(t, step.name+": error", err, nil)
		want(t, step.name+": phases", parts(got.Phases), step.parts)
		want(t, step.name+": wire", windsock.Wire{Remote: got.Remote, Reused: got.Reused, Protocol: got.Protocol},
			windsock.Wire{Remote: step.remote, Reused: step.reused, Protocol: step.protocol})
		if all := sum(got.Phases); all > got.Duration+5*windsock.Duration(time.Microsecond) { // each is a microsecond at least
			t.Errorf("%s: phases of %s in %s", step.name, time.Duration(all), time.Duration(got.Duration))
		}
	}
}

func TestAnAddressThatIsNotCalledIsNotShown(t *testing.T) {
	l := newLog()
	l.add("m", windsock.MonitorSpec{Address: "127.0.0.1", Port: 9}, "")
	p := start(t, l, nil, func(d *Deliverer) { d.Guard = Guard{Self: elsewhere} })
	eventually(t, "a beat", func() bool { return !p.Beat().IsZero() })
	got, err := p.Ping(t.Context(), "m")
	want(t, "error", err, nil)
	want(t, "what is shown", []any{got.Class, got.Remote}, []any{"blocked_address", ""})
}

// dialed is a Deliverer whose transport dials so.
func dialed(dial dialFunc) *Deliverer {
	return &Deliverer{Transport: &http.Transport{DialContext: traced(dial)}}
}

func post(ctx context.Context, d *Deliverer, to string) reply {
	return d.send(ctx, http.MethodPost, &windsock.Target{}, to, http.Header{}, []byte("{}"), time.Now())
}

// hung is a dial that begins and does not end before it may.
type hung struct{ begun, release, ended chan struct{} }

func newHung() *hung {
	return &hung{make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

func (h *hung) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	defer close(h.ended)
	hooks := httptrace.ContextClientTrace(ctx)
	hooks.ConnectStart(network, addr)
	close(h.begun)
	<-h.release
	hooks.ConnectDone(network, addr, nil)
	return nil, errors.New("too late")
}

func TestADialThatOutlivesItsRequest(t *testing.T) {
	h := newHung()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-h.begun; cancel() }()
	got := post(ctx, dialed(h.dial), "http://10.1.2.3:9000/")
	before := got.wire()
	want(t, "phases", parts(before.Phases), "connect")
	want(t, "remote", before.Remote, "10.1.2.3:9000")
	close(h.release)
	<-h.ended
	want(t, "after the dial has ended", got.wire(), before)
}

// While one dials, the connection of another comes free: how the dial goes is nothing to
// the request then.
func TestADialThatWasNotNeeded(t *testing.T) {
	h := newHung()
	hold := make(chan struct{})
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/first" {
			<-hold
		}
	})
	dials := make(chan dialFunc, 2)
	dials <- new(net.Dialer).DialContext
	dials <- h.dial
	d := dialed(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (<-dials)(ctx, network, addr)
	})
	defer d.Transport.(*http.Transport).CloseIdleConnections()
	first := make(chan reply)
	go func() { first <- post(t.Context(), d, r.URL+"/first") }()
	r.await(t, 1)
	go func() { <-h.begun; close(hold) }()
	got := post(t.Context(), d, r.URL+"/second")
	want(t, "failure", got.failure, "")
	want(t, "phases", parts(got.wire().Phases), "first_byte body")
	want(t, "reused", got.wire().Reused, true)
	one := <-first
	want(t, "phases of the first", parts(one.wire().Phases), "connect first_byte body")
	close(h.release)
	<-h.ended
}

func TestPhasesOfABrokenAnswer(t *testing.T) {
	answers := map[string]struct {
		handler http.HandlerFunc
		parts   string
		class   string
	}{
		"it breaks off midway": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "connect first_byte body", "connection"},
		"it breaks off before": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connect first_byte", "connection"},
	}
	for name, tc := range answers {
		r := newReceiver(t, tc.handler)
		d := dialed(new(net.Dialer).DialContext)
		got := post(t.Context(), d, r.URL)
		want(t, name+": phases", parts(got.wire().Phases), tc.parts)
		want(t, name+": class", classOf(got), tc.class)
	}
}

// What is told while a request ends comes from many goroutines.
func TestATraceIsForMany(t *testing.T) {
	_, how := follow(t.Context(), false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			how.GetConn("")
			how.dialling(func() { how.dial("10.0.0.1:1") })
			how.WroteRequest(httptrace.WroteRequestInfo{})
			how.GotFirstResponseByte()
		}
	}()
	how.end()
	got := reply{trace: how}
	got.wire()
	<-done
	if strings.Contains(parts(got.wire().Phases), "dns") {
		t.Error("there was no lookup")
	}
}
