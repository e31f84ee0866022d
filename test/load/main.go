// Command load measures a windsock process from outside: posts per second beside what a
// handler that stores nothing reaches in the same run, callbacks beside what a plain
// client does, listings, probes, memory, disk.
// It builds windsock, starts what it needs on loopback, and stops by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	conns    = flag.Int("conns", 64, "connections that post at once")
	span     = flag.Duration("span", 3*time.Second, "how long each round of posts lasts")
	rounds   = flag.Int("rounds", 5, "rounds; medians are told")
	fleet    = flag.Int("fleet", 100_000, "idle instances, for listing, memory and disk; servers of a cloud")
	probes   = flag.Int("probes", 2000, "instances that are probed each second")
	only     = flag.String("only", "posts,batch,fleet,probes,fanout,latency,idle,scope,hang,alertmanager,cloud,components,agents,replicas,pages", "what to measure; scale, too, which takes minutes and some GB")
	longLog  = flag.Int("events", 10_000_000, "events in the long log of scale")
	large    = flag.Int("instances", 1_000_000, "instances in the large fleet of scale")
	server   = flag.String("db", "", "URL of a PostgreSQL to use instead of files; its schema windsock_load is removed each time")
	sinkAddr = flag.String("sink", "", "be a handler that stores nothing, at this address (used by itself)")
	plain    = flag.String("plainly", "", "be a client that does nothing but post to this address (used by itself)")
)

const tags = "sqlite_omit_load_extension osusergo netgo"

func main() {
	flag.Parse()
	log.SetFlags(0)
	if *sinkAddr != "" {
		log.Fatal(http.ListenAndServe(*sinkAddr, sink()))
	}
	if *plain != "" {
		fmt.Println(plainly(*plain))
		return
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// sink reads a post and answers as windsock would, and stores nothing.
func sink() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"result":"success","changed":true,"observed_state":"failed","event_seq":1042,"instance_id":"instance-000000","deployment_id":"deployment-00000"}`)
	})
}

func run() error {
	dir, err := os.MkdirTemp("", "windsock-load")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "windsock")
	build := exec.Command("go", "build", "-tags", tags, "-o", binary, "windsock/cmd/windsock")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building windsock: %w", err)
	}
	for _, m := range []struct {
		name    string
		measure func(dir, binary string) error
	}{
		{"posts", posts}, {"batch", batches}, {"fleet", idleFleet}, {"probes", probing}, {"cloud", clouded},
		{"fanout", fanOut}, {"latency", latency}, {"idle", idleMonitors}, {"scope", outOfScope}, {"hang", oneHangs}, {"alertmanager", besideAlertmanager},
		{"components", components}, {"agents", idleAgents}, {"replicas", replicated}, {"pages", pages}, {"scale", scale},
	} {
		if !slices.Contains(strings.Split(*only, ","), m.name) {
			continue
		}
		if err := m.measure(dir, binary); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// A process is a windsock, or a sink, that runs until it is stopped.
type process struct {
	*exec.Cmd
	addr string
}

func start(name string, args ...string) (*process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "ADDR", addr)
	}
	p := &process{exec.Command(name, args...), addr}
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return p, c.Close()
		}
		select {
		case <-ctx.Done():
			p.stop()
			return nil, fmt.Errorf("%s does not answer", name)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) stop() {
	p.Process.Signal(os.Interrupt)
	p.Wait()
}

// serve starts a windsock whose file declares n instances, in deployments of ten; each
// may have a probe.
func serve(dir, binary string, n int, probe string) (*process, error) {
	config := filepath.Join(dir, "load.yaml")
	if err := os.WriteFile(config, declared(n, probe), 0o600); err != nil {
		return nil, err
	}
	if err := empty(dir); err != nil {
		return nil, err
	}
	return start(binary, "serve", "--listen", "ADDR", "--db", database(dir), "--config", config, "--log-level", "error")
}

// declared is a file that declares n instances, in deployments of ten.
func declared(n int, probe string) []byte {
	var b strings.Builder
	b.WriteString("deployments:\n")
	for i := range n {
		if i%10 == 0 {
			fmt.Fprintf(&b, "- id: deployment-%05d\n  pool: east\n  flap: 'off'\n  instances:\n", i/10)
		}
		fmt.Fprintf(&b, "  - {id: instance-%06d, name: web, address: 10.0.0.1%s}\n", i, probe)
	}
	return []byte(b.String())
}

// schema is where everything is on a server.
const schema = "windsock_load"

func database(dir string) string {
	if *server == "" {
		return filepath.Join(dir, "load.db")
	}
	return onServer(schema)
}

// onServer is the URL of a schema.
func onServer(schema string) string {
	u, err := url.Parse(*server)
	if err != nil {
		log.Fatal("-db is no URL")
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("application_name", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// empty has the database have nothing in it.
func empty(dir string) error {
	if *server == "" {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			os.Remove(database(dir) + suffix)
		}
		return nil
	}
	ctx := context.Background()
	c, err := pgx.Connect(ctx, *server)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE; CREATE SCHEMA "+schema)
	return err
}

// posts compares single posts and posts in hundreds with the sink.
func posts(dir, binary string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	null, err := start(self, "-sink", "ADDR")
	if err != nil {
		return err
	}
	defer null.stop()
	p, err := serve(dir, binary, 10**conns, "")
	if err != nil {
		return err
	}
	defer p.stop()

	var ceiling, one, many, changed []float64
	for range *rounds {
		rate, _, err := post(null.addr, *conns, singly)
		if err != nil {
			return err
		}
		ceiling = append(ceiling, rate)
		rate, share, err := post(p.addr, *conns, singly)
		if err != nil {
			return err
		}
		one, changed = append(one, rate), append(changed, share)
		rate, _, err = post(p.addr, 4, inHundreds)
		if err != nil {
			return err
		}
		many = append(many, 100*rate)
	}
	fmt.Printf("a handler that stores nothing   %8.0f posts/s   (median of %d rounds of %s, %d connections)\n", median(ceiling), *rounds, *span, *conns)
	fmt.Printf("detections, one a post          %8.0f posts/s   %.0f %% of it; %.1f %% of them changed a state\n", median(one), 100*median(ratios(one, ceiling)), 100*median(changed))
	fmt.Printf("detections, a hundred a post    %8.0f detections/s (4 connections)\n", median(many))
	return nil
}

// singly posts one change, of an instance of the connection's own.
func singly(c, k int) (path string, body []byte) {
	return fmt.Sprintf("/api/monitors/deployment/instance/instance-%06d", 10*c), fmt.Appendf(nil, `{"version":"1","state":%q,"source":"load"}`, word(k))
}

// inHundreds posts a hundred changes, of instances of the connection's own.
func inHundreds(c, k int) (path string, body []byte) {
	body = []byte(`{"version":"1","detections":[`)
	for i := range 100 {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"instance_id":"instance-%06d","state":%q,"source":"load"}`, 100*c+i, word(k))
	}
	return "/api/monitors/detections", append(body, "]}"...)
}

