package components

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"windsock"
)

// The shorter form has two things more than a HOT template, and may leave out its
// version:
//
//	components:               # what is to be configured
//	  db:
//	    group: script         # whose hook runs it; this is the default
//	    config: |             # text; a mapping with get_input; or for each action one of these
//	      #!/bin/sh
//	      echo $port > $heat_outputs_path.address
//	    inputs: [port]        # names; or a mapping of names to what is given, if nothing else is
//	    outputs: [address]
//	  web:
//	    config: {get_file: web.sh}
//	    inputs: {db: {get_attr: [db, address]}}
//	    depends_on: [db]      # it may have options, timeout and retries, too
//	instances:                # or below resources
//	  serverA: {components: [db]}
//	  serverB: {components: [{component: web, name: front, inputs: {db: 10.0.0.1}}]}
//
// A component that stands on one server has its own name; on several it is serverA.db
// and serverB.db, unless it is given a name where it stands.

// action names, as mappings of configs have them.
var actionNames = []string{"CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME"}

const defaultGroup = "script"

// component is one of the section components.
type component struct {
	entry
	fields map[string]any
	typ    string   // of the resource that puts it on a server
	after  []string // depends_on
	names  []string // of these resources, in order
}

// use is a component on a server.
type use struct {
	entry            // of the list
	component string // its name
	server    string
	condition any // its own, or its server's
	fields    map[string]any
}

// readShort makes resources of what the shorter form has: a config of each component, a
// server of each instance, a deployment of each component on a server.
func (r *reader) readShort(root entry) {
	if r.Format != "components" {
		return
	}
	sections := root.value.(map[string]any)
	section := func(name string) []entry {
		if !has(sections, name) {
			return nil
		}
		return r.entries(entry{name, root.At(name), sections[name]}, name)
	}
	known := map[string]*component{}
	for _, e := range section("components") {
		if c := r.component(e); c != nil {
			known[e.name] = c
		}
	}
	var uses []use
	for _, e := range section("resources") {
		if m, ok := e.value.(map[string]any); ok && has(m, "components") {
			uses = append(uses, r.server(e, m)...)
		}
	}
	for _, e := range section("instances") {
		m, _ := e.value.(map[string]any)
		if e.value == nil {
			e.value = map[string]any{}
		}
		uses = append(uses, r.server(e, m)...)
	}
	r.place(known, uses)
}

// component reads one of the section components, and makes its config.
func (r *reader) component(e entry) *component {
	what := "component " + e.name
	m, ok := e.value.(map[string]any)
	if !ok {
		r.finding(e, nil, "%s: want a mapping with a config", what)
		return nil
	}
	r.only(e, what, "group", "config", "inputs", "outputs", "options", "depends_on", "timeout", "retries", "description")
	c := &component{entry: e, fields: m, typ: "OS::Heat::SoftwareDeployment", after: r.names(e, m, "depends_on", what)}
	if !has(m, "config") {
		r.finding(e, nil, "%s: want a config", what)
	}
	properties := map[string]any{"group": defaultGroup}
	for _, key := range [...]string{"group", "config", "options"} {
		if has(m, key) {
			properties[key] = m[key]
		}
	}
	for _, key := range [...]string{"inputs", "outputs"} {
		if has(m, key) {
			properties[key] = r.declared(e, m, key, what)
		}
	}
	config := Resource{Name: e.name + ".config", Type: "OS::Heat::SoftwareConfig", Properties: properties, Line: e.Line,
		LineOf: func(path ...string) int { return e.At(path[min(1, len(path)):]...).Line }}
	if byAction := perAction(m["config"]); len(byAction) > 0 {
		config.Type = "OS::Heat::SoftwareComponent"
		var configs []any
		for _, action := range slices.Sorted(maps.Keys(byAction)) {
			configs = append(configs, map[string]any{"actions": []any{action}, "config": byAction[action], "tool": properties["group"]})
		}
		properties["configs"] = configs
		delete(properties, "config")
		delete(properties, "group")
	} else if r.isData(m["config"]) {
		config.Type, c.typ = "OS::Heat::StructuredConfig", "OS::Heat::StructuredDeployment"
	}
	r.Resources = append(r.Resources, config)
	return c
}

