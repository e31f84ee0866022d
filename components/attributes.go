package components

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// id is what get_resource gives.
func (n *node) id() (any, error) {
	switch n.typ.Class {
	case Server, Deployment, Condition:
		return &pending{refID, []any{n.name}}, nil
	case Handle: // so has CloudFormation it; Heat's own have none that is of use
		return &pending{refOutput, []any{n.name, "endpoint"}}, nil
	case Foreign, Random:
		if id, ok := n.given("id"); ok {
			return id, nil
		}
		return &pending{refForeign, []any{n.name, "id"}}, nil
	case Nested:
		if err := n.expand(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(n.inner.t.Outputs, func(o Output) bool { return o.Name == "OS::stack_id" }) {
			return n.inner.output("OS::stack_id")
		}
	}
	return &pending{refName, []any{n.name}}, nil
}

// given returns an attribute that was given with the parameters.
func (n *node) given(attribute string) (any, bool) {
	v, ok := n.scope.p.given[n.name][attribute]
	return v, ok
}

// attr is what get_attr gives: the first of steps names the attribute.
func (n *node) attr(steps []any) (any, error) {
	if len(steps) == 0 {
		return n.allAttrs()
	}
	name, ok := steps[0].(string)
	if !ok {
		return nil, fmt.Errorf("want an attribute's name, got %s", kindOf(steps[0]))
	}
	rest := steps[1:]
	if v, ok := n.given(name); ok {
		return at(v, rest), nil
	}
	switch n.typ.Class {
	case Foreign, Random:
		return &pending{refForeign, slices.Concat([]any{n.name}, steps)}, nil
	case None:
		return nil, nil
	case Group, DeploymentGroup, Nested:
		return n.attrWithin(name, rest)
	case Value:
		if name == "value" {
			v, err := n.value()
			return at(v, rest), err
		}
	case Config:
		if name == "config" {
			v, err := n.prop("config")
			return at(v, rest), err
		}
	case Server:
		if name == "show" || name == "metadata" || slices.Contains(n.typ.Attributes, name) {
			return &pending{refServer, slices.Concat([]any{n.name}, steps)}, nil
		}
	case Condition:
		if slices.Contains(n.typ.Attributes, name) {
			return &pending{refOutput, slices.Concat([]any{n.name, "data"}, rest)}, nil
		}
	case Handle:
		if slices.Contains(n.typ.Attributes, name) {
			return &pending{refOutput, slices.Concat([]any{n.name}, steps)}, nil
		}
	case Deployment:
		declared, err := n.declares(name)
		if declared || err != nil {
			return &pending{refOutput, slices.Concat([]any{n.name}, steps)}, err
		}
	}
	return nil, fmt.Errorf("resource %s %w", n.name, errNoAttribute)
}

var errNoAttribute = errors.New("has no such attribute")

// allAttrs is what get_attr gives for a resource alone.
func (n *node) allAttrs() (any, error) {
	names := slices.Clone(n.typ.Attributes)
	if n.typ.Class == Deployment {
		outputs, err := n.outputs()
		if err != nil {
			return nil, err
		}
		for _, o := range outputs {
			names = append(names, o.Name)
		}
	}
	if len(names) == 0 || n.typ.Class == Group || n.typ.Class == DeploymentGroup {
		return nil, errors.New("want the name of an attribute")
	}
	all := map[string]any{}
	for _, name := range names {
		v, err := n.attr([]any{name})
		if err != nil {
			return nil, err
		}
		all[name] = v
	}
	return all, nil
}

func (n *node) value() (any, error) {
	v, err := n.prop("value")
	if err != nil || v == nil {
		return v, err
	}
	typ, err := n.knownProp("type")
	switch {
	case err != nil || typ == nil:
		return v, err
	case isPending(v):
		return lateType(textOf(typ), v), nil
	}
	return coerce(textOf(typ), v)
}

// attrWithin gives the attributes of a group or nested template. In all of them
// resource.NAME is the id of what is in it, resource.NAME.ATTRIBUTE an attribute of that.
func (n *node) attrWithin(name string, rest []any) (any, error) {
	if err := n.expand(); err != nil {
		return nil, err
	}
	path, ok := strings.CutPrefix(name, "resource.")
	switch {
	case !ok && n.inner != nil:
		return n.outputAttr(name, rest)
	case !ok:
		return n.groupAttr(name, rest)
	}
	key, attribute, ok := strings.Cut(path, ".")
	if ok {
		rest = slices.Concat([]any{attribute}, rest)
	}
	m := n.scope.p.nodes[n.name+"."+key]
	switch {
	case m == nil:
		return nil, fmt.Errorf("there is no such resource in %s", n.name)
	case len(rest) == 0:
		return m.id()
	}
	return m.attr(rest)
}

// groupAttr gives the attributes of a group's members: as a list, or as a map if they are
// deployments.
func (n *node) groupAttr(name string, rest []any) (any, error) {
	byKey := n.typ.Class == DeploymentGroup
	of := func(m *node) (any, error) { return m.id() }
	switch {
	case name == "removed_rsrc_list":
		return []any{}, nil
	case name == "refs":
		byKey = false
	case name == "refs_map":
		byKey = true
	case name == "attributes":
		if len(rest) == 0 {
			return nil, errors.New("want the name of an attribute after attributes")
		}
		steps := rest
		of = func(m *node) (any, error) { return m.attr(steps) }
		byKey, rest = true, nil
	case byKey: // the path leads into the map, not into its values
		if slices.Contains(groupAttributes, name) {
			name = strings.TrimSuffix(name, "s")
		}
		of = func(m *node) (any, error) { return m.attr([]any{name}) }
	default:
		steps := slices.Concat([]any{name}, rest)
		of = func(m *node) (any, error) { return m.attr(steps) }
		rest = nil
	}
	list := make([]any, len(n.members))
	all := make(map[string]any, len(n.members))
	for i, m := range n.members {
		v, err := of(m)
		if err != nil {
			return nil, err
		}
		list[i], all[m.res.Name] = v, v
	}
	if err := charge(&n.scope.p.budget, nodeWeight*len(list)); err != nil {
		return nil, err
	}
	if byKey {
		return at(all, rest), nil
	}
	return at(list, rest), nil
}

// outputAttr gives an output of a nested template, or all.
func (n *node) outputAttr(name string, rest []any) (any, error) {
	if name != "outputs" {
		v, err := n.inner.output(name)
		if err != nil {
			err = fmt.Errorf("output of %s: %w", n.name, err)
		}
		return at(v, rest), err
	}
	all := map[string]any{}
	for _, o := range n.inner.t.Outputs {
		v, err := n.inner.output(o.Name)
		if err != nil {
			return nil, err
		}
		all[o.Name] = v
	}
	return at(all, rest), nil
}
