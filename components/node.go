package components

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"windsock"
)

// The bounds of a plan.
const (
	maxComponents = 10_000
	maxResources  = 50_000 // each member of a group counts
)

func (p *planner) newNode(s *scope, r Resource, name string) (*node, error) {
	switch {
	case p.nodes[name] != nil:
		return nil, windsock.Invalid("deployable", "there are two resources named %s", name)
	case len(p.nodes) >= maxResources:
		return nil, windsock.Invalid("deployable", "there are more than %d resources", maxResources)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	n := &node{scope: s, res: r, typ: TypeOf(r.Type), name: name, props: map[string]*memo{}}
	p.nodes[name] = n
	return n, nil
}

// checkName judges the name of a resource, which is part of paths.
func checkName(name string) error {
	if strings.Contains(name, "/") {
		return windsock.Invalid("deployable", "want the names of resources without a slash")
	}
	return windsock.LookupID("deployable", name)
}

// prop returns a property, evaluated; nil: it is not given.
func (n *node) prop(name string) (any, error) {
	raw := n.res.Properties[name]
	if n.group != nil {
		return raw, charge(&n.scope.p.budget, weigh(raw, n.scope.p.budget))
	}
	v, err := n.scope.p.once(n.props, name, func() (any, error) { return n.scope.eval(raw) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if v == (removed{}) {
		v = nil
	}
	return v, nil
}

// knownProp returns a property that has to be known when the plan is made.
func (n *node) knownProp(name string) (any, error) {
	v, err := n.prop(name)
	if err == nil && isPending(v) {
		err = fmt.Errorf("%s: it has to be known before anything runs", name)
	}
	return v, err
}

// expand makes the members of a group, or what is in a nested template.
func (n *node) expand() error {
	if n.expanded != nil {
		if n.expanded.busy {
			return errors.New("it refers to itself")
		}
		return n.expanded.err
	}
	n.expanded = &memo{busy: true}
	var err error
	switch n.typ.Class {
	case Group:
		err = n.expandGroup()
	case DeploymentGroup:
		err = n.expandDeployments()
	case Nested:
		err = n.expandTemplate()
	}
	n.expanded.err, n.expanded.busy = err, false
	return err
}

func (n *node) expandGroup() error {
	count, err := n.knownProp("count")
	if err != nil {
		return err
	}
	size := int64(1)
	if count != nil {
		f, ok := asFloat(count)
		if size = int64(f); !ok || size < 0 || float64(size) != f {
			return errors.New("count: want a whole number of 0 or more")
		}
	}
	v, err := n.prop("resource_def")
	if err != nil {
		return err
	}
	def, _ := v.(map[string]any)
	typ, ok := def["type"].(string)
	if !ok {
		return errors.New("resource_def: want a map with a type")
	}
	variable := "%index%"
	if v, err := n.knownProp("index_var"); err != nil {
		return err
	} else if v != nil && v != "" {
		variable = textOf(v)
	}
	for i := range size {
		index := strconv.FormatInt(i, 10)
		props, _ := mapText(def["properties"], func(s string) string { return strings.ReplaceAll(s, variable, index) }).(map[string]any)
		if err := charge(&n.scope.p.budget, weigh(props, n.scope.p.budget)); err != nil {
			return err
		}
		if err := n.addMember(index, typ, props, def["metadata"]); err != nil {
			return err
		}
	}
	return nil
}

// expandDeployments makes a deployment for each server of the map.
func (n *node) expandDeployments() error {
	v, err := n.prop("servers")
	if err != nil {
		return err
	}
	servers, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("servers: want a map of servers, got %s", kindOf(v))
	}
	props := map[string]any{}
	for _, name := range sortedKeys(n.res.Properties) {
		if props[name], err = n.prop(name); err != nil {
			return err
		}
	}
	delete(props, "servers")
	typ := "OS::Heat::SoftwareDeployment"
	if n.typ.Structured {
		typ = "OS::Heat::StructuredDeployment"
	}
	metadata, err := n.scope.eval(n.res.Metadata)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	for _, key := range sortedKeys(servers) {
		own := map[string]any{"server": servers[key]}
		for k, v := range props {
			own[k] = v
		}
		if err := n.addMember(key, typ, own, metadata); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) addMember(key, typ string, props map[string]any, metadata any) error {
	m, err := n.scope.p.newNode(n.scope, Resource{Name: key, Type: typ, Properties: props, Metadata: metadata}, n.name+"."+key)
	if err != nil {
		return err
	}
	m.group = n
	n.members = append(n.members, m)
	return nil
}

func (n *node) expandTemplate() error {
	p := n.scope.p
	if n.scope.depth >= maxNesting {
		return fmt.Errorf("templates are nested more than %d deep", maxNesting)
	}
	t, err := p.template(n.scope, n.res.Type)
	if err != nil {
		return err
	}
	given := map[string]any{}
	for _, name := range sortedKeys(n.res.Properties) {
		v, err := n.prop(name)
		if err != nil {
			return err
		}
		if v != nil {
			given[name] = v
		}
	}
	inner, err := p.newScope(t, n, given)
	var field *windsock.FieldError
	if errors.As(err, &field) && field.Field != "deployable" { // a parameter of the nested one is a property here
		err = fmt.Errorf("property %s: %s", strings.TrimPrefix(field.Field, "parameters/"), field.Detail)
	}
	n.inner = inner
	return err
}

// refers returns the resource that a value is a reference to; nil: it is none.
func (p *planner) refers(v any) *node {
	ref, ok := v.(*pending)
	if !ok || !isRef(ref.fn) {
		return nil
	}
	args, _ := ref.args.([]any)
	if len(args) == 0 {
		return nil
	}
	name, _ := args[0].(string)
	return p.nodes[name]
}
