package components

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"windsock"
	"windsock/document"
)

func (p place) checkResource(r *Resource) {
	p.checkType(r.Type, r.Properties, "properties")
	if p.class == Deployment || p.class == DeploymentGroup {
		p.checkPolicy(r.Metadata)
	}
}

// checkType looks at the properties of a resource of some type, which stand at a path.
func (p place) checkType(typ string, properties map[string]any, at ...string) {
	t := TypeOf(typ)
	switch t.Class {
	case Foreign:
		p.note([]string{"type"}, "%s is left to the cloud, with all that is in it", typ)
		return
	case Nested:
		p.checkNested(typ, properties, at)
		return
	case None:
		return
	}
	if p.isCall(properties) {
		return
	}
	p.checkProperties(typ, t, properties, at)
	switch t.Class {
	case Config, Lifecycle:
		p.checkDeclared(properties["inputs"], append(at, "inputs"), "name", "description", "type", "default", "replace_on_change")
		p.checkDeclared(properties["outputs"], append(at, "outputs"), "name", "description", "type", "error_output")
		p.checkLifecycle(properties["configs"], append(at, "configs"))
	case Deployment:
		p.checkServer(properties["server"], append(at, "server"))
		p.checkDeployment(t, properties, at)
	case DeploymentGroup:
		if servers, ok := properties["servers"].(map[string]any); ok && !p.isCall(servers) {
			for name, server := range servers {
				p.checkServer(server, append(slices.Clone(at), "servers", name))
			}
		}
		p.checkDeployment(t, properties, at)
	case Condition:
		p.checkHandle(properties, at)
	case Group:
		p.checkGroup(properties, at)
	}
}

func (p place) isCall(v any) bool {
	_, _, ok := call(v, p.since(), functions)
	return ok
}

func (p place) checkProperties(typ string, t Type, properties map[string]any, at []string) {
	wrong := p.fault
	if t.Class == Server {
		wrong = p.warn // that is for the cloud to say
	}
	for name, v := range properties {
		property, ok := t.Properties[name]
		if !ok {
			p.warn(append(at, name), "%s has no property %s", typ, name)
			continue
		}
		if why := property.wrong(v); why != "" && !p.isCall(v) {
			wrong(append(at, name), "%s: %s", name, why)
		}
	}
	for name, property := range t.Properties {
		if property.Required && properties[name] == nil {
			wrong(at, "%s wants the property %s", typ, name)
		}
	}
}

var kindNames = map[Kind]string{
	Text: "text", Number: "a number", Integer: "a whole number", Boolean: "true or false", List: "a list", Map: "a mapping",
}

// wrong says why a value that is no function cannot be that of a property.
func (p Property) wrong(v any) string {
	list, isList := v.([]any)
	scalar := !isList && !isMap(v)
	switch {
	case v == nil:
		return ""
	case p.Kind == List && !isList, p.Kind == Map && !isMap(v), !scalar && p.Kind != List && p.Kind != Map && p.Kind != Any:
		return fmt.Sprintf("want %s, got %s", kindNames[p.Kind], describe(v))
	case p.Kind == List && int64(len(list)) < p.Min:
		return fmt.Sprintf("want at least %d", p.Min)
	case p.Kind == Number || p.Kind == Integer:
		return p.wrongNumber(text(v))
	case p.Allowed != nil:
		if scalar {
			list = []any{v}
		}
		for _, item := range list {
			if word, ok := item.(string); ok && !slices.Contains(p.Allowed, word) {
				return fmt.Sprintf("want one of %s; got %q", strings.Join(p.Allowed, ", "), word)
			}
		}
	}
	return ""
}

func (p Property) wrongNumber(s string) string {
	n, err := strconv.ParseFloat(s, 64)
	_, notWhole := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil, p.Kind == Integer && notWhole != nil:
		return fmt.Sprintf("want %s, got %q", kindNames[p.Kind], s)
	case p.Max > 0 && (n < float64(p.Min) || n > float64(p.Max)):
		return fmt.Sprintf("want %d to %d, got %s", p.Min, p.Max, s)
	case n < float64(p.Min):
		return fmt.Sprintf("want at least %d, got %s", p.Min, s)
	}
	return ""
}

var inputTypes = []string{"String", "Number", "CommaDelimitedList", "Json", "Boolean"}

// checkDeclared looks at the inputs, or the outputs, of a config.
func (p place) checkDeclared(v any, at []string, keys ...string) {
	what := at[len(at)-1]
	list, _ := v.([]any)
	seen := map[string]bool{}
	for i, item := range list {
		at := append(slices.Clone(at), strconv.Itoa(i))
		m, _ := item.(map[string]any)
		name := text(m["name"])
		switch {
		case p.isCall(item):
			continue
		case name == "":
			p.fault(at, "%s: want mappings with a name", what)
		case seen[name]:
			p.fault(at, "%s: %s stands there already", what, name)
		}
		seen[name] = true
		for key := range m {
			if !slices.Contains(keys, key) {
				p.warn(append(at, key), "%s: %s means nothing there", what, key)
			}
		}
		if typ, ok := m["type"].(string); ok && !slices.Contains(inputTypes, typ) {
			p.fault(append(at, "type"), "%s: want as type one of %s; got %q", what, strings.Join(inputTypes, ", "), typ)
		}
	}
}

