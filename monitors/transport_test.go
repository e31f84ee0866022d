package monitors

import (
	"bufio"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"windsock"
)

// The tests here use sockets and the clock on the wall.

// onLoopback is where the API listens that lets these tests have loopback called.
var onLoopback = netip.MustParseAddrPort("127.0.0.1:1")

func ours(d *Deliverer) { d.Transport, d.Guard = nil, Guard{Self: onLoopback} }

// failure returns what is kept of a first try that fails.
func failure(t *testing.T, p *process, id string) string {
	t.Helper()
	eventually(t, "a failed try", func() bool {
		d, ok := p.Delivery(id)
		return ok && d.Attempts == 1
	})
	return p.delivery(t, id).LastError
}

func TestSecretsDoNotShow(t *testing.T) {
	const secret = "whsec_UExBTlRFRC1TRUNSRVQtUExBTlRFRA=="
	answers := map[string]http.HandlerFunc{
		"it sends back what it was sent": func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(500)
			io.WriteString(w, "cannot "+req.Method+" http://"+req.Host+req.URL.String()+" with "+secret)
		},
		"it names another place": func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"see":"https://root:PLANTED-PW@db.example/x?key=PLANTED-KEY"}`)
		},
		"it redirects": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://root:PLANTED-PW@127.0.0.1/?key=PLANTED-KEY", http.StatusFound)
		},
		"it breaks the protocol": func(w http.ResponseWriter, req *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "GARBAGE "+req.URL.Path+"?key=PLANTED-KEY "+secret+"\r\n\r\n")
			conn.Close()
		},
		"it breaks off": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, answer)
			l := newLog()
			m := spec(r.URL)
			m.Path = "/hooks/PLANTED-TOKEN"
			l.add("m", m, secret)
			p := start(t, l, nil, ours)
			l.append(change("web", windsock.Failed))
			kept := failure(t, p, "m")
			p.stop()
			metrics, err := p.reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			places := map[string]string{"kept": kept, "tries": l.triesText("m"), "saved": savedError(l.progressOf("m")), "logged": p.logged.String()}
			for _, m := range metrics {
				places["metrics"] += m.String()
			}
			for place, text := range places {
				if text == "" {
					t.Errorf("nothing is %s", place)
				}
				for _, planted := range []string{"PLANTED", secret[6:]} {
					if strings.Contains(text, planted) {
						t.Errorf("%s: %q shows %s", place, text, planted)
					}
				}
			}
		})
	}
}

// A receiver may close a kept connection at the very moment we use it again. That is no
// failure and no reason to wait.
func TestAKeptConnectionThatIsClosedIsReplaced(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var conns atomic.Int64
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			in := bufio.NewReader(conn)
			for i := range 2 { // takes one request, and hangs up on the next
				req, err := http.ReadRequest(in)
				if err != nil {
					break
				}
				io.Copy(io.Discard, req.Body)
				if i == 0 {
					io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			}
			conn.Close()
		}
	}()
	l := newLog()
	l.add("m", spec("http://"+ln.Addr().String()), "")
	p := start(t, l, nil, ours)
	for range 5 {
		l.append(change("web", windsock.Failed))
		eventually(t, "success", func() bool {
			d, ok := p.Delivery("m")
			return ok && d.Backlog == 0 && l.progressOf("m").Cursor == l.Head()
		})
	}
	p.stop()
	if strings.Contains(p.logged.String(), "callback failed") {
		t.Errorf("logged: %s", p.logged)
	}
	if n := conns.Load(); n != 5 {
		t.Errorf("%d connections, want 5", n)
	}
	ln.Close()
	<-served
}

// savedError returns the errors of the monitor and of its lanes.
func savedError(p windsock.Progress) string {
	text := p.LastError
	for _, l := range p.Lanes {
		text += l.LastError
	}
	return text
}

func TestConnectionsAreKept(t *testing.T) {
	var conns atomic.Int64
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r.keep(nil))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	l := newLog()
	m := spec(r.URL)
	m.Parallel = 1
	l.add("m", m, "")
	start(t, l, nil, ours)
	l.append(changes(50)...)
	r.await(t, 50)
	want(t, "connections for 50 callbacks", conns.Load(), 1)
}

func TestTLS(t *testing.T) {
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r.keep(nil))
	r.EnableHTTP2 = true
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)

	t.Run("HTTP/2 where it is offered", func(t *testing.T) {
		l := newLog()
		l.add("m", spec(r.URL), "")
		transport := NewTransport(Guard{Self: onLoopback})
		transport.TLSClientConfig = r.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		transport.TLSClientConfig.NextProtos = nil
		start(t, l, transport)
		l.append(change("web", windsock.Failed))
		want(t, "version", r.await(t, 1)[0].ProtoMajor, 2)
	})
	t.Run("a certificate of nobody we know", func(t *testing.T) {
		l := newLog()
		l.add("m", spec(r.URL), "")
		transport := NewTransport(Guard{Self: onLoopback})
		transport.TLSClientConfig = r.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		p := start(t, l, transport)
		l.append(change("web", windsock.Failed))
		if got := failure(t, p, "m"); !strings.HasPrefix(got, "tls: x509: ") {
			t.Errorf("kept as %q", got)
		}
	})
}

func TestNoProxyOfTheEnvironment(t *testing.T) {
	if NewTransport(Guard{Self: onLoopback}).Proxy != nil {
		t.Error("a proxy would be asked for")
	}
}
