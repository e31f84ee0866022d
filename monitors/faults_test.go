package monitors

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"windsock"
)

// A line is a connection to a receiver that follows a script.
type line struct {
	net.Conn
	in    *bufio.Reader
	r     *scripted
	takes bool // what it reads it takes
}

// request reads a callback, and notes it if it is to be taken.
func (c *line) request() bool {
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	if c.takes {
		c.r.note(req)
	}
	return true
}

// reset closes the connection so that the other side is told of an error.
func (c *line) reset() {
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// gone returns when the other side has closed the connection.
func (c *line) gone() { io.Copy(io.Discard, c.in) }

// A script is what an ill receiver does with a connection.
type script func(*line)

// says answers a callback so, and hangs up.
func says(answer string) script {
	return func(c *line) {
		if c.request() {
			io.WriteString(c, strings.ReplaceAll(answer, "\n", "\r\n"))
		}
	}
}

// and goes on after an answer.
func (s script) and(next script) script {
	return func(c *line) {
		s(c)
		next(c)
	}
}

// drips sends a byte at a time, and never comes to an end.
func drips(head string) script {
	return says(head).and(func(c *line) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	})
}

// pours sends so many bytes, or as many as are taken, and notes the most that were.
func pours(head string, size int64, most *atomic.Int64) script {
	return says(head).and(func(c *line) {
		chunk := []byte(strings.Repeat("x", 64<<10))
		for sent := int64(0); sent < size; sent += int64(len(chunk)) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
			most.Store(max(most.Load(), sent))
		}
	})
}

// speaksTLS shows a certificate, and takes what comes.
func speaksTLS(cert, key string) script {
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		panic(err)
	}
	return func(c *line) {
		conn := tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{pair}})
		defer conn.Close()
		serves(&line{conn, bufio.NewReader(conn), c.r, c.takes})
	}
}

// speaksFirst does not wait for what it is sent.
func speaksFirst(text string) script {
	return func(c *line) {
		io.WriteString(c, text)
		c.gone()
	}
}

// serves takes one callback after the other.
func serves(c *line) {
	for c.request() {
		if _, err := io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n"); err != nil {
			return
		}
	}
}

func hangs(c *line) { c.gone() }

// A scripted receiver does with each connection what its script says.
type scripted struct {
	addr string
	fd   int // bound to it
	ln   net.Listener
	all  sync.WaitGroup // connections, and who accepts them

	mu     sync.Mutex
	script script
	takes  bool
	took   map[string][]int64 // by subject
}

// newScripted returns a receiver that has an address and refuses every connection.
func newScripted(t *testing.T) *scripted {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	r := &scripted{fd: fd, addr: fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port), took: map[string][]int64{}}
	t.Cleanup(r.stop)
	return r
}

// follow has it do so with each connection from now on.
func (r *scripted) follow(s script, takes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script, r.takes = s, takes
}

// listen has connections accepted.
func (r *scripted) listen(t *testing.T) {
	t.Helper()
	if err := syscall.Listen(r.fd, 128); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(r.fd), "")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	r.ln = ln
	r.all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() {
				defer conn.Close()
				r.mu.Lock()
				play, takes := r.script, r.takes
				r.mu.Unlock()
				play(&line{conn, bufio.NewReader(conn), r, takes})
			})
		}
	})
}

// stop listens no more, and returns when all connections are closed.
func (r *scripted) stop() {
	if r.ln != nil {
		r.ln.Close()
	}
	r.all.Wait()
}

func (r *scripted) note(req *http.Request) {
	seq, _ := strconv.ParseInt(req.Header.Get("Ce-Sequence"), 10, 64)
	subject := req.Header.Get("Ce-Subject")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took[subject] = append(r.took[subject], seq)
}

// heard returns what it took of each subject, in order, and how much that is. What it
// took again, as we had given up on its answer, counts once.
func (r *scripted) heard() (by map[string][]int64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by = map[string][]int64{}
	for subject, seqs := range r.took {
		by[subject] = slices.Compact(slices.Clone(seqs))
		n += len(by[subject])
	}
	return by, n
}

// fiveThousandTimesAsFast shortens every wait of the table: 5 s are 1 ms.
func fiveThousandTimesAsFast() float64 { return (1.0/5000 - (1 - jitter)) / (2 * jitter) }

