package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// What is not just running is listed by an index of its own, and pools are counted in groups.
func TestListsAndPoolsHaveWhatThereIs(t *testing.T) {
	seed := rand.Uint64()
	each(t, func(t *testing.T, s *Store, _ *clock) {
		r := rand.New(rand.NewPCG(seed, 0))
		for d := range 9 {
			id := fmt.Sprint("d", d)
			declare(t, s, id)
			for i := range 1 + r.IntN(4) {
				spec := windsock.InstanceSpec{ID: fmt.Sprintf("%s-%d", id, i), DeploymentID: id, Expected: []windsock.State{windsock.Running, windsock.Stopped}[r.IntN(2)]}
				if _, _, err := s.PutInstance(t.Context(), spec, windsock.Cond{}); err != nil {
					t.Fatal(err)
				}
				if state := []windsock.State{"", windsock.Running, windsock.Failed, windsock.Stopped}[r.IntN(4)]; state != "" {
					record(t, s, instanceSaid(spec.ID, "x", state))
				}
			}
		}
		instances := must[[]windsock.Instance](t)(s.Instances(t.Context(), windsock.Filter{Limit: 100}))
		deployments := must[[]windsock.Deployment](t)(s.Deployments(t.Context(), windsock.Filter{Limit: 100}))
		pool := windsock.Pool{Provider: "static", Pool: "east", Deployments: map[windsock.State]int{}, Instances: map[windsock.State]int{}}
		for _, d := range deployments {
			pool.Deployments[d.State]++
		}
		for _, i := range instances {
			pool.Instances[i.State]++
		}
		if diff := cmp.Diff([]windsock.Pool{pool}, must[[]windsock.Pool](t)(s.Pools(t.Context()))); diff != "" {
			t.Errorf("seed %d: pools: %s", seed, diff)
		}
		yes, no := true, false
		for _, state := range append([]windsock.State{""}, windsock.DeploymentStates[:]...) {
			for _, drift := range []*bool{nil, &yes, &no} {
				f := windsock.Filter{State: state, Drift: drift, Limit: 100}
				fits := func(o windsock.Observed) bool {
					return (state == "" || o.State == state) && (drift == nil || o.Drift == *drift)
				}
				want := slices.DeleteFunc(slices.Clone(instances), func(i windsock.Instance) bool { return !fits(i.Observed) })
				got := must[[]windsock.Instance](t)(s.Instances(t.Context(), f))
				if !cmp.Equal(got, want) && len(got)+len(want) > 0 {
					t.Errorf("seed %d: instances %q, drift %v: %s", seed, state, drift, cmp.Diff(want, got))
				}
				wanted := slices.DeleteFunc(slices.Clone(deployments), func(d windsock.Deployment) bool { return !fits(d.Observed) })
				found := must[[]windsock.Deployment](t)(s.Deployments(t.Context(), f))
				if !cmp.Equal(found, wanted) && len(found)+len(wanted) > 0 {
					t.Errorf("seed %d: deployments %q, drift %v: %s", seed, state, drift, cmp.Diff(wanted, found))
				}
			}
		}
	})
}
