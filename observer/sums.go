package observer

import (
	"hash/maphash"
	"maps"
	"slices"

	"windsock"
)

// A hasher makes short what is only to be compared. Two things that differ have the same
// sum once in 2^64 times.
type hasher struct{ seed maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed()} }

// sums stand for a sighting: what is said of the thing's state, and what it is.
type sums struct{ state, description uint64 }

func (h hasher) sums(s *windsock.Sighting) sums {
	requested := ""
	if s.Requested {
		requested = "requested"
	}
	d := &s.Description
	what := []string{d.Deployment, d.Name, d.Pool, d.Assembly, d.Address}
	if d.RunsOn != nil {
		what = append(append(what, "runs on"), d.RunsOn...)
	}
	for _, key := range slices.Sorted(maps.Keys(d.Metadata)) {
		what = append(what, key, d.Metadata[key])
	}
	return sums{state: h.sum(string(s.State), s.Raw, s.Reason, requested), description: h.sum(what...)}
}

func (h hasher) sum(texts ...string) uint64 {
	var sum maphash.Hash
	sum.SetSeed(h.seed)
	for _, t := range texts {
		maphash.WriteComparable(&sum, t) // with its length, so that no two lists look the same
	}
	return sum.Sum64()
}