// perAction returns the configs of a mapping whose keys are all actions; nil if it is
// none.
func perAction(v any) map[string]any {
	m, _ := v.(map[string]any)
	for key := range m {
		if !slices.Contains(actionNames, key) {
			return nil
		}
	}
	return m
}

// isData reports whether v is a mapping, and no function.
func (r *reader) isData(v any) bool {
	_, _, isCall := call(v, r.since(), functions)
	return isMap(v) && !isCall
}

// declared writes a list of names, or a mapping of them, as SoftwareConfig has inputs
// and outputs.
func (r *reader) declared(e entry, m map[string]any, key, what string) any {
	var list []any
	switch v := m[key].(type) {
	case []any:
		for _, item := range v {
			if name, ok := item.(string); ok {
				item = map[string]any{"name": name}
			}
			list = append(list, item)
		}
	case map[string]any:
		if key == "outputs" {
			r.finding(e, []string{key}, "%s: want a list of outputs", what)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, map[string]any{"name": name})
		}
	default:
		if v != nil {
			r.finding(e, []string{key}, "%s: want %s as a list, got %s", what, key, describe(v))
		}
	}
	return list
}

// server makes a server of an entry, and returns the components on it.
func (r *reader) server(e entry, m map[string]any) (uses []use) {
	res, ok := r.resource(e, "components")
	if !ok {
		return nil
	}
	if res.Type == "" {
		res.Type = "OS::Nova::Server"
	}
	r.Resources = append(r.Resources, res)
	items, isList := m["components"].([]any)
	switch {
	case TypeOf(res.Type).Class != Server:
		r.finding(e, []string{"components"}, "resource %s: components stand on servers, and %s is none", e.name, res.Type)
		return nil
	case !isList && m["components"] != nil:
		r.finding(e, []string{"components"}, "resource %s: want a list of components, got %s", e.name, describe(m["components"]))
	}
	for i, item := range items {
		at := entry{Node: e.At("components", fmt.Sprint(i)), value: item}
		u := use{entry: at, server: e.name, condition: res.Condition}
		switch v := item.(type) {
		case string:
			u.component = v
		case map[string]any:
			u.component, u.fields = text(v["component"]), v
			if v["condition"] != nil {
				u.condition = v["condition"]
			}
			r.only(at, "a component on "+e.name, "component", "name", "inputs", "depends_on", "timeout", "retries", "condition")
		}
		if u.component == "" {
			r.finding(at, nil, "resource %s: want the name of a component, or a mapping with component", e.name)
			continue
		}
		uses = append(uses, u)
	}
	return uses
}

// place names each component on each server, and makes a deployment of it.
func (r *reader) place(known map[string]*component, uses []use) {
	if len(uses) > maxNames {
		r.finding(uses[maxNames].entry, nil, "more than %d components on servers", maxNames)
		return
	}
	count := map[string]int{}
	for _, u := range uses {
		count[u.component]++
	}
	taken := map[string]int{} // the line by name
	for _, res := range r.Resources {
		if line := taken[res.Name]; line != 0 {
			r.add(windsock.Finding{File: r.Path, Line: res.Line, Severity: windsock.SeverityError, Text: fmt.Sprintf("%s stands on line %d already", res.Name, line)})
		}
		taken[res.Name] = res.Line
	}
	made := make([]Resource, 0, len(uses))
	for _, u := range uses {
		c := known[u.component]
		if c == nil {
			r.finding(u.entry, nil, "resource %s: there is no component %s", u.server, u.component)
			continue
		}
		name := u.component
		if given := text(u.fields["name"]); given != "" {
			name = given
		} else if count[name] > 1 {
			name = u.server + "." + name
		}
		if line := taken[name]; line != 0 {
			r.finding(u.entry, nil, "%s stands on line %d already: give the component on %s another name", name, line, u.server)
			continue
		}
		taken[name] = u.Line
		c.names = append(c.names, name)
		made = append(made, r.deployment(c, u, name))
	}
	r.Resources = append(r.Resources, made...)
	r.expand(known)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if c := known[name]; count[name] == 0 {
			r.add(windsock.Finding{File: r.Path, Line: c.Line, Severity: windsock.SeverityWarning, Text: "component " + name + " stands on no server"})
		}
	}
}