// Whatever a receiver does: it is known what that means, and once the receiver is well it
// hears everything, in order; nothing that was opened or begun for it is left.
func TestFaultsOfReceivers(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	soon := time.Now().Add(time.Hour)
	ca := newCA(t, "ours")
	good, goodKey, _ := issue(t, ca, "127.0.0.1", soon)
	expired, expiredKey, _ := issue(t, ca, "127.0.0.1", time.Now().Add(-time.Hour))
	wrong, wrongKey, _ := issue(t, ca, "elsewhere.example", soon)
	alone, aloneKey, _ := issue(t, nil, "127.0.0.1", soon)
	var poured, lured atomic.Int64
	lure := newReceiver(t, func(http.ResponseWriter, *http.Request) { lured.Add(1) })
	const giB = 1 << 30

	type test struct {
		script script
		scheme string // "": http
		means  meaning
		error  string // is in what is kept
	}
	tests := map[string]test{
		"connection refused":         {nil, "", away, "connect: connection refused"},
		"hangs before it answers":    {hangs, "", away, "timeout"},
		"hangs within the headers":   {says("HTTP/1.1 200 OK\n").and(hangs), "", away, "timeout"},
		"hangs within the body":      {says("HTTP/1.1 200 OK\nContent-Length: 9\n\n").and(hangs), "", away, "HTTP 200, then timeout"},
		"drips a header":             {drips("HTTP/1.1 200 OK\nX: "), "", away, "timeout"},
		"drips a body":               {drips("HTTP/1.1 200 OK\nContent-Length: 99999\n\n"), "", away, "HTTP 200, then timeout"},
		"closes without a word":      {says(""), "", away, "connection closed before the answer was complete"},
		"closes after the headers":   {says("HTTP/1.1 200 OK\nContent-Length: 9\n\n"), "", away, "HTTP 200, then connection closed before the answer was complete"},
		"closes within a chunk":      {says("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n9\nx"), "", away, "HTTP 200, then connection closed before the answer was complete"},
		"resets at once":             {(*line).reset, "", away, "connection reset by peer"},
		"resets within the body":     {says("HTTP/1.1 200 OK\nContent-Length: 9\n\nx").and((*line).reset), "", away, "connection reset by peer"},
		"100, then nothing":          {says("HTTP/1.1 100 Continue\n\n").and(hangs), "", away, "timeout"},
		"100, then 200":              {says("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 0\n\n"), "", taken, ""},
		"103, then 204":              {says("HTTP/1.1 103 Early Hints\nLink: </x>\n\nHTTP/1.1 204 No Content\n\n"), "", taken, ""},
		"103 without end":            {says(strings.Repeat("HTTP/1.1 103 Early Hints\nLink: </x>\n\n", 9999)).and(hangs), "", away, "headers exceeded"},
		"101, then nothing":          {says("HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: x\n\n").and(hangs), "", refused, "HTTP 101"},
		"no status line":             {says("220 mail.example ESMTP\n\n"), "", away, "malformed HTTP"},
		"a status that is no number": {says("HTTP/1.1 OK\n\n"), "", away, "malformed HTTP"},
		"headers without end":        {says("HTTP/1.1 200 OK\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\n", 1000)), "", away, "headers exceeded"},
		"garbage for a chunk":        {says("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nzz\n"), "", away, "HTTP 200, then invalid byte in chunk length"},
		"a body of 1 GiB":            {pours(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\n", giB), giB, &poured), "", taken, ""},
		"an error of 1 GiB":          {pours(fmt.Sprintf("HTTP/1.1 500 Oh\nContent-Length: %d\n\n", giB), giB, &poured), "", refused, "HTTP 500: xxx"},
		"no JSON":                    {says("HTTP/1.1 200 OK\nContent-Length: 4\n\nfail"), "", taken, ""},
		"nothing":                    {says("HTTP/1.1 204 No Content\n\n"), "", taken, ""},
		"it says fail":               {says("HTTP/1.1 200 OK\nContent-Length: 17\n\n{\"result\":\"fail\"}"), "", refused, `HTTP 200, but: {"result":"fail"}`},
		"410":                        {says("HTTP/1.1 410 Gone\nContent-Length: 0\n\n"), "", gone, "HTTP 410"},
		"429 with a date":            {says("HTTP/1.1 429 Too Many Requests\nRetry-After: " + time.Now().UTC().Format(http.TimeFormat) + "\nContent-Length: 0\n\n"), "", away, "HTTP 429"},
		"429 with seconds":           {says("HTTP/1.1 429 Too Many Requests\nRetry-After: 1\nContent-Length: 0\n\n"), "", away, "HTTP 429"},
		"503 with seconds":           {says("HTTP/1.1 503 Service Unavailable\nRetry-After: 1\nContent-Length: 0\n\n"), "", away, "HTTP 503"},
		"an expired certificate":     {speaksTLS(expired, expiredKey), "https", away, "tls: x509: certificate has expired"},
		"a certificate of another":   {speaksTLS(wrong, wrongKey), "https", away, "tls: x509: cannot validate certificate for 127.0.0.1"},
		"a certificate of its own":   {speaksTLS(alone, aloneKey), "https", away, "tls: x509: certificate signed by unknown authority"},
		"plain where TLS is due":     {speaksFirst("HTTP/1.1 400 Bad Request\r\n\r\n"), "https", away, "tls: first record does not look like a TLS handshake"},
		"nonsense where TLS is due":  {speaksFirst("220 mail.example ESMTP\r\n"), "https", away, "tls: first record does not look like a TLS handshake"},
		"TLS where plain is due":     {says("\x15\x03\x01\x00\x02\x02\x46"), "", away, "malformed HTTP response"},
	}

	for _, status := range []int{301, 302, 303, 307, 308} {
		tests[fmt.Sprint("to loopback, by ", status)] = test{
			says(fmt.Sprintf("HTTP/1.1 %d Elsewhere\nLocation: %s/?token=T0KEN\nContent-Length: 0\n\n", status, lure.URL)),
			"", refused, fmt.Sprintf("HTTP %d: redirects are not followed", status),
		}
	}

	l := newLog()
	receivers := map[string]*scripted{}
	for name, tc := range tests {
		r := newScripted(t)
		receivers[name] = r
		r.follow(tc.script, tc.means == taken)
		if tc.script != nil {
			r.listen(t)
		}
		m := spec("http://" + r.addr)
		m.Scheme = tc.scheme
		l.add(name, m, "")
		if tc.scheme == "https" {
			l.change(name, func(m *windsock.Target) { m.TLS.CA = ca.pem })
		}
	}
	first := l.Head() + 1
	p := start(t, l, nil, ours, func(d *Deliverer) { d.Timeout, d.Rand = time.Second, fiveThousandTimesAsFast })
	l.append(changes(21)...) // three of each of seven subjects
	due := map[string][]int64{}
	for i := range int64(21) {
		subject := fmt.Sprint("instance/web-", i%7)
		due[subject] = append(due[subject], first+i)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("want meaning %d and %q; got %+v", tc.means, tc.error, p.delivery(t, name))
				}
			}()
			eventually(t, "what it means", func() bool {
				d, _ := p.Delivery(name)
				told := tc.error != "" && strings.Contains(d.LastError, tc.error)
				switch tc.means {
				case taken:
					return d.State == "idle" && !d.SuccessAt.IsZero()
				case refused:
					return told && d.Parked > 0
				case away:
					return told && d.Parked == 0 && d.State == "retrying"
				}
				return told && d.PausedBy == windsock.PausedByGone
			})
		})
	}

	for name, tc := range tests {
		well := script(serves)
		if tc.scheme == "https" {
			well = speaksTLS(good, goodKey)
		}
		r := receivers[name]
		r.follow(well, true)
		if tc.script == nil {
			r.listen(t)
		}
	}
	for name, r := range receivers {
		t.Run(name+", then well", func(t *testing.T) {
			eventually(t, "all is taken", func() bool { _, n := r.heard(); return n >= 21 })
			eventually(t, "nothing waits", func() bool { return p.delivery(t, name).State == "idle" })
			heard, _ := r.heard()
			want(t, "taken of each subject", heard, due)
		})
	}
	if n := lured.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
	if n := poured.Load(); n > 64<<20 { // what sockets hold, and more
		t.Errorf("%d MiB were taken of an answer of 1 GiB", n>>20)
	}
	p.stop()
	for _, r := range receivers {
		r.stop() // when it has no connection any more
	}
	lure.Close()
	goleak.VerifyNone(t, leaks)
}
