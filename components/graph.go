package components

import "slices"

// graph is which resource of a template refers to which: it comes after these.
type graph struct {
	to    [][]int // by the place in Resources; sorted, each once
	named struct{ resource, attribute, depends int }
}

func (t *Template) places() map[string]int {
	places := make(map[string]int, len(t.Resources))
	for i, r := range t.Resources {
		places[r.Name] = i
	}
	return places
}

func (t *Template) graph() graph {
	places := t.places()
	g := graph{to: make([][]int, len(t.Resources))}
	for i, r := range t.Resources {
		refer := func(name string) {
			if place, ok := places[name]; ok {
				g.to[i] = append(g.to[i], place)
			}
		}
		w := walker{version: t.since(), odd: func(string, []string) {}}
		w.visit = func(fn string, args any, _ []string) {
			name, ok := subject(args)
			switch {
			case !ok:
				return
			case fn == "Ref":
			case fn == "get_resource":
				g.named.resource++
			case fn == "get_attr":
				g.named.attribute++
			default:
				return
			}
			refer(name)
		}
		w.value(r.Properties, nil)
		w.value(r.Metadata, nil)
		for _, name := range r.DependsOn {
			g.named.depends++
			refer(name)
		}
		slices.Sort(g.to[i])
		g.to[i] = slices.Compact(g.to[i])
	}
	return g
}

// edges is how many pairs there are of which one refers to the other.
func (g graph) edges() (n int) {
	for _, to := range g.to {
		n += len(to)
	}
	return n
}

// walk returns the length of the longest chain, and of the cycles such that each has
// something that no other has, in the order in which one comes after the next.
func (g graph) walk() (depth int, cycles [][]int) {
	const onTheWay = -1
	depths, places := make([]int, len(g.to)), make([]int, len(g.to))
	cyclic := make([]bool, len(g.to))
	var way []int // places says where in it something is
	var visit func(i int) int
	visit = func(i int) int {
		switch {
		case depths[i] == onTheWay:
			cycle := way[places[i]:]
			if !cyclic[i] && !slices.ContainsFunc(cycle, func(i int) bool { return cyclic[i] }) {
				cycles = append(cycles, slices.Clone(cycle))
				for _, i := range cycle {
					cyclic[i] = true
				}
			}
			cyclic[i] = true
			return 0
		case depths[i] > 0:
			return depths[i]
		}
		depths[i], places[i] = onTheWay, len(way)
		way = append(way, i)
		longest := 0
		for _, next := range g.to[i] {
			longest = max(longest, visit(next))
		}
		way = way[:len(way)-1]
		depths[i] = longest + 1
		return depths[i]
	}
	for i := range g.to {
		depth = max(depth, visit(i))
	}
	return depth, cycles
}
