package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whoever comes and goes: all that is wanted is done by one who wants it, each has as many as
// every other or one more, no unit moves that need not, and then nothing moves any more.
func TestUnitsAreSharedEvenly(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		var units []string
		for i := range 1 + r.IntN(20) {
			units = append(units, fmt.Sprint("x/", i))
		}
		slices.Sort(units)
		all := func(string) bool { return true }
		wants, now := map[int64]func(string) bool{}, map[string]int64{}
		for step := range 20 {
			id := int64(1 + r.IntN(6))
			switch _, there := wants[id]; {
			case there && len(wants) > 1:
				delete(wants, id)
			case !there:
				wants[id] = all
			}
			kept, before := map[string]int64{}, map[int64]int{}
			for u, holder := range now {
				if wants[holder] != nil {
					kept[u] = holder
					before[holder]++
				}
			}
			now = assign(units, kept, wants)
			count, moved, excess := map[int64]int{}, 0, 0
			for _, u := range units {
				count[now[u]]++
				if kept[u] != 0 && kept[u] != now[u] {
					moved++
				}
			}
			least, most := len(units)/len(wants), (len(units)+len(wants)-1)/len(wants)
			for id := range wants {
				excess += max(before[id]-most, 0)
				if count[id] < least || count[id] > most {
					t.Fatalf("seed %d, step %d: %d units of %d for one of %d: %v", seed, step, count[id], len(units), len(wants), count)
				}
			}
			if bound := excess + len(wants); moved > bound {
				t.Fatalf("seed %d, step %d: %d moved, though %d were too many", seed, step, moved, excess)
			}
			if again := assign(units, now, wants); !maps.Equal(again, now) {
				t.Fatalf("seed %d, step %d: %v became %v", seed, step, now, again)
			}
		}
	}
}

// Who is the only one to know of a unit does it, however much he does already.
func TestUnitsGoToWhoKnowsThem(t *testing.T) {
	knows := func(known ...string) func(string) bool {
		return func(u string) bool { return slices.Contains(known, u) }
	}
	wants := map[int64]func(string) bool{1: knows("a", "b"), 2: knows("a", "b", "c", "d")}
	for _, now := range []map[string]int64{{}, {"a": 2, "b": 2}, {"a": 1, "b": 1, "e": 1}} {
		to := assign([]string{"a", "b", "c", "d", "e"}, now, wants)
		if want := (map[string]int64{"a": 1, "b": 1, "c": 2, "d": 2}); !maps.Equal(to, want) {
			t.Errorf("from %v: %v, want %v", now, to, want)
		}
	}
}
