package replicas

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"windsock/test/program"
)

// A monitor remembers what it was told.
type monitor struct {
	name  string // the path, too
	scope string // the deployment; "": all
	batch bool
	proxy *toxiproxy.Proxy

	mu    sync.Mutex
	heard []callback
}

type callback struct {
	InstanceID   string `json:"instance_id"`
	DeploymentID string `json:"deployment_id"`
	State        string `json:"observed_state"`
	Seq          int64  `json:"seq"`

	at time.Time
}

func (b callback) subject() string {
	if b.InstanceID != "" {
		return "instance " + b.InstanceID
	}
	return "deployment " + b.DeploymentID
}

// A mood is how the monitors take callbacks.
type mood int

const (
	well      mood = iota
	failing        // of one in two, with 500
	hanging        // they answer when they are well again
	hangingUp      // connections are reset, before they have heard or after
)

// receive has nine monitors take callbacks.
func (c *cluster) receive(t *testing.T, r *rand.Rand) {
	dice := rand.New(rand.NewPCG(r.Uint64(), 0))
	var mu sync.Mutex
	chance := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(2) == 0
	}
	byName := map[string]*monitor{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		m := byName[name]
		data, err := io.ReadAll(req.Body)
		if err != nil { // the connection was cut
			return
		}
		body, err := m.read(data)
		if err != nil {
			t.Errorf("%s: %v: %s", req.URL.Path, err, data)
			return
		}
		for c.mood.Load() == hanging {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-req.Context().Done():
				return
			}
		}
		switch mood := c.mood.Load(); {
		case mood == failing && chance():
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		case mood == hangingUp:
			if chance() {
				m.hear(body)
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
			return
		}
		m.hear(body)
	}))
	t.Cleanup(server.Close)
	for i := range 9 {
		m := &monitor{name: fmt.Sprint("m", i), batch: i%4 == 3}
		if i >= 6 {
			m.scope = deployment(i % deployments)
		}
		m.proxy = c.proxy(t, m.name, server.Listener.Addr().String())
		c.monitors = append(c.monitors, m)
		byName[m.name] = m
	}
}

func (m *monitor) read(data []byte) (list []callback, err error) {
	if m.batch {
		err = json.Unmarshal(data, &list)
		return list, err
	}
	var one callback
	err = json.Unmarshal(data, &one)
	return []callback{one}, err
}

func (m *monitor) hear(b []callback) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range b {
		b[i].at = time.Now()
	}
	m.heard = append(m.heard, b...)
}

func (m *monitor) all() []callback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.heard)
}

// register has it be called back by its proxy.
func (mo *monitor) register(t *testing.T, c *cluster) {
	scope, format := "global", "seed"
	if mo.scope != "" {
		scope = "deployment:" + mo.scope
	}
	if mo.batch {
		format = "batch"
	}
	c.must(t, http.MethodPost, "/api/monitors/add", m{
		"address": "127.0.0.1", "port": port(mo.proxy.Listen), "path": "/" + mo.name, "scope": scope, "format": format, "subjects": "both", "name": mo.name,
	}, nil)
}

// due reports whether it is to be told of an event.
func (m *monitor) due(e event) bool {
	return e.Word != "" && e.state() && (m.scope == "" || e.DeploymentID == m.scope || e.subject() == "deployment "+m.scope)
}

// missing are those events of which it is to be told, and was not.
func (m *monitor) missing(events []event) (list []event) {
	heard := map[int64]bool{}
	for _, b := range m.all() {
		heard[b.Seq] = true
	}
	for _, e := range events {
		if m.due(e) && !heard[e.Seq] {
			list = append(list, e)
		}
	}
	return list
}

// heardAll reports whether it was told all that is due up to mark, and something after.
func (m *monitor) heardAll(mark int64, events []event) bool {
	return len(m.missing(events[:mark])) == 0 && slices.ContainsFunc(m.all(), func(b callback) bool { return b.Seq > mark })
}

// complete fails the test unless it is told all that is due, as it is in the log, and no
// more; and has it last heard of each subject what is so.
func (m *monitor) complete(t *testing.T, events []event) {
	t.Helper()
	due := map[int64]event{}
	for _, e := range events {
		if m.due(e) {
			due[e.Seq] = e
		}
	}
	program.Eventually(t, m.name+" has heard of all", func() bool { return len(m.missing(events)) == 0 })
	last, wrong := map[string]callback{}, faulty{}
	for _, b := range m.all() {
		if e, ok := due[b.Seq]; !ok || e.subject() != b.subject() || e.State != b.State {
			wrong.add("%s was told that %s is %s, and the log has %+v", m.name, b.subject(), b.State, at(events, b.Seq))
		}
		last[b.subject()] = b
	}
	for _, e := range due {
		if b := last[e.subject()]; e.Seq > b.Seq {
			wrong.add("%s was told last that %s is %s, and the log has %+v", m.name, b.subject(), b.State, e)
		}
	}
	wrong.tell(t)
}

// faulty is what is wrong in one way, of which one may stand for all.
type faulty []string

func (f *faulty) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f faulty) tell(t *testing.T) {
	t.Helper()
	if len(f) > 0 {
		t.Errorf("%d times; %s", len(f), f[0])
	}
}

// order fails the test if a subject was told something new that is older than what it had
// been told before. To be told again is allowed.
func (m *monitor) order(t *testing.T, heard []callback) {
	t.Helper()
	seen, newest, wrong := map[int64]bool{}, map[string]int64{}, faulty{}
	for _, b := range heard {
		if !seen[b.Seq] && b.Seq < newest[b.subject()] {
			wrong.add("%s: %s: %d told after %d", m.name, b.subject(), b.Seq, newest[b.subject()])
		}
		seen[b.Seq] = true
		newest[b.subject()] = max(newest[b.subject()], b.Seq)
	}
	wrong.tell(t)
}

// A window is a time of faults, until all was well again.
type window struct{ from, to time.Time }

// repeatable is how long before a fault a callback may have been answered that is told
// again: cursors are saved every 50 ms, and on a busy machine a save takes its time.
const repeatable = 2 * time.Second

// excuses reports whether what was told then may be told again.
func (w window) excuses(at time.Time) bool {
	return at.After(w.from.Add(-repeatable)) && at.Before(w.to)
}

// repeated counts what was told before, and how long before the faults at most. It fails
// the test unless a fault explains it.
func (m *monitor) repeated(t *testing.T, heard []callback, windows []window) (n int, oldest time.Duration) {
	t.Helper()
	before, wrong := map[int64]time.Time{}, faulty{}
	for _, b := range heard {
		at, again := before[b.Seq]
		before[b.Seq] = b.at
		if !again {
			continue
		}
		n++
		w := slices.IndexFunc(windows, func(w window) bool { return w.excuses(at) })
		if w < 0 {
			wrong.add("%s: %d of %s was told at %s and again at %s, without a fault", m.name, b.Seq, b.subject(), at.Format(time.StampMilli), b.at.Format(time.StampMilli))
			continue
		}
		oldest = max(oldest, windows[w].from.Sub(at))
	}
	wrong.tell(t)
	return n, oldest
}
