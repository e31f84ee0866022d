package monitors

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"windsock"
)

// A trace notes how a request goes on its way, as the transport tells it. That is done by
// several goroutines, and those of a dial may go on when the request has got another
// connection, or has ended. What they say then does not count.
type trace struct {
	httptrace.ClientTrace

	mu    sync.Mutex
	ended time.Time // zero: it is under way
	way
}

// A way is that of a request by one connection. The transport may try another one.
type way struct {
	dialled           string   // what was dialled last
	conn              net.Addr // the other end of the connection that was got; nil: none was
	reused            bool
	dns, connect, tls phase
	since             time.Time // when it was got
	sent, first       time.Time // the end of the request, the first byte of its answer
}

// A phase of a request lasts from one time to another; zero: not begun, not ended.
type phase struct{ from, to time.Time }

// lasted returns how long it took, if only until the request ended. It is kept in
// microseconds, and one that took place is not none.
func (p phase) lasted(end time.Time) windsock.Duration {
	switch {
	case p.from.IsZero():
		return 0
	case !p.to.IsZero():
		end = p.to
	}
	return windsock.Duration(max(end.Sub(p.from).Truncate(time.Microsecond), time.Microsecond))
}

// follow returns a context by which a transport tells of a request, and what notes that.
// There is one for each callback, so it has only those hooks that each needs.
func follow(ctx context.Context, secure bool) (context.Context, *trace) {
	t := new(trace)
	t.GetConn, t.GotConn, t.WroteRequest, t.GotFirstResponseByte = t.begin, t.got, t.wrote, t.answered
	if secure {
		t.TLSHandshakeStart = func() { t.dialling(func() { t.tls.from = time.Now() }) }
		t.TLSHandshakeDone = func(tls.ConnectionState, error) { t.dialling(func() { t.tls.to = time.Now() }) }
	}
	return httptrace.WithClientTrace(context.WithValue(ctx, traceKey{}, t), &t.ClientTrace), t
}

type traceKey struct{}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// traced has dial tell the trace of the request for which it dials.
func traced(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if t, ok := ctx.Value(traceKey{}).(*trace); ok {
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				DNSStart:     func(httptrace.DNSStartInfo) { t.dialling(func() { t.dns.from = time.Now() }) },
				DNSDone:      func(httptrace.DNSDoneInfo) { t.dialling(func() { t.dns.to = time.Now() }) },
				ConnectStart: func(_, addr string) { t.dialling(func() { t.dial(addr) }) },
				ConnectDone:  func(_, addr string, err error) { t.dialling(func() { t.connected(addr, err) }) },
			})
		}
		return dial(ctx, network, addr)
	}
}

// note has f note something while the request is under way.
func (t *trace) note(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended.IsZero() {
		f()
	}
}

// dialling is note for what comes before there is a connection.
func (t *trace) dialling(f func()) {
	t.note(func() {
		if t.conn == nil {
			f()
		}
	})
}

// dial notes that an address is dialled; a name may have several.
func (t *trace) dial(addr string) {
	t.dialled = addr
	if t.connect.from.IsZero() {
		t.connect.from = time.Now()
	}
}

func (t *trace) connected(addr string, err error) {
	var refused blocked
	switch {
	case err == nil:
		t.dialled, t.connect.to = addr, time.Now()
	case errors.As(err, &refused):
		t.dialled = "" // it was not, and is not shown
	}
}

// begin notes that a connection is wanted.
func (t *trace) begin(string) { t.note(func() { t.way = way{} }) }

// got notes the connection. If that is not the one that was dialled for this request, how
// that went is nothing to it.
func (t *trace) got(c httptrace.GotConnInfo) {
	t.note(func() {
		t.conn, t.reused, t.since = c.Conn.RemoteAddr(), c.Reused, time.Now()
		if c.Reused || c.WasIdle || t.connect.to.IsZero() || !t.tls.from.IsZero() && t.tls.to.IsZero() {
			t.dns, t.connect, t.tls = phase{}, phase{}, phase{}
		}
	})
}

func (t *trace) wrote(w httptrace.WroteRequestInfo) {
	if w.Err == nil {
		t.note(func() { t.sent = time.Now() })
	}
}

func (t *trace) answered() { t.note(func() { t.first = time.Now() }) }

// waiting is the phase from the end of the request to its answer. An answer may be there
// before we are told that the request is; then it is that from its beginning.
func (t *trace) waiting() phase {
	if !t.first.IsZero() && (t.sent.IsZero() || t.sent.After(t.first)) {
		return phase{t.since, t.first}
	}
	return phase{t.sent, t.first}
}

// end ends it with the request.
func (t *trace) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = time.Now()
}

// wire returns how the request went that has been replied to.
func (r *reply) wire() windsock.Wire {
	t := r.trace
	if t == nil {
		return windsock.Wire{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := windsock.Wire{Remote: t.dialled, Reused: t.reused, Protocol: r.protocol, Phases: windsock.Phases{
		DNS: t.dns.lasted(t.ended), Connect: t.connect.lasted(t.ended), TLS: t.tls.lasted(t.ended),
		FirstByte: t.waiting().lasted(t.ended), Body: phase{t.first, t.ended}.lasted(t.ended),
	}}
	if t.conn != nil {
		w.Remote = t.conn.String()
	}
	return w
}
