package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"windsock"
)

// DemoCmd is "windsock demo".
type DemoCmd struct {
	Listen  string        `help:"Address windsock answers on; a free port if it is taken (default ${listen})." placeholder:"HOST:PORT" default:"${listen}" env:"WINDSOCK_LISTEN"`
	Exit    bool          `help:"End when all was shown." env:"DEMO_EXIT"`
	Timeout time.Duration `help:"How long it may take to show all (default ${default})." placeholder:"TIME" default:"1m"`
}

// Run shows windsock at work, and then stays up until ctx ends.
func (c *DemoCmd) Run(ctx context.Context, io stdio) error {
	dir, err := os.MkdirTemp("", "windsock-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	monitor, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d := &demo{
		out:       io.out,
		monitor:   monitor.Addr().(*net.TCPAddr),
		callbacks: make(chan *callback, 100),
		web:       service{id: "web"},
		cart:      service{id: "cart"},
		stock:     service{id: "stock"},
	}
	for _, s := range d.services() {
		if err := s.start(); err != nil {
			return err
		}
		defer s.stop()
	}

	user := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan string, 1)
	g.Go(func() error {
		return serve(ctx, ServeOptions{
			Listen: c.address(io.out),
			DB:     filepath.Join(dir, "windsock.db"),
			Log:    slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		}, func(addr string) { ready <- addr })
	})
	g.Go(func() error { return answerOn(ctx, monitor, d.receiver(ctx)) })
	g.Go(func() error {
		defer cancel()
		select {
		case addr := <-ready:
			d.base = "http://" + addr
		case <-ctx.Done():
			return nil // somebody else failed, or we were interrupted
		}
		within, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		err := d.show(within)
		if user.Err() != nil {
			return nil // what was not shown was not wanted
		}
		if err == nil && !c.Exit {
			d.stay(ctx)
		}
		return err
	})
	return g.Wait()
}

// address returns where windsock is to answer: as asked, or on any port if that one is
// taken.
func (c *DemoCmd) address(out io.Writer) string {
	l, err := net.Listen("tcp", c.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		fmt.Fprintf(out, "(%s is taken, so another port is used.)\n", c.Listen)
		return "127.0.0.1:0"
	case err == nil:
		l.Close()
	}
	return c.Listen
}

// demo is a deployment of three services, a monitor and the one who tells the story.
type demo struct {
	out              io.Writer
	base             string // of windsock's URLs
	monitor          *net.TCPAddr
	web, cart, stock service
	callbacks        chan *callback
}

func (d *demo) services() []*service { return []*service{&d.web, &d.cart, &d.stock} }

// show goes through the main job. Each step waits until the monitor was told what it
// is to be told.
func (d *demo) show(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.addMonitor, d.declare, d.fail, d.accuse, d.absolve, d.recover,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.say("The monitor was told of every failure, and of every way back.")
	return nil
}

func (d *demo) addMonitor(ctx context.Context) error {
	d.say("windsock answers at %s. A monitor is added, which listens on %s.", d.base, d.monitor)
	return d.send(ctx, http.MethodPost, "/api/monitors/add", windsock.MonitorSpec{
		Version: windsock.Version,
		Name:    "demo",
		Address: d.monitor.IP.String(),
		Port:    d.monitor.Port,
	})
}

func (d *demo) declare(ctx context.Context) error {
	d.say("The deployment shop is declared: three services on this machine, looked at every second.")
	shop := windsock.DeploymentSpec{ID: "shop", Metadata: map[string]string{"owner": "demo"}}
	if err := d.send(ctx, http.MethodPut, "/api/deployments/shop", shop); err != nil {
		return err
	}
	started := []told{{windsock.KindDeployment, "shop", windsock.StartDetected}}
	for _, s := range d.services() {
		if err := d.send(ctx, http.MethodPut, "/api/instances/"+s.id, s.spec("shop")); err != nil {
			return err
		}
		started = append(started, told{windsock.KindInstance, s.id, windsock.StartDetected})
	}
	return d.await(ctx, started...)
}

func (d *demo) fail(ctx context.Context) error {
	d.say("The service cart dies. Two looks later the monitor is told, of the instance and of its deployment:")
	d.cart.stop()
	return d.await(ctx,
		told{windsock.KindInstance, "cart", windsock.FailDetected},
		told{windsock.KindDeployment, "shop", windsock.FailDetected})
}

