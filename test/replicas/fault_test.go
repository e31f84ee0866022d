package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"windsock/test/postgres"
)

// A fault lasts until run returns.
type fault struct {
	name string
	run  func(t *testing.T, c *cluster, r *rand.Rand)
}

// Those within are of the replicas and their database, those outside are of the monitors.
var (
	within = []fault{
		{"a replica is killed", func(t *testing.T, c *cluster, r *rand.Rand) {
			c.anyone(r).end(t, syscall.SIGKILL)
		}},
		{"a replica is stopped", func(t *testing.T, c *cluster, r *rand.Rand) {
			c.anyone(r).end(t, syscall.SIGTERM)
		}},
		{"all are stopped, one after the other", func(t *testing.T, c *cluster, r *rand.Rand) {
			for _, p := range c.replicas {
				p.end(t, syscall.SIGTERM)
				c.ready(t, p)
			}
		}},
		{"a replica is suspended", func(t *testing.T, c *cluster, r *rand.Rand) {
			p := c.anyone(r)
			p.signal(syscall.SIGSTOP)
			wait(between(r, 10, 20))
			p.signal(syscall.SIGCONT)
		}},
		{"the database is restarted", restart((*postgres.Server).StopFast)},
		{"the database crashes", restart((*postgres.Server).Stop)},
		{"a replica is cut off the database", cut("upstream", "downstream")},
		{"a replica does not reach the database", cut("upstream")},
		{"the database does not reach a replica", cut("downstream")},
		{"the ways to the database are slow", func(t *testing.T, c *cluster, r *rand.Rand) {
			for _, p := range c.replicas {
				defer toxic(t, p.db, "upstream", "latency", m{"latency": r.IntN(50), "jitter": r.IntN(50)})()
				defer toxic(t, p.db, "downstream", "bandwidth", m{"rate": 50 + r.IntN(200)})()
			}
			wait(between(r, 3, 8))
		}},
	}
	outside = []fault{
		{"nobody listens", func(t *testing.T, c *cluster, r *rand.Rand) {
			for _, m := range c.monitors {
				m.proxy.Stop()
			}
			wait(between(r, 1, 4))
			for _, m := range c.monitors {
				if err := m.proxy.Start(); err != nil {
					t.Error(err)
				}
			}
		}},
		{"nobody is reached", func(t *testing.T, c *cluster, r *rand.Rand) {
			for _, mo := range c.monitors {
				defer toxic(t, mo.proxy, "upstream", "timeout", m{})()
			}
			wait(between(r, 1, 12))
		}},
		{"answers are lost", func(t *testing.T, c *cluster, r *rand.Rand) {
			for _, mo := range c.monitors {
				defer toxic(t, mo.proxy, "downstream", "timeout", m{})()
			}
			wait(between(r, 1, 12))
		}},
		{"the ways to the monitors are slow", func(t *testing.T, c *cluster, r *rand.Rand) {
			for _, mo := range c.monitors {
				defer toxic(t, mo.proxy, "upstream", "latency", m{"latency": r.IntN(300), "jitter": r.IntN(100)})()
				defer toxic(t, mo.proxy, "downstream", "bandwidth", m{"rate": 5 + r.IntN(50)})()
			}
			wait(between(r, 3, 8))
		}},
		{"monitors fail", inMood(failing, 1, 4)},
		{"monitors hang", inMood(hanging, 1, 12)},
		{"monitors hang up", inMood(hangingUp, 1, 4)},
	}
)

func restart(stop func(*postgres.Server)) func(*testing.T, *cluster, *rand.Rand) {
	return func(t *testing.T, c *cluster, r *rand.Rand) {
		c.database.Lock()
		defer c.database.Unlock()
		stop(c.server)
		wait(between(r, 0, 3))
		c.server.Start(t)
	}
}

func cut(streams ...string) func(*testing.T, *cluster, *rand.Rand) {
	return func(t *testing.T, c *cluster, r *rand.Rand) {
		db := c.anyone(r).db
		for _, stream := range streams {
			defer toxic(t, db, stream, "timeout", m{})()
		}
		wait(between(r, 3, 12))
	}
}

func inMood(bad mood, least, most float64) func(*testing.T, *cluster, *rand.Rand) {
	return func(t *testing.T, c *cluster, r *rand.Rand) {
		c.mood.Store(bad)
		wait(between(r, least, most))
		c.mood.Store(well)
	}
}

// dealer returns what deals the faults of each round: each comes once before any comes again.
func dealer(r *rand.Rand) func() []fault {
	var in, out []fault
	draw := func(from *[]fault, deck []fault) fault {
		if len(*from) == 0 {
			*from = append(*from, deck...)
			r.Shuffle(len(deck), func(i, j int) { (*from)[i], (*from)[j] = (*from)[j], (*from)[i] })
		}
		f := (*from)[0]
		*from = (*from)[1:]
		return f
	}
	return func() []fault { return []fault{draw(&in, within), draw(&in, within), draw(&out, outside)} }
}

func (c *cluster) anyone(r *rand.Rand) *replica { return c.replicas[r.IntN(len(c.replicas))] }

// between is a time of so many seconds.
func between(r *rand.Rand, least, most float64) time.Duration {
	return time.Duration((least + (most-least)*r.Float64()) * float64(time.Second))
}

// toxic does something to what goes through a proxy, until it is called off.
func toxic(t *testing.T, p *toxiproxy.Proxy, stream, kind string, attributes m) (off func()) {
	name := fmt.Sprint(stream, kind, time.Now().UnixNano())
	data, err := json.Marshal(m{"name": name, "type": kind, "stream": stream, "attributes": attributes})
	if err == nil {
		_, err = p.Toxics.AddToxicJson(bytes.NewReader(data))
	}
	if err != nil {
		t.Error(err)
	}
	return func() {
		if err := p.Toxics.RemoveToxic(context.Background(), name); err != nil {
			t.Error(err)
		}
	}
}
