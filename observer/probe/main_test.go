package probe

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"windsock"
)

// TestMain makes the certificate of httptest a root, so that https can pass, and sends
// the questions for names to a name server of our own.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", writeRoot(dir))
	os.Setenv("SSL_CERT_DIR", dir)
	dialer.Resolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", names.address)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		names.conn.Close()
		os.RemoveAll(dir)
		os.Exit(code)
	}), goleak.IgnoreCurrent())
}

func writeRoot(dir string) string {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	file := filepath.Join(dir, "root.pem")
	if err := os.WriteFile(file, pemOf(srv.Certificate()), 0o600); err != nil {
		panic(err)
	}
	return file
}

// names answers a question for a name that contains "broken" with a failure, any other
// with "no such name", and none at all while it is silent.
var names = serveNames()

type nameServer struct {
	conn    net.PacketConn
	address string

	mu     sync.Mutex
	silent bool
	held   []question
}

type question struct {
	message []byte
	from    net.Addr
}

func serveNames() *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &nameServer{conn: conn, address: conn.LocalAddr().String()}
	go func() {
		for {
			buf := make([]byte, 1500)
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			s.answer(question{buf[:n], from})
		}
	}()
	return s
}

func (s *nameServer) answer(q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		s.held = append(s.held, q)
		return
	}
	s.reply(q)
}

func (s *nameServer) reply(q question) {
	const isAnswer, serverFailure, noSuchName = 0x80, 2, 3
	q.message[2] |= isAnswer
	q.message[3] = noSuchName
	if bytes.Contains(q.message, []byte("broken")) {
		q.message[3] = serverFailure
	}
	s.conn.WriteTo(q.message, q.from)
}

// beSilent gives no answer until the test ends, and then all that it owes: the Go
// resolver goes on asking for seconds after a look was given up.
func (s *nameServer) beSilent(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, q := range s.held {
			s.reply(q)
		}
		s.silent, s.held = false, nil
	})
}

// ample is a time-out that is not meant to pass, soon one that is.
const (
	ample = windsock.Duration(time.Minute)
	soon  = windsock.Duration(100 * time.Millisecond)
)

func wantResult(t *testing.T, got, want Result) {
	t.Helper()
	if got != want {
		t.Errorf("got %s: %q, want %s: %q", got.State, got.Reason, want.State, want.Reason)
	}
}