// word alternates, so that each post changes a state.
func word(k int) string { return []string{"FAIL DETECTED", "START DETECTED"}[k%2] }

// idleFleet measures what instances cost of which nothing is heard.
func idleFleet(dir, binary string) error {
	p, err := serve(dir, binary, 1, "")
	if err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // it is to be idle
	bare, bareDisk := rss(p.Process.Pid), size(database(dir))
	p.stop()
	fmt.Printf("idle, one instance              %8.1f MiB resident\n", bare/(1<<20))

	began := time.Now()
	if p, err = serve(dir, binary, *fleet, ""); err != nil {
		return err
	}
	defer func() { p.stop() }()
	fmt.Printf("start with %d declared      %8.1f s\n", *fleet, time.Since(began).Seconds())
	p.stop() // what reading the file took is not what the fleet takes
	if p, err = start(binary, "serve", "--listen", "ADDR", "--db", database(dir), "--log-level", "error"); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	n := float64(*fleet)
	fmt.Printf("memory of an idle instance      %8.0f B      (%.1f MiB resident in all)\n", (rss(p.Process.Pid)-bare)/n, rss(p.Process.Pid)/(1<<20))
	if *server == "" {
		fmt.Printf("disk of an idle instance        %8.0f B\n", (size(database(dir))-bareDisk)/n)
	}

	var took []float64
	for i := range 50 {
		began := time.Now()
		resp, err := http.Get(fmt.Sprintf("http://%s/api/instances?limit=1000&after=instance-%06d", p.addr, i*(*fleet/60)))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || n < 100_000 {
			return fmt.Errorf("list: %s, %d bytes, %v", resp.Status, n, err)
		}
		took = append(took, time.Since(began).Seconds()*1000)
	}
	fmt.Printf("list 1000 of %d             %8.1f ms     (median of %d)\n", *fleet, median(took), len(took))
	return nil
}

// probing measures how many probes run in a second, when they are due each second.
func probing(dir, binary string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	target, err := start(self, "-sink", "ADDR")
	if err != nil {
		return err
	}
	defer target.stop()
	p, err := serve(dir, binary, *probes, fmt.Sprintf(`, probe: {type: http, target: "http://%s/", interval: 1s, timeout: 1s}`, target.addr))
	if err != nil {
		return err
	}
	defer p.stop()
	time.Sleep(4 * time.Second)
	before, cpu := metric(p.addr, `windsock_probe_results_total{result="running",type="http"}`), cpuSeconds(p.Process.Pid)
	began := time.Now()
	time.Sleep(10 * time.Second)
	took := time.Since(began).Seconds()
	n := metric(p.addr, `windsock_probe_results_total{result="running",type="http"}`) - before
	fmt.Printf("probes, %d due each second    %8.0f /s      %.0f %% of one core\n", *probes, n/took, 100*(cpuSeconds(p.Process.Pid)-cpu)/took)
	return nil
}
