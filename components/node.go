package components

import (
	"errors"
	"fmt"
	"path"
	"slices"
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
	} else if v != nil {
		variable = textOf(v)
	}
	for i := range size {
		index := strconv.FormatInt(i, 10)
		put := func(s string) string {
			if variable == "" {
				return s
			}
			return strings.ReplaceAll(s, variable, index)
		}
		props, _ := mapText(def["properties"], put).(map[string]any)
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
	for name := range n.res.Properties {
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
	for name := range n.res.Properties {
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
		err = fmt.Errorf("property %s: %s", path.Base(field.Field), field.Detail)
	}
	n.inner = inner
	return err
}

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
	case Group, DeploymentGroup:
		return n.groupAttr(name, rest)
	case Nested:
		return n.nestedAttr(name, rest)
	case Value:
		if name == "value" {
			v, err := n.value()
			return at(v, rest), err
		}
	case Config, Lifecycle:
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
	return nil, fmt.Errorf("resource %s has no such attribute", n.name)
}

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

// groupAttr gives the attributes of a group's members: as a list, for deployments as a map.
func (n *node) groupAttr(name string, rest []any) (any, error) {
	if err := n.expand(); err != nil {
		return nil, err
	}
	if key, of, ok := memberOf(name); ok {
		i := slices.IndexFunc(n.members, func(m *node) bool { return m.res.Name == key })
		if i < 0 {
			return nil, fmt.Errorf("resource %s has no such member", n.name)
		}
		if of != "" {
			rest = slices.Concat([]any{of}, rest)
		}
		if len(rest) == 0 {
			return n.members[i].id()
		}
		return n.members[i].attr(rest)
	}
	of := func(m *node) (any, error) { return m.id() }
	byKey := name != "refs" && (name == "refs_map" || name == "attributes" || n.typ.Class == DeploymentGroup)
	switch {
	case name == "removed_rsrc_list":
		return []any{}, nil
	case name == "refs", name == "refs_map":
	case name == "attributes":
		if len(rest) == 0 {
			return nil, errors.New("want the name of an attribute after attributes")
		}
		steps := rest
		of = func(m *node) (any, error) { return m.attr(steps) }
		rest = nil
	case n.typ.Class == DeploymentGroup: // the path leads into the map, not into its values
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

// memberOf takes resource.KEY and resource.KEY.ATTRIBUTE apart.
func memberOf(name string) (key, attribute string, ok bool) {
	rest, ok := strings.CutPrefix(name, "resource.")
	if !ok {
		return "", "", false
	}
	key, attribute, _ = strings.Cut(rest, ".")
	return key, attribute, true
}

func (n *node) nestedAttr(name string, rest []any) (any, error) {
	if err := n.expand(); err != nil {
		return nil, err
	}
	if key, of, ok := memberOf(name); ok {
		m, err := n.inner.find(key)
		if err != nil {
			return nil, err
		}
		if of != "" {
			rest = slices.Concat([]any{of}, rest)
		}
		if len(rest) == 0 {
			return m.id()
		}
		return m.attr(rest)
	}
	if name == "outputs" {
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
	v, err := n.inner.output(name)
	if err != nil {
		return nil, fmt.Errorf("output of %s: %w", n.name, err)
	}
	return at(v, rest), nil
}

// config returns the config that a deployment deploys; nil: none is given.
func (n *node) config() (*node, error) {
	v, err := n.prop("config")
	if err != nil || v == nil {
		return nil, err
	}
	c := n.scope.p.refers(v)
	if c == nil || c.typ.Class != Config && c.typ.Class != Lifecycle {
		return nil, errors.New("config: want get_resource of a software config in this deployable")
	}
	return c, nil
}

// outputs returns what a deployment declares beside the three of all.
func (n *node) outputs() ([]windsock.Output, error) {
	c, err := n.config()
	if err != nil || c == nil {
		return nil, err
	}
	v, err := c.knownProp("outputs")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	list, _ := v.([]any)
	var outputs []windsock.Output
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m["name"].(string)
		if !ok {
			return nil, fmt.Errorf("%s: outputs: want maps with a name", c.name)
		}
		fails, _ := coerce("boolean", m["error_output"])
		outputs = append(outputs, windsock.Output{Name: name, Type: textOf(m["type"]), Error: fails == true})
	}
	return outputs, nil
}

func (n *node) declares(output string) (bool, error) {
	if slices.Contains(deployAttributes, output) {
		return true, nil
	}
	outputs, err := n.outputs()
	return slices.ContainsFunc(outputs, func(o windsock.Output) bool { return o.Name == output }), err
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
