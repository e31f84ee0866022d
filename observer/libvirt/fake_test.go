package libvirt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"windsock"
	"windsock/observer"
	"windsock/observer/providertest"
)

// fake is a libvirtd that answers what the real one was seen to.
type fake struct {
	t  *testing.T
	at string // its socket

	mu      sync.Mutex
	domains []domain
	events  []func(libvirt.UUID) // to those who listen
	hangUp  []func()
	broken  providertest.Fault
	pages   int // that were good
}

type domain struct {
	libvirt.Domain
	state, reason int32
	metadata      string
}

// The procedures of libvirt's remote protocol that are called.
const (
	procOpen        = 1
	procLookup      = 24
	procHostname    = 59
	procAuthList    = 66
	procGetState    = 212
	procGetMetadata = 265
	procListAll     = 273
	procRegister    = 316
	procLifecycle   = 318
)

func newFake(t *testing.T) *fake {
	f := &fake{t: t, at: filepath.Join(t.TempDir(), "sock"), broken: providertest.Fine}
	l, err := net.Listen("unix", f.at)
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.serve(ctx, c) })
		}
	})
	return f
}

// A session is one connection.
type session struct {
	*fake
	net.Conn
	writing sync.Mutex
	listing bool
	seen    int // domains that were looked at since they were listed
}

func (f *fake) serve(ctx context.Context, c net.Conn) {
	s := &session{fake: f, Conn: c}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for {
		var head [minFrame]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		args := make([]byte, binary.BigEndian.Uint32(head[:])-minFrame)
		if _, err := io.ReadFull(c, args); err != nil {
			return
		}
		calls.Go(func() { s.answer(ctx, binary.BigEndian.Uint32(head[12:]), binary.BigEndian.Uint32(head[20:]), args) })
	}
}

// answer answers a call, or does what the present fault makes of that: what that says is
// put into a message where it is the begin of one, and else comes as it is.
func (s *session) answer(ctx context.Context, proc, serial uint32, args []byte) {
	fault := s.fault(proc)
	body, refused := s.call(proc, args)
	w := &reply{conn: s.Conn, header: http.Header{}}
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	fault.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })).ServeHTTP(w, r)
	switch {
	case w.hijacked:
	case w.status >= 400:
		s.send(proc, 1, serial, 1, failure(libvirt.ErrSystemError, w.body.String()))
	case refused != 0:
		s.send(proc, 1, serial, 1, failure(refused, "as the test wants it"))
	case w.header.Get("Content-Length") != "":
		s.Write(slices.Concat(frame(proc, 1, serial, 0, body)[:minFrame], w.body.Bytes()))
		s.Close()
	case w.body.Len() > 0 && bytes.HasPrefix(body, w.body.Bytes()) || len(body) == 0 && w.body.Len() == 0:
		s.send(proc, 1, serial, 0, w.body.Bytes())
	default:
		s.Write(w.body.Bytes())
		s.Close()
	}
}

func (s *session) fault(proc uint32) providertest.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := 0
	switch {
	case proc == procListAll:
		s.listing = true
	case proc == procGetState && s.listing:
		page = s.seen / providertest.PageSize
		s.seen++
	case proc == procGetMetadata && s.listing:
		page = (s.seen - 1) / providertest.PageSize
	}
	if page < s.pages {
		return providertest.Fine
	}
	return s.broken
}