// maxExpanded is how many names those of components may stand for, all in all.
const maxExpanded = 1_000_000

// expand writes in depends_on for a component all that it is called where it stands.
func (r *reader) expand(known map[string]*component) {
	total := 0
	for i := range r.Resources {
		res := &r.Resources[i]
		var names []string
		for _, name := range res.DependsOn {
			stands := []string{name}
			if c := known[name]; c != nil && len(c.names) > 0 {
				stands = c.names
			}
			names = append(names, stands...)
			if total += len(stands); total > maxExpanded {
				r.add(windsock.Finding{File: r.Path, Line: res.Line, Severity: windsock.SeverityError, Text: "depends_on stands for too many components from here on"})
				return
			}
		}
		res.DependsOn = names
	}
}

func (r *reader) deployment(c *component, u use, name string) Resource {
	what := "component " + name
	given := map[string]any{}
	if values, ok := c.fields["inputs"].(map[string]any); ok {
		maps.Copy(given, values)
	}
	inputs, ok := u.fields["inputs"].(map[string]any)
	if !ok && u.fields["inputs"] != nil {
		r.finding(u.entry, []string{"inputs"}, "%s: want a mapping as inputs", what)
	}
	maps.Copy(given, inputs)
	res := Resource{
		Name: name, Type: c.typ, Line: u.Line,
		Properties: map[string]any{
			"config": map[string]any{"get_resource": c.name + ".config"},
			"server": map[string]any{"get_resource": u.server},
		},
		DependsOn: append(slices.Clone(c.after), r.names(u.entry, u.fields, "depends_on", what)...),
		Condition: u.condition,
	}
	if len(given) > 0 {
		res.Properties["input_values"] = given
	}
	if policy := r.policy(c, u, what); len(policy) > 0 {
		res.Metadata = map[string]any{policyKey: policy}
	}
	res.LineOf = func(path ...string) int {
		switch {
		case len(path) > 2 && path[1] == "input_values" && !has(inputs, path[2]):
			return c.At(append([]string{"inputs"}, path[2:]...)...).Line
		case len(path) > 2 && path[1] == "input_values":
			return u.At(append([]string{"inputs"}, path[2:]...)...).Line
		case len(path) > 0 && path[0] == "depends_on" && !has(u.fields, "depends_on"):
			return c.At("depends_on").Line
		}
		return u.At(path...).Line
	}
	return res
}

// policyKey is the key of the metadata of a deployment in which windsock finds how long
// it may take, in seconds, and how often it is tried again: {windsock: {timeout: 600,
// retries: 2}}.
const policyKey = "windsock"

// maxRetries is how often a component may be tried again by itself.
const maxRetries = 1000

// policy reads timeout and retries, where a component stands or where it is described.
func (r *reader) policy(c *component, u use, what string) map[string]any {
	policy := map[string]any{}
	for _, at := range []struct {
		entry
		fields map[string]any
	}{{c.entry, c.fields}, {u.entry, u.fields}} {
		if v, ok := at.fields["timeout"]; ok {
			var d windsock.Duration
			if err := d.UnmarshalText([]byte(text(v))); err != nil || d < windsock.Duration(time.Second) {
				r.finding(at.entry, []string{"timeout"}, "%s: want as timeout seconds, or a duration such as 90s or 5m", what)
			} else {
				policy["timeout"] = int64(time.Duration(d) / time.Second)
			}
		}
		if v, ok := at.fields["retries"]; ok {
			n, isInt := v.(int64)
			if !isInt || n < 0 || n > maxRetries {
				r.finding(at.entry, []string{"retries"}, "%s: want as retries a number up to %d", what, maxRetries)
			} else {
				policy["retries"] = n
			}
		}
	}
	return policy
}