// checkLifecycle looks at the configs of a SoftwareComponent.
func (p place) checkLifecycle(v any, at []string) {
	list, _ := v.([]any)
	seen := map[string]bool{}
	for i, item := range list {
		at := append(slices.Clone(at), strconv.Itoa(i))
		m, ok := item.(map[string]any)
		if p.isCall(item) {
			continue
		}
		if !ok || m["tool"] == nil {
			p.fault(at, "configs: want mappings with a config and its tool")
			continue
		}
		for key := range m {
			if !slices.Contains([]string{"actions", "config", "tool"}, key) {
				p.warn(append(at, key), "configs: %s means nothing there", key)
			}
		}
		for _, action := range actionsOf(m) {
			if seen[action] {
				p.fault(at, "configs: there are two for %s", action)
			}
			seen[action] = true
		}
	}
}

// actionsOf returns those of one config of a SoftwareComponent.
func actionsOf(config map[string]any) (actions []string) {
	list, ok := config["actions"].([]any)
	if !ok {
		return []string{"CREATE", "UPDATE"}
	}
	for _, action := range list {
		actions = append(actions, text(action))
	}
	return actions
}

// checkServer looks whether components can be on what is named.
func (p place) checkServer(v any, at []string) {
	name, ok := p.refersTo(v)
	r := p.byName[name]
	switch {
	case !ok:
		if other, isText := v.(string); isText && p.byName[other] != nil {
			p.warn(at, "server: %s is text here; for the resource write {get_resource: %s}", other, other)
		}
		return
	case r == nil:
		return
	}
	switch TypeOf(r.Type).Class {
	case Server:
	case Foreign, Nested, Group:
		p.warn(at, "server: %s is a %s, which may be no server", name, r.Type)
	default:
		p.fault(at, "server: %s is a %s, which is no server", name, r.Type)
	}
}

// configOf returns the config of a deployment, if that is a resource here.
func (c *checker) configOf(properties map[string]any) *Resource {
	name, _ := c.refersTo(properties["config"])
	if r := c.byName[name]; r != nil && (TypeOf(r.Type).Class == Config || TypeOf(r.Type).Class == Lifecycle) {
		return r
	}
	return nil
}

func (p place) checkDeployment(t Type, properties map[string]any, at []string) {
	path := append(slices.Clone(at), "config")
	v := properties["config"]
	name, ok := p.refersTo(v)
	word, isText := v.(string)
	r := p.byName[name]
	switch {
	case v == nil:
		p.warn(at, "it has no config: there is nothing to run")
	case isText && p.byName[word] != nil:
		p.fault(path, "config: %s is text here; for the resource write {get_resource: %s}", word, word)
	case isText:
		p.fault(path, "config: want {get_resource: …} of a config that stands here")
	case !ok || r == nil:
	case TypeOf(r.Type).Class == Nested:
		p.warn(path, "config: %s is a %s: what is to be run does not stand here", name, r.Type)
	case p.configOf(properties) == nil:
		p.fault(path, "config: %s is a %s, which is no config to run", name, r.Type)
	default:
		p.checkInputs(t, r, properties, append(slices.Clone(at), "input_values"))
	}
}

// checkInputs compares what a config declares with what it is given.
func (p place) checkInputs(t Type, config *Resource, properties map[string]any, at []string) {
	given, ok := properties["input_values"].(map[string]any)
	if p.isCall(properties["input_values"]) || (!ok && properties["input_values"] != nil) || p.isCall(config.Properties["inputs"]) {
		return
	}
	need := map[string]bool{} // all that it has use for, and whether it has to be given
	if t.Structured || TypeOf(config.Type).Structured {
		inputsIn(config.Properties["config"], cmp.Or(text(properties["input_key"]), "get_input"), need)
	}
	for _, name := range windsock.GivenInputs {
		delete(need, name)
	}
	list, _ := config.Properties["inputs"].([]any)
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok || p.isCall(item) {
			return
		}
		need[text(m["name"])] = !has(m, "default")
	}
	for name := range given {
		if _, ok := need[name]; !ok {
			p.warn(append(slices.Clone(at), name), "input_values: %s has no input %s", config.Name, name)
		}
	}
	missing := p.warn
	if properties["input_values_validate"] == "STRICT" {
		missing = p.fault
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if need[name] && !has(given, name) {
			missing(at, "input_values: the input %s of %s is not given, and has no default", name, config.Name)
		}
	}
}

