package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"windsock"
)

// A lot is where connections are while their clients wait for work: away from the HTTP
// server, which keeps two goroutines and 10 KiB of buffers for each. As a listener it
// hands them back.
type lot struct {
	back   chan net.Conn
	ctx    context.Context // ends with the server, or with the listener
	close  context.CancelFunc
	served func(status int, took time.Duration, in trace.SpanContext)
	parked sync.WaitGroup
}

// Parked returns a listener that the HTTP server of the Handler has to serve beside that
// of its address: from it come those back who waited for work. Without it they wait in
// the server. It is called once, after Handler.
func (s *Server) Parked() net.Listener {
	s.lot = &lot{back: make(chan net.Conn), served: s.metrics.route(http.MethodGet, workPath)}
	s.lot.ctx, s.lot.close = context.WithCancel(s.Stop)
	return s.lot
}

// Wait returns when nobody is parked any more, which is soon after Stop.
func (s *Server) Wait() { s.lot.parked.Wait() }

func (l *lot) Accept() (net.Conn, error) {
	select {
	case c := <-l.back:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *lot) Close() error   { l.close(); return nil }
func (l *lot) Addr() net.Addr { return &net.TCPAddr{} }

// give hands a connection back to the server, which first reads the head.
func (l *lot) give(c net.Conn, head []byte) {
	was := &resumed{c, head}
	var back net.Conn = was
	if s, is := c.(secure); is {
		back = resumedTLS{was, s}
	}
	select {
	case l.back <- back:
	case <-l.ctx.Done():
		c.Close()
	}
}

// resumed is a connection of which some was read already.
type resumed struct {
	net.Conn
	head []byte
}

func (c *resumed) Read(p []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}

// resumedTLS is one that the server knows to be a connection of TLS.
type resumedTLS struct {
	*resumed
	secure
}

type secure interface{ ConnectionState() tls.ConnectionState }

// bare is c without what it was handed back in, if none of that is needed any more.
func bare(c net.Conn) net.Conn {
	was, did := c.(*resumed)
	if s, is := c.(resumedTLS); is {
		was, did = s.resumed, true
	}
	if did && len(was.head) == 0 {
		return was.Conn
	}
	return c
}

// park takes the connection of one who has all that there is to do from the server, for
// as long as he waits for more, and reports whether it did. If there is more the server is
// given his request once more, without the wait.
func (s *Server) park(w http.ResponseWriter, r *http.Request, has *windsock.Work, wait time.Duration) bool {
	if s.lot == nil || r.ContentLength != 0 || r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) {
		return false // what is sent after its head is not ours to read
	}
	tag := w.Header().Get("ETag")
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil { // there is none to take, with HTTP/2
		return false
	}
	c = bare(c)
	ahead, _ := rw.Reader.Peek(rw.Reader.Buffered()) // what follows, of which some is here already
	ahead = bytes.Clone(ahead)
	again, last, start := headOf(r), r.Close, time.Now()
	s.lot.parked.Go(func() {
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		waiting, cancel := context.WithTimeout(s.lot.ctx, wait)
		defer cancel()
		err := s.Software.AwaitWork(waiting, has.InstanceID, has.Revision)
		if err == nil || waiting.Err() == nil { // what is wrong is told to him who asks again
			s.lot.give(c, append(again, ahead...))
			return
		}
		last := last || s.lot.ctx.Err() != nil
		s.lot.served(http.StatusNotModified, time.Since(start), trace.SpanContext{})
		if !notModified(c, tag, last) || last {
			c.Close()
			return
		}
		s.lot.give(c, ahead)
	})
	return true
}

// headOf is a request for work that does not wait.
func headOf(r *http.Request) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\n", r.Method, r.URL.EscapedPath(), r.Proto, r.Host)
	r.Header.Write(&b)
	b.WriteString("\r\n")
	return bytes.Clone(b.Bytes()) // no longer than it is
}

// notModified answers one who waited in vain, and reports whether he took it.
func notModified(c net.Conn, tag string, last bool) bool {
	keep := ""
	if last {
		keep = "Connection: close\r\n"
	}
	c.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := io.WriteString(c, "HTTP/1.1 304 Not Modified\r\nCache-Control: no-store\r\nDate: "+time.Now().UTC().Format(http.TimeFormat)+
		"\r\nEtag: "+tag+"\r\nX-Content-Type-Options: nosniff\r\n"+keep+"\r\n")
	return err == nil
}
