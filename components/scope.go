package components

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A scope is a template with its parameters put in: the deployable's own, or one that
// stands for a resource of it. Everything in it is evaluated when it is first asked for.
type scope struct {
	p      *planner
	t      *Template
	in     *node  // the resource it stands for; nil: it is the deployable's own
	prefix string // of the names of its resources: "web.0."
	depth  int
	params map[string]any

	nodes   map[string]*node // by the names they have here
	list    []*node          // in the order of the template
	dropped map[string]bool  // by their conditions

	conditions map[string]*memo
	outputs    map[string]*memo
}

// A node is a resource in a plan.
type node struct {
	scope *scope
	res   Resource
	typ   Type
	name  string // in the plan
	group *node  // that it is a member of: its properties are evaluated already
	props map[string]*memo

	members  []*node // of a group
	inner    *scope  // of a nested template
	expanded *memo
	mentions []*node // resources that its properties name; nil: not looked for yet
	isServer bool    // software is put on it
}

// A memo is a value that is made once.
type memo struct {
	value  any
	weight int
	err    error
	busy   bool
}

// once makes a value, or has it again; that costs as much of the budget.
func (p *planner) once(in map[string]*memo, key string, make func() (any, error)) (any, error) {
	m := in[key]
	switch {
	case m == nil:
		m = &memo{busy: true}
		in[key] = m
		m.value, m.err = make()
		m.weight = weigh(m.value, p.budget)
		m.busy = false
	case m.busy:
		return nil, errors.New("it refers to itself")
	}
	if m.err != nil {
		return nil, m.err
	}
	return m.value, charge(&p.budget, m.weight)
}

// newScope puts parameters into a template.
func (p *planner) newScope(t *Template, in *node, given map[string]any) (*scope, error) {
	s := &scope{
		p: p, t: t, in: in,
		nodes: map[string]*node{}, dropped: map[string]bool{},
		conditions: map[string]*memo{}, outputs: map[string]*memo{},
	}
	if in != nil {
		s.prefix = in.name + "."
		s.depth = in.scope.depth + 1
	}
	var err error
	if s.params, err = t.bind(given); err != nil {
		return nil, err
	}
	for _, r := range t.Resources {
		if r.Condition != nil {
			keep, err := s.condition(r.Condition)
			if err != nil {
				return nil, resourceError(s.prefix+r.Name, fmt.Errorf("condition: %w", err))
			}
			if !keep {
				s.dropped[r.Name] = true
				continue
			}
		}
		n, err := p.newNode(s, r, s.prefix+r.Name)
		if err != nil {
			return nil, err
		}
		s.nodes[r.Name] = n
		s.list = append(s.list, n)
	}
	return s, nil
}

// find returns a resource by the name it has here. Only a name that the template itself
// has is shown.
func (s *scope) find(name any) (*node, error) {
	text, err := s.known(name)
	if err != nil {
		return nil, fmt.Errorf("the name of a resource: %w", err)
	}
	key := textOf(text)
	if n := s.nodes[key]; n != nil {
		return n, nil
	}
	if s.dropped[key] {
		return nil, fmt.Errorf("resource %s is left out by its condition", shown(name))
	}
	return nil, fmt.Errorf("there is no resource %s", shown(name))
}

// shown is how errors show a name: not if it is computed, as it may be of a secret.
func shown(name any) string {
	if s, ok := name.(string); ok {
		return s
	}
	return "of the name that is computed there"
}

// known evaluates what cannot wait for the run.
func (s *scope) known(v any) (any, error) {
	v, err := s.eval(v)
	if err == nil && isPending(v) {
		err = errors.New("it has to be known before anything runs")
	}
	return v, err
}

// eval evaluates as much of v as is known now.
func (s *scope) eval(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		list := make([]any, 0, len(v))
		for _, e := range v {
			e, err := s.eval(e)
			if err != nil {
				return nil, err
			}
			if e != (removed{}) {
				list = append(list, e)
			}
		}
		return list, nil
	case map[string]any:
		if name, args, ok := call(v, s.t.since(), functions); ok {
			return s.call(name, args)
		}
		m := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) { // so that of two errors it is always the same
			e, err := s.eval(v[k])
			if err != nil {
				return nil, err
			}
			if e != (removed{}) {
				m[k] = e
			}
		}
		return m, nil
	}
	return v, nil
}

