package windsock

import (
	"slices"
	"time"
)

// CriticalPath returns the chain of components, each of which comes after the one before,
// that took longest, and how long that was: each from being available to its end, or
// until now. What follows from equal lengths depends on the names alone.
func CriticalPath(components []Component, now time.Time) (path []string, took time.Duration) {
	type node struct {
		own, total time.Duration
		before     int // of the chain that ends with it; -1: it is the first
	}
	byName := make(map[string]int, len(components))
	for i := range components {
		byName[components[i].Name] = i
	}
	after := make([][]int, len(components))
	left := make([]int, len(components)) // before it, that are not counted yet
	nodes := make([]node, len(components))
	for i := range components {
		c := &components[i]
		nodes[i] = node{before: -1}
		if end := c.FinishedAt; !c.AvailableAt.IsZero() {
			if end.IsZero() {
				end = now
			}
			nodes[i].own = max(end.Sub(c.AvailableAt), 0)
		}
		for _, name := range c.After {
			if b, ok := byName[name]; ok {
				after[b] = append(after[b], i)
				left[i]++
			}
		}
	}
	var next []int
	for i, n := range left {
		if n == 0 {
			next = append(next, i)
		}
	}
	better := func(a, b int) bool { // b is -1: there is none
		if b < 0 {
			return nodes[a].total > 0
		}
		return nodes[a].total > nodes[b].total || nodes[a].total == nodes[b].total && components[a].Name < components[b].Name
	}
	last := -1
	for len(next) > 0 {
		i := next[0]
		next = next[1:]
		n := &nodes[i]
		n.total = n.own
		if n.before >= 0 {
			n.total += nodes[n.before].total
		}
		if better(i, last) {
			last = i
		}
		for _, a := range after[i] {
			if better(i, nodes[a].before) {
				nodes[a].before = i
			}
			if left[a]--; left[a] == 0 {
				next = append(next, a)
			}
		}
	}
	if last < 0 {
		return nil, 0
	}
	took = nodes[last].total
	for i := last; i >= 0; i = nodes[i].before {
		path = append(path, components[i].Name)
	}
	slices.Reverse(path)
	return path, took
}
