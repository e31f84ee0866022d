// Package replicas proves what several windsocks over one PostgreSQL promise: three of them
// are killed, suspended, cut off and started anew, and so is the database, while posts go
// on through all of them. It is a module of its own, so that the fault proxy is none of the
// product's.
package replicas

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seed = flag.Uint64("seed", 0, "of the schedule; 0: another each time")
	span = flag.Duration("span", 45*time.Second, "for how long faults begin")
)

// binary is the program under test, whose clock is ahead by WINDSOCK_TEST_SKEW.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "windsock-replicas")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "windsock")
	root, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("go", "build", "-overlay", skewed(root, dir), "-o", binary, "./cmd/windsock")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		panic(err)
	}
	return m.Run()
}

// skewed has the store, whose clock is that of the rules, be built with one that is wrong.
func skewed(root, dir string) (overlay string) {
	source := filepath.Join(root, "store", "store.go")
	text, err := os.ReadFile(source)
	if err != nil {
		panic(err)
	}
	const right, wrong = "o.Now = time.Now\n", `skew, _ := time.ParseDuration(os.Getenv("WINDSOCK_TEST_SKEW"))
		o.Now = func() time.Time { return time.Now().Add(skew) }
`
	if strings.Count(string(text), right) != 1 {
		panic("store.go does not say once what the clock is: " + right)
	}
	changed := filepath.Join(dir, "store.go")
	overlay = filepath.Join(dir, "overlay.json")
	list, _ := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	for path, data := range map[string]string{changed: strings.Replace(string(text), right, wrong, 1), overlay: string(list)} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			panic(err)
		}
	}
	return overlay
}

func TestReplicas(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	c := begin(t, r)
	c.declare(t)

	ctx, stop := context.WithCancel(t.Context())
	var posting, reading sync.WaitGroup
	for _, p := range c.reporters {
		posting.Go(func() { p.run(ctx, t, c) })
	}
	reading.Go(func() { c.log.follow(t, c) })
	c.settle(t)

	for begun, cards := time.Now(), dealer(r); time.Since(begun) < *span && !t.Failed(); {
		w := window{from: time.Now()}
		var round sync.WaitGroup
		var names []string
		for _, f := range cards() {
			own := rand.New(rand.NewPCG(r.Uint64(), 0))
			names = append(names, f.name)
			round.Go(func() { f.run(t, c, own) })
		}
		c.probed[r.IntN(len(c.probed))].flip(t)
		round.Wait()
		healed := time.Now()
		c.settle(t)
		w.to = time.Now()
		c.windows = append(c.windows, w)
		t.Logf("%5.1f s  %s; well again after %.1f s", w.from.Sub(begun).Seconds(), strings.Join(names, ", "), w.to.Sub(healed).Seconds())
		wait(calm)
	}
	stop()
	posting.Wait()
	c.log.end(t, c)
	reading.Wait()

	c.check(t)
}

// calm is how long there are no faults between two rounds of them.
const calm = 4 * time.Second

// wait is for what a schedule has last so long.
func wait(d time.Duration) { <-time.After(d) }

// same fails the test unless all replicas show the same at a path.
func (c *cluster) same(t *testing.T, path string) (shown map[string]any) {
	t.Helper()
	for _, p := range c.replicas {
		var now map[string]any
		if status, err := c.call(t.Context(), p, http.MethodGet, path, nil, &now); err != nil || status != http.StatusOK {
			t.Fatalf("GET %s of %s: %d %v", path, p.name, status, err)
		}
		if shown != nil && !reflect.DeepEqual(shown, now) {
			t.Errorf("%s shows %s as %v, another as %v", p.name, path, now, shown)
		}
		shown = now
	}
	return shown
}

// check is what has to hold in the end.
func (c *cluster) check(t *testing.T) {
	events := c.log.all()
	posts := 0
	for _, p := range c.reporters {
		posts += len(p.said)
		if kept := wordsOf(events, p.instance); !slices.Equal(kept, p.said) {
			n := 0
			for n < min(len(kept), len(p.said)) && kept[n] == p.said[n] {
				n++
			}
			t.Errorf("of %s %d changes were acknowledged and %d are in the log, which differ from the %dth on", p.instance, len(p.said), len(kept), n)
		}
		for seq, word := range p.acked {
			if e := at(events, seq); e.SubjectID != p.instance || e.Word != word {
				t.Errorf("%s of %s was acknowledged as %d, which is %+v", word, p.instance, seq, e)
			}
		}
	}
	last := map[string]string{}
	for _, e := range events {
		if e.state() {
			last[e.subject()] = e.State
		}
	}
	for _, kind := range []string{"instance", "deployment"} {
		list := c.same(t, "/api/"+kind+"s?limit=1000")[kind+"s"].([]any)
		for _, s := range list {
			s := s.(map[string]any)
			if subject := kind + " " + s["id"].(string); s["observed_state"] != last[subject] {
				t.Errorf("%s is %s, and its last event says %q", subject, s["observed_state"], last[subject])
			}
		}
		if len(list) != c.declared[kind] {
			t.Errorf("%d %ss are shown of %d", len(list), kind, c.declared[kind])
		}
	}
	told, twice, strict := 0, 0, 0
	var oldest time.Duration
	for _, m := range c.monitors {
		m.complete(t, events)
		heard := m.all()
		told += len(heard)
		n, age := m.repeated(t, heard, c.windows)
		twice, oldest = twice+n, max(oldest, age)
		m.order(t, heard)
		for _, h := range heard {
			if !slices.ContainsFunc(c.windows, func(w window) bool { return w.excuses(h.at) }) {
				strict++
			}
		}
	}
	if strict == 0 {
		t.Error("no callback came when none may be told again")
	}
	t.Logf("%d posts acknowledged in %d tries, %d events, %d callbacks to %d monitors; %d told before, the oldest %.2f s before the fault; %d came when none may come again",
		posts, c.tries.Load(), len(events), told, len(c.monitors), twice, oldest.Seconds(), strict)
}