func (s *scope) call(name string, args any) (any, error) {
	if why, ok := refused[name]; ok {
		return nil, fmt.Errorf("%s: %s", name, why)
	}
	if name == "if" {
		return s.choose(args)
	}
	if name == "Ref" {
		name = "get_param"
		if _, isParam := s.params[textOf(args)]; !isParam && !strings.HasPrefix(textOf(args), "OS::") {
			name = "get_resource"
		}
	}
	var v any
	var err error
	switch name {
	case "get_resource":
		var n *node
		if n, err = s.find(args); err == nil {
			v, err = n.id()
		}
	case "get_attr":
		v, err = s.getAttr(args)
	case "get_param":
		v, err = s.getParam(args)
	case "get_file":
		v, err = s.getFile(args)
	default:
		if args, err = s.eval(args); err != nil {
			break
		}
		if isPending(args) && !structural(name, args) {
			return &pending{name, args}, nil
		}
		return apply(name, args, &s.p.budget) // which names itself in its error
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// structural reports whether a function only puts together what its arguments have in
// them, so that it can be called although some of that is pending.
func structural(name string, args any) bool {
	list, ok := args.([]any)
	return ok && (name == "map_merge" || name == "list_concat") &&
		!slices.ContainsFunc(list, func(v any) bool { _, ok := v.(*pending); return ok })
}

// choose is `if`: the branch that is not taken is not looked at.
func (s *scope) choose(args any) (any, error) {
	l, ok := args.([]any)
	optional := s.t.since() >= latestVersion
	if !ok || len(l) != 3 && !(len(l) == 2 && optional) {
		return nil, errors.New("if: want a condition and two values")
	}
	yes, err := s.condition(l[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("if: %w", err)
	case yes:
		return s.eval(l[1])
	case len(l) == 2:
		return removed{}, nil
	}
	return s.eval(l[2])
}

// condition evaluates a condition: its name, a call, or a boolean.
func (s *scope) condition(v any) (bool, error) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	if name, ok := v.(string); ok {
		rule, ok := s.t.Conditions[name]
		if !ok {
			return false, fmt.Errorf("there is no condition %s", name)
		}
		b, err := s.p.once(s.conditions, name, func() (any, error) { return s.condition(rule) })
		if err != nil {
			return false, fmt.Errorf("condition %s: %w", name, err)
		}
		return b.(bool), nil
	}
	name, args, ok := call(v, s.t.since(), conditionFunctions)
	if !ok {
		return false, fmt.Errorf("want a condition, got %s", kindOf(v))
	}
	switch name {
	case "and", "or":
		list, ok := args.([]any)
		if !ok || len(list) < 2 {
			return false, fmt.Errorf("%s: want a list of two or more", name)
		}
		for _, e := range list {
			b, err := s.condition(e)
			if err != nil {
				return false, fmt.Errorf("%s: %w", name, err)
			}
			if b == (name == "or") {
				return b, nil
			}
		}
		return name == "and", nil
	case "not":
		b, err := s.condition(args)
		if err != nil {
			return false, fmt.Errorf("not: %w", err)
		}
		return !b, nil
	}
	if why, ok := refused[name]; ok {
		return false, fmt.Errorf("%s: %s", name, why)
	}
	value := any(v)
	if name == "equals" { // which is data anywhere else
		operands, err := s.known(args)
		if err != nil {
			return false, fmt.Errorf("equals: %w", err)
		}
		if value, err = apply(name, operands, &s.p.budget); err != nil {
			return false, err
		}
	}
	value, err := s.known(value)
	if err != nil {
		return false, err
	}
	b, err := coerce("boolean", value)
	if err != nil {
		return false, fmt.Errorf("%s: want true or false, got %s", name, kindOf(value))
	}
	return b.(bool), nil
}

func (s *scope) getParam(args any) (any, error) {
	l, ok := args.([]any)
	if !ok {
		l = []any{args}
	}
	if len(l) == 0 {
		return nil, errors.New("want the name of a parameter")
	}
	name, err := s.known(l[0])
	if err != nil {
		return nil, err
	}
	steps, err := s.eval(l[1:])
	if err != nil {
		return nil, err
	}
	v, ok := s.params[textOf(name)]
	if !ok {
		if v, ok = s.pseudo(textOf(name)); !ok {
			return nil, fmt.Errorf("there is no parameter %s", shown(l[0]))
		}
	}
	if found := at(v, steps.([]any)); found != nil {
		v = found
	} else if len(l) > 1 {
		v = ""
	}
	return v, charge(&s.p.budget, weigh(v, s.p.budget))
}

// pseudo returns the parameters that every template has. Of project and region windsock
// knows nothing.
func (s *scope) pseudo(name string) (any, bool) {
	switch name {
	case "OS::stack_name":
		return strings.ReplaceAll(strings.TrimSuffix(s.p.spec.ID+"."+s.prefix, "."), ".", "-"), true
	case "OS::stack_id":
		return s.p.spec.ID, true
	case "OS::project_id", "OS::region":
		return "", true
	}
	return nil, false
}

func (s *scope) getFile(args any) (any, error) {
	name, err := s.known(args)
	if err != nil {
		return nil, err
	}
	_, text, ok := s.t.File(textOf(name))
	if !ok {
		return nil, fmt.Errorf("file %s was not sent along", shown(args))
	}
	return text, charge(&s.p.budget, len(text))
}

func (s *scope) getAttr(args any) (any, error) {
	l, ok := args.([]any)
	if !ok || len(l) == 0 {
		return nil, errors.New("want a list of a resource, an attribute and, perhaps, a path")
	}
	n, err := s.find(l[0])
	if err != nil {
		return nil, err
	}
	steps, err := s.eval(l[1:])
	if err != nil {
		return nil, err
	}
	return n.attr(steps.([]any))
}

// output returns an output of a nested template.
func (s *scope) output(name string) (any, error) {
	i := slices.IndexFunc(s.t.Outputs, func(o Output) bool { return o.Name == name })
	if i < 0 {
		return nil, errors.New("its template has no such output")
	}
	o := s.t.Outputs[i]
	return s.p.once(s.outputs, name, func() (any, error) { return s.outputValue(o) })
}

func (s *scope) outputValue(o Output) (any, error) {
	if o.Condition != nil {
		if yes, err := s.condition(o.Condition); !yes || err != nil {
			return nil, err
		}
	}
	v, err := s.eval(o.Value)
	if v == (removed{}) {
		v = nil
	}
	return v, err
}
