package components

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"windsock"
)

// A planner makes one plan.
type planner struct {
	spec      windsock.DeploymentSpec
	parsed    map[string]*Template
	given     map[string]map[string]any // attributes, by resource
	nodes     map[string]*node          // by their names in the plan
	budget    int
	plan      windsock.Plan
	instances map[string]bool
	missing   map[string]bool // attributes that nobody tells
}

// Plan puts the parameters of a deployment into the template. It returns a
// windsock.FieldError: parameters/NAME for one that cannot be, parameters/attributes
// when components need what nobody tells, deployable for what is wrong with the template.
func (t *Template) Plan(spec windsock.DeploymentSpec) (windsock.Plan, error) {
	p := &planner{
		spec: spec, budget: maxWork,
		parsed: map[string]*Template{}, nodes: map[string]*node{},
		instances: map[string]bool{}, missing: map[string]bool{},
	}
	parameters, err := p.split(t, spec.Parameters)
	if err != nil {
		return windsock.Plan{}, err
	}
	root, err := p.newScope(t, nil, parameters)
	if err == nil {
		err = p.walk(root, p.findServers)
	}
	if err == nil {
		err = p.walk(root, p.visit)
	}
	if err == nil {
		err = p.outputs(root)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		var field *windsock.FieldError
		if !errors.As(err, &field) {
			err = windsock.Invalid("deployable", "%s", err)
		}
		return windsock.Plan{}, err
	}
	return p.plan, nil
}

// split takes what is no parameter of the template out of those given.
func (p *planner) split(t *Template, given map[string]any) (map[string]any, error) {
	parameters, _ := normalize(given).(map[string]any)
	attributes, ok := parameters[attributesKey]
	if !ok || slices.ContainsFunc(t.Parameters, func(p Parameter) bool { return p.Name == attributesKey }) {
		return parameters, nil
	}
	delete(parameters, attributesKey) // it is normalize's copy
	of, ok := attributes.(map[string]any)
	if !ok {
		return nil, windsock.Invalid("parameters/"+attributesKey, "want a map of resources, got %s", kindOf(attributes))
	}
	p.given = make(map[string]map[string]any, len(of))
	for name, v := range of {
		if p.given[name], ok = v.(map[string]any); !ok {
			return nil, windsock.Invalid("parameters/"+attributesKey, "want a map of attributes for %s, got %s", name, kindOf(v))
		}
	}
	return parameters, nil
}

// check judges the plan as a whole.
func (p *planner) check() error {
	for _, name := range sortedKeys(p.given) {
		if p.nodes[name] == nil {
			return windsock.Invalid("parameters/"+attributesKey, "there is no resource %s", name)
		}
	}
	if len(p.missing) > 0 {
		names := sortedKeys(p.missing)
		more := ""
		if len(names) > 10 {
			names, more = names[:10], fmt.Sprintf(" and %d more", len(names)-10)
		}
		return windsock.Invalid("parameters/"+attributesKey, "software needs %q%s, which nobody tells windsock: give "+
			`them as {"attributes": {RESOURCE: {ATTRIBUTE: value}}}`, names, more)
	}
	if cycle := p.cycle(); cycle != nil {
		return fmt.Errorf("components wait for each other: %q", cycle)
	}
	return nil
}

// cycle returns components of which each waits for the next, and the last for the first.
func (p *planner) cycle() []string {
	places := make(map[string]int, len(p.plan.Components))
	for i, c := range p.plan.Components {
		places[c.Name] = i
	}
	g := graph{to: make([][]int, len(places))}
	for i, c := range p.plan.Components {
		for _, name := range c.After {
			g.to[i] = append(g.to[i], places[name])
		}
	}
	_, cycles := g.walk()
	if len(cycles) == 0 {
		return nil
	}
	var names []string
	for _, i := range cycles[0] {
		names = append(names, p.plan.Components[i].Name)
	}
	return names
}

