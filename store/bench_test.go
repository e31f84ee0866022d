package store

import (
	"context"
	"fmt"
	"path/filepath"
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