// inputsIn collects what a structure asks for by get_input.
func inputsIn(v any, key string, names map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			inputsIn(item, key, names)
		}
	case map[string]any:
		if name, ok := v[key].(string); ok && len(v) == 1 {
			names[name] = true
		}
		for _, item := range v {
			inputsIn(item, key, names)
		}
	}
}

// outputsOf returns the outputs that a deployment declares, if that can be said.
func (c *checker) outputsOf(deployment *Resource) (names []string, ok bool) {
	config := c.configOf(deployment.Properties)
	if config == nil {
		return nil, false
	}
	list, ok := config.Properties["outputs"].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		names = append(names, text(m["name"]))
	}
	return names, ok || config.Properties["outputs"] == nil
}

func (p place) checkHandle(properties map[string]any, at []string) {
	for _, key := range [...]string{"handle", "Handle"} {
		v := properties[key]
		path := append(slices.Clone(at), key)
		name, ok := p.refersTo(v)
		if _, isText := v.(string); isText {
			p.fault(path, "%s: want {get_resource: …} of a handle", key)
		}
		r := p.byName[name]
		if !ok || r == nil {
			continue
		}
		switch TypeOf(r.Type).Class {
		case Handle, Nested:
		default:
			p.fault(path, "%s: %s is a %s, which is no handle", key, name, r.Type)
		}
	}
}

func (p place) checkGroup(properties map[string]any, at []string) {
	member, ok := properties["resource_def"].(map[string]any)
	if !ok || p.isCall(member) {
		return
	}
	path := append(slices.Clone(at), "resource_def")
	for key := range member {
		if !slices.Contains([]string{"type", "properties", "metadata"}, key) {
			p.warn(append(path, key), "resource_def: %s means nothing there", key)
		}
	}
	typ, ok := member["type"].(string)
	if !ok {
		p.fault(path, "resource_def: want a type")
		return
	}
	inner, _ := member["properties"].(map[string]any)
	p.class = TypeOf(typ).Class
	p.checkType(typ, inner, append(path, "properties")...)
}

// checkPolicy looks at what the metadata of a deployment says to us.
func (p place) checkPolicy(metadata any) {
	m, _ := metadata.(map[string]any)
	policy, given := m[policyKey]
	if !given {
		return
	}
	fields, ok := policy.(map[string]any)
	if !ok {
		p.fault([]string{"metadata", policyKey}, "metadata: want as %s a mapping with timeout or retries", policyKey)
	}
	bounds := map[string]Property{
		"timeout": {Kind: Integer, Min: 1},
		"retries": {Kind: Integer, Max: maxRetries},
	}
	for key, v := range fields {
		bound, ok := bounds[key]
		path := []string{"metadata", policyKey, key}
		if !ok {
			p.warn(path, "metadata: %s.%s means nothing", policyKey, key)
		} else if why := bound.wrong(v); why != "" && !p.isCall(v) {
			p.fault(path, "metadata: %s.%s: %s", policyKey, key, why)
		}
	}
}

// checkNested looks at the template that a type names, once, and at what it is given.
func (p place) checkNested(typ string, properties map[string]any, at []string) {
	n := p.nest(typ)
	if n == nil || p.isCall(properties) {
		return
	}
	p.nested[typ] = n
	for name := range properties {
		if n.params[name] == nil {
			p.fault(append(slices.Clone(at), name), "%s has no parameter %s", typ, name)
		}
	}
	for name, parameter := range n.params {
		if !parameter.HasDefault && properties[name] == nil {
			p.fault(at, "%s wants the parameter %s", typ, name)
		}
	}
}

// nest returns the checker of a nested template; nil if there is no such template.
func (p place) nest(typ string) *checker {
	file, _, ok := p.File(typ)
	switch {
	case !ok:
		if why := outside(path.Dir(p.Path), typ); why != "" {
			p.warn([]string{"type"}, "the template %s %s: it is not read", typ, why)
		} else {
			p.warn([]string{"type"}, "the template %s was not sent along: it cannot be deployed without", typ)
		}
		return nil
	case file == p.Path || slices.Contains(p.above, file):
		p.fault([]string{"type"}, "the template %s is nested within itself", typ)
		return nil
	case len(p.above) >= maxNesting:
		p.fault([]string{"type"}, "the template %s is nested deeper than %d", typ, maxNesting)
		return nil
	case p.all[file] == nil:
		t, err := p.Nested(typ)
		if err != nil {
			t = &Template{Path: file, Findings: []windsock.Finding{findingOf(file, err)}}
		}
		n := newChecker(t, p.all)
		n.above, n.broken = append(slices.Clone(p.above), p.Path), err != nil
		n.check()
	}
	if n := p.all[file]; !n.broken {
		return n
	}
	return nil
}

// findingOf says why a file is no template.
func findingOf(path string, err error) windsock.Finding {
	f := windsock.Finding{File: path, Severity: windsock.SeverityError, Text: err.Error()}
	if at := (*document.Error)(nil); errors.As(err, &at) {
		f.Line, f.Text = at.Line, at.Detail
	}
	return f
}