// walk calls visit for each resource of a scope and what is in it, in the order of the
// template.
func (p *planner) walk(s *scope, visit func(*node) error) error {
	for _, n := range s.list {
		if err := p.within(n, visit); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) within(n *node, visit func(*node) error) error {
	err := n.expand()
	if err == nil {
		err = visit(n)
	}
	if err != nil {
		return resourceError(n.name, err)
	}
	for _, m := range n.members {
		if err := p.within(m, visit); err != nil {
			return err
		}
	}
	if n.inner != nil {
		return p.walk(n.inner, visit)
	}
	return nil
}

// findServers marks what software is put on, whatever type it has: the cloud may know
// more of them than we.
func (p *planner) findServers(n *node) error {
	switch n.typ.Class {
	case Server:
		n.isServer = true
	case Deployment:
		server, err := n.prop("server")
		if on := p.refers(server); on != nil && on.typ.Class == Foreign {
			on.isServer = true
		}
		return err
	}
	return nil
}

func (p *planner) visit(n *node) error {
	switch {
	case n.isServer:
		p.addInstance(n.name)
	case n.typ.Class == Deployment:
		return p.addSoftware(n)
	case n.typ.Class == Condition:
		return p.addCondition(n)
	}
	return nil
}

// resourceError says at which resource something went wrong: the innermost.
func resourceError(name string, err error) error {
	var field *windsock.FieldError
	if errors.As(err, &field) {
		return err
	}
	return windsock.Invalid("deployable", "resource %s: %s", name, err)
}

func (p *planner) addInstance(name string) {
	if !p.instances[name] {
		p.instances[name] = true
		p.plan.Instances = append(p.plan.Instances, windsock.PlannedInstance{Name: name})
	}
}

func (p *planner) addSoftware(n *node) error {
	c := windsock.PlannedComponent{
		Name: n.name, Kind: windsock.KindSoftware, Group: ungrouped,
		Signals: 1, Deadline: windsock.DefaultDeadline,
	}
	server, err := n.prop("server")
	if err != nil {
		return err
	}
	c.Instance, _ = server.(string)
	if on := p.refers(server); on != nil && on.isServer {
		c.Instance = on.name
	} else if err := checkName(c.Instance); c.Instance != "" && err != nil {
		return err
	}
	if c.Instance == "" {
		return errors.New("server: want get_resource of a server, or the name of an instance")
	}
	p.addInstance(c.Instance)

	body, err := p.software(n, &c)
	if err != nil {
		return err
	}
	transport, err := n.knownProp("signal_transport")
	if err != nil {
		return err
	}
	c.Silent = transport == "NO_SIGNAL"
	if err := n.limits(&c); err != nil {
		return err
	}
	return p.add(n, c, body)
}

// limits reads the retries and the timeout of windsock's metadata.
func (n *node) limits(c *windsock.PlannedComponent) error {
	metadata := n.res.Metadata
	if n.group == nil {
		var err error
		if metadata, err = n.scope.eval(metadata); err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
	}
	m, _ := metadata.(map[string]any)
	m, _ = m[policyKey].(map[string]any)
	if v, ok := m["retries"]; ok {
		f, ok := asFloat(v)
		if c.Retries = int(f); !ok || float64(c.Retries) != f || f < 0 || f > maxRetries {
			return fmt.Errorf("metadata: windsock: want retries of 0 to %d", maxRetries)
		}
	}
	if v, ok := m["timeout"]; ok {
		var err error
		if c.Deadline, err = seconds(v, windsock.MaxTTL.Seconds()); err != nil {
			return fmt.Errorf("metadata: windsock: timeout: %w", err)
		}
	}
	return nil
}

func seconds(v any, most float64) (time.Duration, error) {
	f, ok := asFloat(v)
	if !ok || f < 1 || f > most {
		return 0, fmt.Errorf("want 1 to %.0f seconds", most)
	}
	return time.Duration(f * float64(time.Second)), nil
}

func (p *planner) addCondition(n *node) error {
	c := windsock.PlannedComponent{
		Name: n.name, Kind: windsock.KindCondition,
		Actions: []windsock.Action{windsock.ActionCreate}, Signals: 1, Deadline: windsock.DefaultDeadline,
	}
	handle, count, timeout := "handle", "count", "timeout"
	if n.res.Type == "AWS::CloudFormation::WaitCondition" {
		handle, count, timeout = "Handle", "Count", "Timeout"
	}
	v, err := n.prop(handle)
	if err != nil {
		return err
	}
	h := p.refers(v)
	if h == nil || h.typ.Class != Handle {
		return fmt.Errorf("%s: want get_resource of a handle in this deployable", handle)
	}
	c.Handle = h.name
	if v, err = n.knownProp(count); err != nil {
		return err
	}
	if v != nil {
		f, ok := asFloat(v)
		if c.Signals = int(f); !ok || f < 1 || f > maxSignals || f != math.Trunc(f) {
			return fmt.Errorf("%s: want 1 to %d", count, maxSignals)
		}
	}
	if v, err = n.knownProp(timeout); err != nil {
		return err
	}
	if v != nil {
		if c.Deadline, err = seconds(v, MaxTimeout); err != nil {
			return fmt.Errorf("%s: %w", timeout, err)
		}
	}
	c.Refers = []string{c.Handle}
	return p.add(n, c, map[string]any{"handle": c.Handle, "signals": int64(c.Signals), "seconds": int64(c.Deadline / time.Second)})
}

const maxSignals = 10_000 // that a condition may want

// add puts a component into the plan. What is in its body is what it is given at run time.
func (p *planner) add(n *node, c windsock.PlannedComponent, body map[string]any) error {
	if len(p.plan.Components) >= maxComponents {
		return windsock.Invalid("deployable", "there are more than %d components", maxComponents)
	}
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	d := newDeps()
	refers, err := p.references(body, d, p.missing)
	if err == nil {
		err = p.order(n, d)
	}
	if err != nil {
		return err
	}
	if c.Instance != "" {
		d.needs[c.Instance] = true
	}
	for _, name := range c.Refers {
		refers[name] = true
	}
	c.After, c.Needs, c.Refers = sortedKeys(d.after), sortedKeys(d.needs), sortedKeys(refers)
	c.Spec = encode(body)
	p.plan.Components = append(p.plan.Components, c)
	return charge(&p.budget, len(c.Spec)+nodeWeight*(len(c.After)+len(c.Needs)))
}

// outputs plans the outputs of the whole. One of an attribute that nobody declared is
// null, as in Heat: nothing waits for it.
func (p *planner) outputs(root *scope) error {
	for _, o := range root.t.Outputs {
		v, err := root.output(o.Name)
		if errors.Is(err, errNoAttribute) {
			v, err = nil, nil
		}
		var refers map[string]bool
		if err == nil {
			refers, err = p.references(v, newDeps(), map[string]bool{})
		}
		if err != nil {
			return windsock.Invalid("deployable", "output %s: %s", o.Name, err)
		}
		spec := encode(map[string]any{"value": v})
		if err := charge(&p.budget, len(spec)); err != nil {
			return windsock.Invalid("deployable", "output %s: %s", o.Name, err)
		}
		p.plan.Outputs = append(p.plan.Outputs, windsock.PlannedOutput{
			Name: o.Name, Description: o.Description, Refers: sortedKeys(refers), Spec: spec,
		})
	}
	return nil
}
