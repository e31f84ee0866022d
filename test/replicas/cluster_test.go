package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"windsock"
	"windsock/test/postgres"
	"windsock/test/program"
)

// A cluster is three windsocks over one PostgreSQL, the monitors that they call back, and
// those who post to them. Between a windsock and the database, and before each monitor, is
// a proxy.
type cluster struct {
	server    *postgres.Server
	database  sync.Mutex // over what is done to the server
	proxies   *toxiproxy.ApiServer
	replicas  []*replica
	monitors  []*monitor
	reporters []*reporter
	probed    []*service
	declared  map[string]int // by kind
	log       reading
	mood      atomic.Value // of the monitors, a mood
	windows   []window
	tries     atomic.Int64 // of posts
}

type m = map[string]any

func begin(t *testing.T, r *rand.Rand) *cluster {
	c := &cluster{server: postgres.StartDurable(t), declared: map[string]int{}}
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics have a logger of their own
	c.proxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	c.mood.Store(well)
	c.receive(t, r)
	dir := t.TempDir()
	for i := range 3 {
		name := string(rune('a' + i))
		p := &replica{name: name, addr: free(t), db: c.proxy(t, "database-"+name, c.server.Addr), log: filepath.Join(dir, name+".log")}
		c.replicas = append(c.replicas, p)
		p.supervise(t, rand.New(rand.NewPCG(r.Uint64(), 0)))
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.explain(t)
		}
	})
	for _, p := range c.replicas {
		c.ready(t, p)
	}
	return c
}

// free is an address at which nobody listens.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// proxy starts one before an address.
func (c *cluster) proxy(t *testing.T, name, upstream string) *toxiproxy.Proxy {
	p := toxiproxy.NewProxy(c.proxies, name, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// A replica is a windsock that is started again whenever it ends, as by systemd.
type replica struct {
	name string
	addr string
	db   *toxiproxy.Proxy
	log  string

	process atomic.Pointer[os.Process] // nil: none now
}

// skewBound is by how much the clock of a replica may be wrong.
const skewBound = 30 * time.Second

// supervise runs it until the test ends. Each time its clock is wrong by something else.
func (p *replica) supervise(t *testing.T, r *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	db := "postgres://postgres@" + p.db.Listen + "/postgres?sslmode=disable"
	running.Go(func() {
		defer log.Close()
		runtime.LockOSThread() // with which the processes end
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, binary, "serve", "--listen", p.addr, "--db", db)
			skew := time.Duration(r.Int64N(int64(2*skewBound))) - skewBound
			cmd.Env = append(os.Environ(), "WINDSOCK_TEST_SKEW="+skew.String())
			cmd.Stderr = log
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			p.process.Store(cmd.Process)
			fmt.Fprintf(log, "-- started as %d, its clock ahead by %s: %v\n", cmd.Process.Pid, skew, cmd.Wait())
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(100+r.IntN(1500)) * time.Millisecond):
			}
		}
	})
}

// signal may be too late for a process that ends just now.
func (p *replica) signal(s os.Signal) { p.process.Load().Signal(s) }

// end returns when another process is started in the place of the one that was to end.
func (p *replica) end(t *testing.T, how os.Signal) {
	t.Helper()
	before := p.process.Load()
	before.Signal(how)
	program.Eventually(t, p.name+" is started again", func() bool { return p.process.Load() != before })
}

// said is the end of its log.
func (p *replica) said() string {
	data, _ := os.ReadFile(p.log)
	return string(data[max(0, len(data)-8<<10):])
}

// client waits no longer than one does who has others to ask.
var client = &http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// call sends v as JSON, if there is any, and decodes the answer into out. An error is that
// nobody knows what came of it.
func (c *cluster) call(ctx context.Context, p *replica, method, path string, v, out any) (status int, err error) {
	status, data, err := program.Exchange(ctx, client, p.addr, method, path, v)
	if err == nil && out != nil && status < 300 {
		err = json.Unmarshal(data, out)
	}
	return status, err
}

// must calls the first replica and fails the test unless it does as it is told.
func (c *cluster) must(t *testing.T, method, path string, v, out any) {
	t.Helper()
	if status, err := c.call(t.Context(), c.replicas[0], method, path, v, out); err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %v", method, path, status, err)
	}
}

// ready waits until a replica says so.
func (c *cluster) ready(t *testing.T, p *replica) {
	t.Helper()
	program.Eventually(t, p.name+" is ready", func() bool {
		status, err := c.call(t.Context(), p, http.MethodGet, "/readyz", nil, nil)
		return err == nil && status == http.StatusOK
	})
}

