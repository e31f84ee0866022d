package store

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"windsock"
)

// fleet opens a store with n instances in deployments of ten.
func fleet(b *testing.B, n int) *Store {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "w.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	var deployments []windsock.DeploymentSpec
	var instances []windsock.InstanceSpec
	for i := range n {
		d := fmt.Sprintf("deployment-%05d", i/10)
		if i%10 == 0 {
			deployments = append(deployments, windsock.DeploymentSpec{ID: d, Pool: "east"})
		}
		instances = append(instances, windsock.InstanceSpec{ID: fmt.Sprintf("instance-%06d", i), DeploymentID: d})
	}
	if err := s.Declare(b.Context(), deployments, instances); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkRecord is the rate of state-changing records of one observation each, from
// callers that wait for the answer, at synchronous=FULL.
func BenchmarkRecord(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := fleet(b, 1000)
			var n atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for k := 0; n.Add(1) <= int64(b.N); k++ {
						state := []windsock.State{windsock.Failed, windsock.Running}[k%2]
						obs := []windsock.Observation{instanceSaid(fmt.Sprintf("instance-%06d", c*10), "bench", state)}
						if out, err := s.Record(b.Context(), obs); err != nil || !out[0].Changed {
							b.Error(out, err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkRecordHundreds is the rate of state-changing observations in records of a
// hundred.
func BenchmarkRecordHundreds(b *testing.B) {
	s := fleet(b, 1000)
	obs := make([]windsock.Observation, 100)
	b.ResetTimer()
	for k := 0; k < b.N; k++ {
		for i := range obs {
			state := []windsock.State{windsock.Failed, windsock.Running}[k/10%2]
			obs[i] = instanceSaid(fmt.Sprintf("instance-%06d", k%10*100+i), "bench", state)
		}
		if _, err := s.Record(b.Context(), obs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*100)/b.Elapsed().Seconds(), "observations/s")
}

// BenchmarkUnchanged is the rate at which looks that find nothing new are taken in.
func BenchmarkUnchanged(b *testing.B) {
	s := fleet(b, 1000)
	obs := make([]windsock.Observation, 1000)
	for i := range obs {
		obs[i] = windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: fmt.Sprintf("instance-%06d", i)}, Source: "probe", Origin: windsock.FromProbe, State: windsock.Running}
	}
	b.ResetTimer()
	for k := 0; k < b.N; k++ {
		if _, err := s.Record(b.Context(), obs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "observations/s")
}

// BenchmarkList is one page of a thousand instances out of a hundred thousand.
func BenchmarkList(b *testing.B) {
	s := fleet(b, 100_000)
	b.ResetTimer()
	for b.Loop() {
		list, err := s.Instances(b.Context(), windsock.Filter{After: "instance-050000", Limit: 1000})
		if err != nil || len(list) != 1000 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkPruning is how long a post waits, from eight callers, while a million old
// events are deleted, beside how long it waits otherwise.
func BenchmarkPruning(b *testing.B) {
	for _, pruning := range []bool{false, true} {
		b.Run(fmt.Sprint("pruning=", pruning), func(b *testing.B) {
			s := fleet(b, 1000)
			fill(b, s, 1_000_000)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var pruner, posters sync.WaitGroup
			var n atomic.Int64
			var mu sync.Mutex
			var took []time.Duration
			b.ResetTimer()
			if pruning {
				r := &Retention{Store: s, Age: time.Hour, Events: 1, Horizon: 1}
				pruner.Go(func() {
					if err := r.pass(ctx); err != nil && ctx.Err() == nil {
						b.Error(err)
					}
				})
			}
			for c := range 8 {
				posters.Go(func() {
					var own []time.Duration
					for k := 0; n.Add(1) <= int64(b.N); k++ {
						state := []windsock.State{windsock.Failed, windsock.Running}[k%2]
						begun := time.Now()
						if _, err := s.Record(b.Context(), []windsock.Observation{instanceSaid(fmt.Sprintf("instance-%06d", c*10), "bench", state)}); err != nil {
							b.Error(err)
							return
						}
						own = append(own, time.Since(begun))
					}
					mu.Lock()
					defer mu.Unlock()
					took = append(took, own...)
				})
			}
			posters.Wait()
			b.StopTimer()
			cancel()
			pruner.Wait()
			l, err := s.extent(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(l.Pruned)/b.Elapsed().Seconds(), "pruned/s")
		})
	}
}

// BenchmarkEvents is the rate at which one reader goes through the log, page by page.
func BenchmarkEvents(b *testing.B) {
	s := fleet(b, 1000)
	obs := make([]windsock.Observation, 1000)
	for k := range 50 {
		for i := range obs {
			obs[i] = instanceSaid(fmt.Sprintf("instance-%06d", i), "bench", []windsock.State{windsock.Failed, windsock.Running}[k%2])
		}
		if _, err := s.Record(b.Context(), obs); err != nil {
			b.Fatal(err)
		}
	}
	for _, brief := range []bool{false, true} {
		const page = 1000
		b.Run(fmt.Sprint("brief=", brief), func(b *testing.B) {
			b.ReportAllocs()
			after := int64(0)
			for n := 0; n < b.N; {
				events, err := s.Events(b.Context(), after, page, windsock.EventFilter{Brief: brief})
				if err != nil {
					b.Fatal(err)
				}
				n += len(events)
				if after = 0; len(events) == page {
					after = events[page-1].Seq
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// dag declares a deployment of n components on a hundred instances, in layers of a hundred,
// each component after two of the layer before.
func dag(b *testing.B, n int) *Store {
	const width = 100
	var nodes []node
	for i := range n {
		c := node{Name: fmt.Sprintf("c%05d", i), On: fmt.Sprintf("s%02d", i%width), Text: "install", Outputs: []windsock.Output{{Name: "ip"}}}
		if i >= width {
			c.Gets = map[string]string{"X": fmt.Sprintf("c%05d.ip", i-width), "Y": fmt.Sprintf("c%05d.ip", i/width*width-1)}
		}
		nodes = append(nodes, c)
	}
	return deployed(b, nodes)
}

// deployed opens a store with a deployment whose instances run.
func deployed(b *testing.B, nodes []node) *Store {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "w.db"), Options{Planner: planner{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	if _, err := s.AddDeployable(b.Context(), windsock.Deployable{ID: "dag", Source: jsonList(nodes)}); err != nil {
		b.Fatal(err)
	}
	spec := windsock.DeploymentSpec{ID: "shop", Deployable: "dag", Members: map[string]string{}}
	for _, n := range nodes {
		spec.Members[n.On] = n.On
	}
	begun := time.Now()
	if _, _, err := s.PutDeployment(b.Context(), spec, windsock.Cond{}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "declare-ms")
	for id := range spec.Members {
		if _, err := s.Record(b.Context(), []windsock.Observation{instanceSaid(id, "bench", windsock.Running)}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkSignals is the rate at which a graph of ten thousand components is driven to
// completion by the agents of a hundred instances, each of which asks and signals in turn.
func BenchmarkSignals(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		b.StopTimer()
		s := dag(b, n)
		tokens := map[string]windsock.Secret{}
		for i := range 100 {
			id := fmt.Sprintf("s%02d", i)
			token, err := s.IssueToken(b.Context(), id)
			if err != nil {
				b.Fatal(err)
			}
			tokens[id] = token
		}
		b.StartTimer()
		begun := time.Now()
		var left atomic.Int64
		left.Store(n)
		ctx, cancel := context.WithCancel(b.Context())
		var agents sync.WaitGroup
		for id, token := range tokens {
			agents.Go(func() {
				for ctx.Err() == nil {
					work, err := s.Work(ctx, id, token, "http://w")
					if err != nil {
						return
					}
					for _, task := range work.Components {
						if _, err := s.Signal(ctx, tokenOf(task.SignalURL), success("ip=10.0.0.1")); err != nil {
							b.Error(err)
							cancel()
						}
						if left.Add(-1) == 0 {
							cancel()
						}
					}
					if len(work.Components) == 0 {
						s.AwaitWork(ctx, id, work.Revision)
					}
				}
			})
		}
		agents.Wait()
		cancel()
		b.ReportMetric(n/time.Since(begun).Seconds(), "signals/s")
		g, err := s.Components(b.Context(), "shop")
		if err != nil || g.Counts[windsock.ComponentComplete] != n {
			b.Fatal(g.Counts, err)
		}
	}
}

// BenchmarkHandOver is how long it takes from the signal of a component to the dependant
// being handed out to the agent that waits for it, on another instance.
func BenchmarkHandOver(b *testing.B) {
	nodes := make([]node, b.N+1)
	for i := range nodes {
		nodes[i] = node{Name: fmt.Sprintf("c%06d", i), On: []string{"s0", "s1"}[i%2], Text: "install", Outputs: []windsock.Output{{Name: "ip"}}}
		if i > 0 {
			nodes[i].Gets = map[string]string{"X": nodes[i-1].Name + ".ip"}
		}
	}
	s := deployed(b, nodes)
	work := map[string]windsock.Work{}
	tokens := map[string]windsock.Secret{}
	for _, id := range []string{"s0", "s1"} {
		var err error
		if tokens[id], err = s.IssueToken(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		if work[id], err = s.Work(b.Context(), id, tokens[id], "http://w"); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for i := range b.N {
		now, next := fmt.Sprint("s", i%2), fmt.Sprint("s", (i+1)%2)
		woken := make(chan error, 1)
		go func() {
			err := s.AwaitWork(b.Context(), next, work[next].Revision)
			if err == nil {
				work[next], err = s.Work(b.Context(), next, tokens[next], "http://w")
			}
			woken <- err
		}()
		if _, err := s.Signal(b.Context(), tokenOf(work[now].Components[0].SignalURL), success("ip=10.0.0.1")); err != nil {
			b.Fatal(err)
		}
		if err := <-woken; err != nil || len(work[next].Components) != 1 {
			b.Fatal(work[next], err)
		}
		var err error
		if work[now], err = s.Work(b.Context(), now, tokens[now], "http://w"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWaiting is what ten thousand who wait for the work of an instance each take, and
// how long it takes to wake one of them.
func BenchmarkWaiting(b *testing.B) {
	const n = 10_000
	s := fleet(b, n)
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	woken := make(chan error, n)
	wait := func(id string, revision int64) {
		all.Go(func() {
			if err := s.AwaitWork(ctx, id, revision); ctx.Err() == nil {
				woken <- err
			}
		})
	}
	for i := range n {
		wait(fmt.Sprintf("instance-%06d", i), 0)
	}
	for len(s.work.all()) < n || s.read.Stats().InUse > 0 {
		runtime.Gosched()
	}
	each := float64(used()-before) / n / 1024
	revision := int64(0)
	for b.Loop() {
		err := s.do(b.Context(), func(t *tx) error {
			w := t.work()
			w.move("instance-000000")
			w.flush()
			return w.err
		})
		if err := cmp.Or(err, <-woken); err != nil {
			b.Fatal(err)
		}
		if revision, err = s.revision(b.Context(), "instance-000000"); err != nil {
			b.Fatal(err)
		}
		wait("instance-000000", revision)
	}
	b.ReportMetric(each, "KiB/waiter")
	cancel()
	all.Wait()
}