// call returns what a procedure answers, or an error.
func (s *session) call(proc uint32, args []byte) (body []byte, refused libvirt.ErrorNumber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	find := func(uuid []byte) *domain {
		i := slices.IndexFunc(s.domains, func(d domain) bool { return bytes.Equal(d.UUID[:], uuid) })
		if i < 0 {
			return nil
		}
		return &s.domains[i]
	}
	named := func() *domain { // by a domain, which is its name, its UUID and its number
		n := binary.BigEndian.Uint32(args)
		return find(args[4+(n+3)/4*4:][:16])
	}
	switch proc {
	case procOpen:
		return nil, 0
	case procAuthList:
		return xdr(int32(1), int32(0)), 0
	case procHostname:
		return xdr("kvm-1"), 0
	case procRegister:
		s.fake.hangUp = append(s.fake.hangUp, func() { s.Close() })
		s.fake.events = append(s.fake.events, func(u libvirt.UUID) {
			s.send(procLifecycle, 2, 0, 0, xdr(int32(7), "", u, int32(-1), int32(5), int32(1)))
		})
		return xdr(int32(7)), 0
	case procListAll:
		var list []any
		for i, d := range s.domains {
			if i > 0 && s.broken.String() == providertest.Repeating.String() {
				list = append(list, s.domains[i-1].Domain)
			}
			list = append(list, d.Domain)
		}
		return slices.Concat(xdr(int32(len(list))), xdr(list...), xdr(int32(len(list)))), 0
	case procLookup:
		if d := find(args); d != nil {
			return xdr(d.Domain), 0
		}
	case procGetState:
		if d := named(); d != nil {
			return xdr(d.state, d.reason), 0
		}
	case procGetMetadata:
		switch d := named(); {
		case d != nil && d.metadata != "":
			return xdr(d.metadata), 0
		case d != nil:
			return nil, libvirt.ErrNoDomainMetadata
		}
	default:
		s.t.Errorf("procedure %d is called", proc)
	}
	return nil, libvirt.ErrNoDomain
}

func failure(code libvirt.ErrorNumber, text string) []byte {
	return xdr(int32(code), int32(10), int32(1), text, int32(2))
}

func (s *session) send(proc, kind, serial, status uint32, body []byte) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.Write(frame(proc, kind, serial, status, body))
}

func frame(proc, kind, serial, status uint32, body []byte) (b []byte) {
	for _, n := range [...]uint32{uint32(minFrame + len(body)), 0x20008086, 1, proc, kind, serial, status} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, body...)
}

// xdr encodes what libvirt sends.
func xdr(list ...any) (b []byte) {
	for _, v := range list {
		switch v := v.(type) {
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
			b = append(b, make([]byte, -len(v)&3)...)
		case libvirt.UUID:
			b = append(b, v[:]...)
		case libvirt.Domain:
			b = append(b, xdr(v.Name, v.UUID, v.ID)...)
		}
	}
	return b
}

// reply is what a fault writes to.
type reply struct {
	conn     net.Conn
	header   http.Header
	status   int
	body     bytes.Buffer
	hijacked bool
}

func (r *reply) Header() http.Header         { return r.header }
func (r *reply) WriteHeader(status int)      { r.status = status }
func (r *reply) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.hijacked = true
	return r.conn, nil, nil
}

// with changes the host while it is observed.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// put makes a domain, or changes it.
func (f *fake) put(d domain) {
	f.with(func() {
		if i := slices.IndexFunc(f.domains, func(other domain) bool { return other.UUID == d.UUID }); i >= 0 {
			f.domains[i] = d
		} else {
			f.domains = append(f.domains, d)
		}
	})
}

func (f *fake) provider(c Config) *Provider {
	f.t.Helper()
	if c.URI == "" {
		c.URI = "qemu:///system?socket=" + f.at
	}
	p, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	p.page = providertest.PageSize
	return p
}

// suite is the fake as the suite of all providers drives it.
type suite struct{ *fake }

func (s suite) Provider() observer.Provider { return s.provider(Config{}) }

func (s suite) Put(i providertest.Instance) {
	number := func(of []string, word string) int32 {
		if n := slices.Index(of, word); n >= 0 {
			return int32(n)
		}
		n, _ := strconv.Atoi(word)
		return int32(n)
	}
	d := domain{metadata: `<w:instance xmlns:w="urn:windsock" deployment="` + i.Deployment + `"/>`}
	d.UUID, _ = parseUUID(i.ID)
	d.Name, d.ID = i.Name, -1
	state, why, _ := strings.Cut(i.Word, " ")
	d.state, d.reason = number(states[:], state), number(reasons[state], why)
	s.put(d)
}

func (s suite) Remove(id string) { s.Lose(id) }

func (s suite) Lose(id string) {
	s.with(func() {
		s.domains = slices.DeleteFunc(s.domains, func(d domain) bool { return formatUUID(d.UUID) == id })
	})
}

func (s suite) Word(state windsock.State) string {
	return map[windsock.State]string{windsock.Running: "running", windsock.Stopped: "shutoff destroyed", windsock.Failed: "shutoff crashed", windsock.Unknown: "42"}[state]
}

func (s suite) Break(pages int, f providertest.Fault) {
	s.with(func() { s.pages, s.broken = pages, f })
}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Cloud { return suite{newFake(t)} })
}
