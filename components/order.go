package components

import "slices"

// deps are what a component waits for: components and servers.
type deps struct {
	after, needs map[string]bool
	seen         map[*node]bool // of those that only pass order on
}

func newDeps() *deps {
	return &deps{after: map[string]bool{}, needs: map[string]bool{}, seen: map[*node]bool{}}
}

// references adds what the references in v wait for, and returns the resources that they
// are to. A handle is there from the start. What nobody tells of is put into missing.
func (p *planner) references(v any, d *deps, missing map[string]bool) (map[string]bool, error) {
	refers := map[string]bool{}
	if weigh(v, p.budget) > p.budget {
		return nil, errTooLarge
	}
	eachRef(v, func(ref *pending, name string) {
		n := p.nodes[name]
		if n == nil || ref.fn == refName {
			return
		}
		switch {
		case n.typ.Class == Deployment, n.typ.Class == Condition:
			d.after[name] = true
		case n.isServer:
			d.needs[name] = true
		case n.typ.Class == Handle:
		default:
			if args, _ := ref.args.([]any); len(args) > 1 {
				missing[name+"."+textOf(args[1])] = true
			}
			return
		}
		refers[name] = true
	})
	return refers, nil
}

// order adds what a component waits for beside its data: depends_on of its own and of
// what it is in, and of the resources between it and others.
func (p *planner) order(n *node, d *deps) error {
	if err := charge(&p.budget, nodeWeight); err != nil {
		return err
	}
	for in := n; in != nil; in = in.parent() {
		for _, name := range in.res.DependsOn {
			if target := in.scope.nodes[name]; target != nil {
				if err := p.all(target, d); err != nil {
					return err
				}
			}
		}
	}
	for _, m := range n.mentioned() {
		if m.passes() {
			if err := p.through(m, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// parent returns the group that a resource is a member of, or the resource whose place
// its template takes.
func (n *node) parent() *node {
	if n.group != nil {
		return n.group
	}
	return n.scope.in
}

// passes reports whether a resource is nothing to wait for by itself, but may have to
// wait for something. What is in a group or template waits for itself.
func (n *node) passes() bool {
	switch n.typ.Class {
	case Foreign, None, Value, Random, Config, Lifecycle:
		return !n.isServer
	}
	return false
}

// through adds what a resource that only passes order on waits for.
func (p *planner) through(n *node, d *deps) error {
	if d.seen[n] {
		return nil
	}
	d.seen[n] = true
	if n.typ.Class == Foreign || n.typ.Class == None {
		for _, m := range n.mentioned() {
			switch {
			case m.typ.Class == Deployment, m.typ.Class == Condition:
				d.after[m.name] = true
			case m.isServer:
				d.needs[m.name] = true
			}
		}
	}
	return p.order(n, d)
}

// all adds a resource with everything in it.
func (p *planner) all(n *node, d *deps) error {
	if n.isServer {
		d.needs[n.name] = true
		return charge(&p.budget, nodeWeight)
	}
	switch n.typ.Class {
	case Deployment, Condition:
		d.after[n.name] = true
		return charge(&p.budget, nodeWeight)
	case Handle:
		return nil
	case Group, DeploymentGroup, Nested:
		if err := n.expand(); err != nil {
			return resourceError(n.name, err)
		}
		within := n.members
		if n.inner != nil {
			within = n.inner.list
		}
		for _, m := range within {
			if err := p.all(m, d); err != nil {
				return err
			}
		}
		if len(within) > 0 {
			return nil // they wait for what it waits for
		}
	}
	return p.through(n, d)
}

// mentioned returns the resources that a resource's properties name.
func (n *node) mentioned() []*node {
	if n.mentions != nil {
		return n.mentions
	}
	n.mentions = []*node{}
	add := func(m *node) {
		if m != nil && !slices.Contains(n.mentions, m) {
			n.mentions = append(n.mentions, m)
		}
	}
	if n.group != nil { // they are evaluated
		eachRef(n.res.Properties, func(_ *pending, name string) { add(n.scope.p.nodes[name]) })
		return n.mentions
	}
	w := walker{version: n.scope.t.since(), odd: func(string, []string) {}}
	w.visit = func(fn string, args any, _ []string) {
		if name, ok := subject(args); ok && (fn == "get_resource" || fn == "get_attr" || fn == "Ref") {
			add(n.scope.nodes[name])
		}
	}
	w.value(n.res.Properties, nil)
	return n.mentions
}