func (d *demo) accuse(ctx context.Context) error {
	d.say("stock answers, but somebody knows that it does not work, and posts that:")
	if err := d.report(ctx, "stock", windsock.FailDetected, "wrong prices"); err != nil {
		return err
	}
	return d.await(ctx, told{windsock.KindInstance, "stock", windsock.FailDetected})
}

func (d *demo) absolve(ctx context.Context) error {
	d.say("It is mended:")
	if err := d.report(ctx, "stock", windsock.StartDetected, "right prices"); err != nil {
		return err
	}
	return d.await(ctx, told{windsock.KindInstance, "stock", windsock.StartDetected})
}

func (d *demo) recover(ctx context.Context) error {
	d.say("The service cart comes back:")
	if err := d.cart.start(); err != nil {
		return err
	}
	return d.await(ctx,
		told{windsock.KindInstance, "cart", windsock.StartDetected},
		told{windsock.KindDeployment, "shop", windsock.StartDetected})
}

// stay shows callbacks until ctx ends.
func (d *demo) stay(ctx context.Context) {
	d.say(`It stays up for you until ^C. In another terminal:

    curl %[1]s/api/deployments/shop
    curl '%[1]s/api/instances?deployment=shop'
    curl '%[1]s/api/events?after=0'
    %[2]s
    curl %[1]s/metrics
`, d.base, d.curl("web", detection(windsock.StopDetected, "curl did it")))
	for {
		select {
		case cb := <-d.callbacks:
			d.tell(cb)
		case <-ctx.Done():
			return
		}
	}
}

// told is a callback that a step waits for.
type told struct {
	kind windsock.Kind
	id   string
	word windsock.Word
}

func (t told) String() string { return fmt.Sprintf("%s of %s %s", t.word, t.kind, t.id) }

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "\n"+format+"\n", args...)
}

func (d *demo) tell(cb *callback) { fmt.Fprintf(d.out, "    %s\n", cb) }

// await shows callbacks until all that are wanted came.
func (d *demo) await(ctx context.Context, wanted ...told) error {
	for len(wanted) > 0 {
		select {
		case cb := <-d.callbacks:
			d.tell(cb)
			got := told{cb.Kind, cb.ID, cb.said.Word}
			wanted = slices.DeleteFunc(wanted, func(t told) bool { return t == got })
		case <-ctx.Done():
			missing := make([]string, len(wanted))
			for i, t := range wanted {
				missing[i] = t.String()
			}
			return fmt.Errorf("the monitor was not told in time: %s", strings.Join(missing, ", "))
		}
	}
	return nil
}

// receiver is the monitor. It hands what it is told to whoever waits.
func (d *demo) receiver(ctx context.Context) *receiver {
	return &receiver{
		Seen: func(cb *callback) {
			select {
			case d.callbacks <- cb:
			case <-ctx.Done():
			}
		},
		Refused: func(reason string) { fmt.Fprintf(d.out, "    refused: %s\n", printable(reason)) },
	}
}

// report posts a detection, and shows how to do that by hand.
func (d *demo) report(ctx context.Context, instance string, word windsock.Word, reason string) error {
	form := detection(word, reason)
	fmt.Fprintf(d.out, "    %s\n", d.curl(instance, form))
	return d.do(ctx, http.MethodPost, detectionPath(instance), "application/x-www-form-urlencoded", form.Encode())
}

func detectionPath(instance string) string { return "/api/monitors/deployment/instance/" + instance }

func detection(word windsock.Word, reason string) url.Values {
	return url.Values{"state": {string(word)}, "source": {"you"}, "reason": {reason}}
}

// curl is the command that posts a detection.
func (d *demo) curl(instance string, form url.Values) string {
	return fmt.Sprintf("curl -d state='%s' -d source=%s -d reason='%s' %s%s",
		form.Get("state"), form.Get("source"), form.Get("reason"), d.base, detectionPath(instance))
}

// send sends v as JSON.
func (d *demo) send(ctx context.Context, method, path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return d.do(ctx, method, path, "application/json", string(body))
}

func (d *demo) do(ctx context.Context, method, path, contentType, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(said))
	}
	return nil
}