// declare has the model be known, and those be monitors who are to be told.
func (c *cluster) declare(t *testing.T) {
	for _, m := range c.monitors { // before there is anything to be told of
		m.register(t, c)
	}
	for d := range deployments {
		c.must(t, "PUT", "/api/deployments/"+deployment(d), m{"flap": "off"}, nil)
	}
	c.declared["deployment"] = deployments
	for i := range 4 * deployments {
		p := &reporter{instance: fmt.Sprint("web-", i), acked: map[int64]string{}}
		c.must(t, "PUT", "/api/instances/"+p.instance, m{"deployment_id": deployment(i % deployments)}, nil)
		c.reporters = append(c.reporters, p)
	}
	for i := range deployments {
		s := &service{instance: fmt.Sprint("db-", i), addr: free(t)}
		s.flip(t)
		t.Cleanup(func() {
			if s.listener != nil {
				s.listener.Close()
			}
		})
		c.must(t, "PUT", "/api/instances/"+s.instance, m{"deployment_id": deployment(i), "probe": m{"type": "tcp", "target": s.addr, "interval": "1s", "fails": 1, "passes": 1}}, nil)
		c.probed = append(c.probed, s)
	}
	c.declared["instance"] = len(c.reporters) + len(c.probed)
}

const deployments = 3

func deployment(n int) string { return fmt.Sprint("shop-", n) }

// A service is looked at by a probe.
type service struct {
	instance string
	addr     string
	listener net.Listener // nil: nothing answers
}

// flip has it answer if it did not, and the other way about.
func (s *service) flip(t *testing.T) {
	t.Helper()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
		return
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.listener = l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
}

func (s *service) state() string {
	if s.listener != nil {
		return "running"
	}
	return "failed"
}

// shared reports whether the monitors and the probes are shared among all replicas alike.
func (c *cluster) shared(t *testing.T) bool {
	var list struct {
		Replicas []struct {
			Address string
			Holds   []struct{ Unit string }
		}
	}
	status, err := c.call(t.Context(), c.replicas[0], http.MethodGet, "/api/replicas", nil, &list)
	if err != nil || status != http.StatusOK {
		return false
	}
	held := map[string]map[string]int{} // by address and group; the last of an address is there
	for _, r := range list.Replicas {
		held[r.Address] = map[string]int{}
		for _, h := range r.Holds {
			held[r.Address][windsock.UnitGroup(h.Unit)]++
		}
	}
	for group, units := range map[string][]string{"deliverer": windsock.DelivererUnits, "probes": windsock.ProbesUnits} {
		all := 0
		for _, p := range c.replicas {
			n := held[p.addr][group]
			if n < len(units)/len(c.replicas) {
				return false
			}
			all += n
		}
		if all != len(units) {
			return false
		}
	}
	return true
}

// explain shows what there is to go by when something is wrong.
func (c *cluster) explain(t *testing.T) {
	for _, m := range c.monitors {
		if missing := m.missing(c.log.all()); len(missing) > 0 {
			t.Logf("%s has not heard of %d, the first of which is %+v", m.name, len(missing), missing[0])
		}
	}
	for _, path := range []string{"/api/replicas", "/api/monitors/list"} {
		var shown json.RawMessage
		status, err := c.call(context.Background(), c.replicas[0], http.MethodGet, path, nil, &shown)
		t.Logf("%s: %d %v %s", path, status, err, shown)
	}
	for _, p := range c.replicas {
		t.Logf("%s said at last:\n%s", p.name, p.said())
	}
}

// settle waits until all is well again: every replica is ready and has its share, every
// monitor has heard of all that was before, and of something since, and what is looked at
// is seen as it is.
func (c *cluster) settle(t *testing.T) {
	t.Helper()
	for _, p := range c.replicas {
		c.ready(t, p)
	}
	program.Eventually(t, "each replica has its share", func() bool { return c.shared(t) })
	mark := c.log.head()
	for _, m := range c.monitors {
		program.Eventually(t, fmt.Sprintf("%s has heard of all up to %d, and more", m.name, mark), func() bool {
			return m.heardAll(mark, c.log.all())
		})
	}
	for _, s := range c.probed {
		program.Eventually(t, s.instance+" is seen as "+s.state(), func() bool {
			var i struct {
				State string `json:"observed_state"`
			}
			status, err := c.call(t.Context(), c.replicas[0], http.MethodGet, "/api/instances/"+s.instance, nil, &i)
			return err == nil && status == http.StatusOK && i.State == s.state()
		})
	}
}

func port(addr string) json.Number { return json.Number(addr[strings.LastIndex(addr, ":")+1:]) }
