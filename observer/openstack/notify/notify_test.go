package notify

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"windsock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const soon = 30 * time.Second // longer than anything takes that comes at all

// broker returns the URL of the RabbitMQ to test with.
func broker(t *testing.T) *url.URL {
	t.Helper()
	u, err := url.Parse(os.Getenv("WINDSOCK_TEST_AMQP"))
	if err != nil || u.Host == "" {
		t.Skip("set WINDSOCK_TEST_AMQP to the URL of a RabbitMQ to try this on")
	}
	return u
}

// A cloud is an exchange of its own that notifications are published to.
type cloud struct {
	exchange string
	ch       *amqp.Channel
}

func newCloud(t *testing.T) cloud {
	conn, err := amqp.Dial(broker(t).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return cloud{"windsock-test-" + rand.Text(), ch}
}

// begin makes the exchange, as the services do with the first they say.
func (c cloud) begin(t *testing.T) {
	if err := c.ch.ExchangeDeclare(c.exchange, amqp.ExchangeTopic, false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

// publish returns when the broker has all of them.
func (c cloud) publish(t *testing.T, key string, bodies ...[]byte) {
	t.Helper()
	var last *amqp.DeferredConfirmation
	for _, body := range bodies {
		var err error
		if last, err = c.ch.PublishWithDeferredConfirm(c.exchange, key, false, false, amqp.Publishing{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-last.Done():
	case <-time.After(soon):
		t.Fatal("the broker does not confirm")
	}
}

// about is a notification about the nth of some servers.
func about(n int) []byte {
	inner, _ := json.Marshal(map[string]any{"event_type": "compute.instance.update", "payload": map[string]any{"instance_id": server(n).ID}})
	outer, _ := json.Marshal(map[string]string{"oslo.version": "2.0", "oslo.message": string(inner)})
	return outer
}

func server(n int) windsock.Subject {
	return windsock.Subject{Kind: windsock.KindInstance, ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n)}
}

// A listener is a Listen under way.
type listener struct {
	listening chan struct{}
	hints     chan windsock.Subject
	ended     chan error
	cancel    context.CancelFunc
}

func start(t *testing.T, url string, exchanges ...string) *listener {
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{make(chan struct{}, 10), make(chan windsock.Subject), make(chan error, 1), cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		l.ended <- Listen(ctx, Config{URL: url, Exchanges: exchanges},
			func() { l.listening <- struct{}{} },
			func(s windsock.Subject) {
				select {
				case l.hints <- s:
				case <-ctx.Done():
				}
			})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l
}

// next returns what comes next of c, and fails the test if the listener ends before.
func next[T any](t *testing.T, l *listener, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case err := <-l.ended:
		t.Fatalf("waiting for %s: Listen ended: %v", what, err)
	case <-time.After(soon):
		t.Fatalf("waiting for %s in vain", what)
	}
	return v
}

// end returns the error that Listen ends with.
func (l *listener) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(2 * soon):
		t.Fatal("Listen does not end")
		return nil
	}
}

func TestNotificationsOfBothFormatsAreHeard(t *testing.T) {
	c := newCloud(t)
	c.begin(t)
	l := start(t, broker(t).String(), c.exchange)
	next(t, l, "listening", l.listening)
	c.publish(t, "notifications.info", []byte("garbage"), about(1))
	if got := next(t, l, "a legacy notification", l.hints); got != server(1) {
		t.Errorf("heard of %v, want %v", got, server(1))
	}
	c.publish(t, "conductor", about(2)) // what services say to each other is none of our business
	c.publish(t, "versioned_notifications.error", about(3))
	if got := next(t, l, "a versioned notification", l.hints); got != server(3) {
		t.Errorf("heard of %v, want %v", got, server(3))
	}
	l.cancel()
	if err := l.end(t); err != context.Canceled {
		t.Errorf("ended with %v when its context did", err)
	}
}

func TestStacksAreHintedAtTwice(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.begin(t)
	l := start(t, broker(t).String(), c.exchange)
	next(t, l, "listening", l.listening)
	var want []windsock.Subject
	for _, r := range recordings(t) {
		if r.About == "shop" {
			c.publish(t, "notifications.info", []byte(r.Body))
			s, _ := subject([]byte(r.Body))
			want = append(want, s, s)
		}
	}
	c.publish(t, "notifications.info", about(1))
	want = append(want, server(1))
	heard := map[windsock.Subject]int{}
	for range want {
		heard[next(t, l, "all of them", l.hints)]++
	}
	for _, s := range want {
		heard[s]--
	}
	for s, n := range heard {
		if n != 0 {
			t.Errorf("%v was hinted at %d times too often", s, n)
		}
	}
}

func TestAnExchangeMayComeLater(t *testing.T) {
	t.Parallel()
	early, late := newCloud(t), newCloud(t)
	early.begin(t)
	l := start(t, broker(t).String(), late.exchange, early.exchange)
	next(t, l, "listening to the one", l.listening)
	early.publish(t, "notifications.info", about(1))
	next(t, l, "a notification of the one", l.hints)
	late.begin(t)
	next(t, l, "listening to the other", l.listening)
	late.publish(t, "notifications.info", about(2))
	if got := next(t, l, "a notification of the other", l.hints); got != server(2) {
		t.Errorf("heard of %v, want %v", got, server(2))
	}
}

// Whoever does not read makes neither the broker nor us keep more than a bounded number:
// what is older gives way.
func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.begin(t)
	l := start(t, broker(t).String(), c.exchange)
	next(t, l, "listening", l.listening)
	const all = queueLength + prefetch + 1000
	bodies := make([][]byte, all)
	for i := range bodies {
		bodies[i] = about(i)
	}
	c.publish(t, "notifications.info", bodies...) // nobody takes the first hint
	heard := 0
	for {
		heard++
		if next(t, l, "the rest", l.hints) == server(all-1) {
			break
		}
	}
	if most := queueLength + prefetch; heard > most {
		t.Errorf("heard %d of %d, want at most %d", heard, all, most)
	}
	t.Logf("heard %d of %d", heard, all)
}

// A proxy is a network between us and a broker that can be cut, or falls silent.
type proxy struct {
	addr string
	mu   sync.Mutex
	open []net.Conn
	mute bool
}

// newProxy makes one that speaks TLS if there is a config for it.
func newProxy(t *testing.T, config *tls.Config) *proxy {
	target := broker(t).Host
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		ln = tls.NewListener(ln, config)
	}
	p := &proxy{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, near, far)
			p.mu.Unlock()
			for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
				wg.Go(func() { io.Copy(p.through(to), from); to.Close() })
			}
		}
	})
	t.Cleanup(func() { ln.Close(); p.cut(); wg.Wait() })
	return p
}

