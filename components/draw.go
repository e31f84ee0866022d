package components

import (
	"fmt"
	"slices"
	"strings"
)

// drawing is the graph of the components of a template: which has to be complete before
// which, whatever resources stand between the two.
type drawing struct {
	*Template
	nodes   []int         // the resources that are drawn, in order
	arrows  map[int][]int // to each what comes directly before it
	servers []string      // that have components, in order
	on      map[string][]int
}

// drawn reports whether a resource is a component, or may have some in it.
func drawn(r Resource) bool {
	switch TypeOf(r.Type).Class {
	case Deployment, DeploymentGroup, Condition, Group, Nested:
		return true
	}
	return false
}

func (t *Template) drawing() *drawing {
	d := &drawing{Template: t, arrows: map[int][]int{}, on: map[string][]int{}}
	g := t.graph()
	places := t.places()
	c := checker{Template: t}
	before := make(map[int][]int) // by resource that is not drawn
	var reach func(i int) []int
	reach = func(i int) (all []int) {
		if drawn(t.Resources[i]) {
			return []int{i}
		}
		if known, ok := before[i]; ok {
			return known
		}
		before[i] = nil // of a cycle nothing more
		for _, next := range g.to[i] {
			all = append(all, reach(next)...)
		}
		slices.Sort(all)
		before[i] = slices.Compact(all)
		return before[i]
	}
	for i, r := range t.Resources {
		if !drawn(r) {
			continue
		}
		d.nodes = append(d.nodes, i)
		for _, next := range g.to[i] {
			d.arrows[i] = append(d.arrows[i], reach(next)...)
		}
		slices.Sort(d.arrows[i])
		d.arrows[i] = slices.Compact(d.arrows[i])
		server, ok := c.refersTo(r.Properties["server"])
		if _, there := places[server]; !ok || !there || TypeOf(r.Type).Class != Deployment {
			server = ""
		}
		if server != "" && d.on[server] == nil {
			d.servers = append(d.servers, server)
		}
		d.on[server] = append(d.on[server], i)
	}
	return d
}

// Mermaid draws the components of a template as a flowchart of Mermaid.
func (t *Template) Mermaid() string {
	d := t.drawing()
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	node := func(indent string, i int) {
		open, end := `["`, `"]`
		switch TypeOf(t.Resources[i].Type).Class {
		case Condition:
			open, end = `{{"`, `"}}`
		case Group, Nested, DeploymentGroup:
			open, end = `[["`, `"]]`
		}
		fmt.Fprintf(&b, "%sn%d%s%s%s\n", indent, i, open, mermaid(t.Resources[i].Name), end)
	}
	for s, server := range d.servers {
		fmt.Fprintf(&b, "  subgraph s%d[\"%s\"]\n", s, mermaid(server))
		for _, i := range d.on[server] {
			node("    ", i)
		}
		b.WriteString("  end\n")
	}
	for _, i := range d.on[""] {
		node("  ", i)
	}
	for _, i := range d.nodes {
		for _, first := range d.arrows[i] {
			fmt.Fprintf(&b, "  n%d --> n%d\n", first, i)
		}
	}
	return b.String()
}

// mermaid writes text as its strings have it: what is not plain, by its number.
func mermaid(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < ' ' || strings.ContainsRune("\"#&;<>`\\", r) {
			fmt.Fprintf(&b, "#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// DOT draws the components of a template for Graphviz.
func (t *Template) DOT() string {
	d := t.drawing()
	var b strings.Builder
	b.WriteString("digraph components {\n  node [shape=box];\n")
	node := func(indent string, i int) {
		style := ""
		switch TypeOf(t.Resources[i].Type).Class {
		case Condition:
			style = ", shape=hexagon"
		case Group, Nested, DeploymentGroup:
			style = ", peripheries=2"
		}
		fmt.Fprintf(&b, "%sn%d [label=%s%s];\n", indent, i, dot(t.Resources[i].Name), style)
	}
	for s, server := range d.servers {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", s, dot(server))
		for _, i := range d.on[server] {
			node("    ", i)
		}
		b.WriteString("  }\n")
	}
	for _, i := range d.on[""] {
		node("  ", i)
	}
	for _, i := range d.nodes {
		for _, first := range d.arrows[i] {
			fmt.Fprintf(&b, "  n%d -> n%d;\n", first, i)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// dot writes text as a string of DOT.
func dot(text string) string { return `"` + dotEscapes.Replace(text) + `"` }
