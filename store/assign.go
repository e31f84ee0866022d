package store

import (
	"maps"
	"slices"
)

// assign returns which process is to do each of some units, by its number. Who does one
// goes on, unless he has two more than another who would: so each that takes part has as
// many as every other, or one more, and no unit moves that need not. All who see the same
// come to the same.
//
// A unit that nobody does is not in now, one that nobody wants not in what is returned.
func assign(units []string, now map[string]int64, wants map[int64]func(unit string) bool) map[string]int64 {
	to := map[string]int64{}
	count := map[int64]int{}
	ids := slices.Sorted(maps.Keys(wants))
	for _, u := range units {
		if want := wants[now[u]]; want != nil && want(u) {
			to[u] = now[u]
			count[now[u]]++
		}
	}
	fewest := func(u string) (least int64) {
		for _, id := range ids {
			if wants[id](u) && (least == 0 || count[id] < count[least]) {
				least = id
			}
		}
		return least
	}
	for _, u := range units {
		if least := fewest(u); to[u] == 0 && least != 0 {
			to[u] = least
			count[least]++
		}
	}
	for {
		var move string
		var where int64
		gain := 1
		for _, u := range units {
			least := fewest(u)
			if d := count[to[u]] - count[least]; least != 0 && d > gain {
				move, where, gain = u, least, d
			}
		}
		if move == "" {
			return to
		}
		count[to[move]]--
		count[where]++
		to[move] = where
	}
}