// through writes to w unless the proxy is mute.
func (p *proxy) through(w io.Writer) io.Writer {
	return writer(func(b []byte) (int, error) {
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if mute {
			return len(b), nil
		}
		return w.Write(b)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
}

func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

func TestALostConnectionIsAnError(t *testing.T) {
	for name, lose := range map[string]func(*proxy){
		"the connection is cut":          (*proxy).cut,
		"there is no heartbeat any more": (*proxy).silence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.begin(t)
			p := newProxy(t, nil)
			u := broker(t)
			u.Host, u.RawQuery = p.addr, "heartbeat=1"
			l := start(t, u.String(), c.exchange)
			next(t, l, "listening", l.listening)
			lose(p)
			if err := l.end(t); err == nil || !strings.Contains(err.Error(), "connection lost") {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestALostQueueIsAnError(t *testing.T) {
	c := newCloud(t)
	c.begin(t)
	conn, err := amqp.Dial(broker(t).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	queue := "windsock-" + rand.Text()
	remove := func() { // as soon as it listens; nobody else may
		if ch, err := conn.Channel(); err != nil {
			t.Error(err)
		} else if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	err = listen(ctx, conn, queue, []string{c.exchange}, remove, func(windsock.Subject) {})
	if err == nil || !strings.Contains(err.Error(), "taken away") {
		t.Errorf("ended with %v", err)
	}
}

func TestTLS(t *testing.T) {
	c := newCloud(t)
	c.begin(t)
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	u := broker(t)
	u.Scheme, u.Host = "amqps", newProxy(t, &tls.Config{Certificates: web.TLS.Certificates}).addr
	if err := start(t, u.String(), c.exchange).end(t); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	u.RawQuery = url.Values{"cacertfile": {ca}}.Encode()
	l := start(t, u.String(), c.exchange)
	next(t, l, "listening", l.listening)
}

func TestErrorsDoNotShowThePassword(t *testing.T) {
	const password = "pa55word"
	try := func(t *testing.T, url string) {
		err := start(t, url).end(t)
		if err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"amqp://u:" + password + "%zz@localhost/", "amqp://u:/" + password + "@localhost/", "http://u:" + password + "@localhost/",
		"amqp://u:x" + password + " @localhost/", "amqp://u:" + password + "@127.0.0.1:1/", "amqps://u:" + password + "@127.0.0.1:1/?cacertfile=/nowhere",
	} {
		try(t, url)
	}
	t.Run("a wrong one", func(t *testing.T) {
		u := broker(t)
		u.User = url.UserPassword("nobody", password)
		try(t, u.String())
	})
}

// A broker that accepts and says nothing holds nobody up who has to stop.
func TestTheContextEndsTheHandshake(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l := start(t, "amqp://"+ln.Addr().String())
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l.cancel()
	select {
	case err := <-l.ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(dialLimit / 2):
		t.Error("the context ended, and Listen waits on")
	}
}
