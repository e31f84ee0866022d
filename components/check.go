package components

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"windsock"
)

// The bounds of a template.
const (
	maxNames    = 10_000 // components, or servers, with all that is nested
	maxNesting  = 5
	maxFindings = 1_000 // then it is not looked at any further
)

// Check says what is in a template, and what is wrong with it.
func (t *Template) Check() windsock.Summary {
	all := map[string]*checker{}
	c := newChecker(t, all)
	c.check()
	s := windsock.Summary{
		Format: t.Format, Version: t.Version, Description: t.Description,
		Parameters: []windsock.ParameterSpec{}, Instances: []string{}, Components: []string{}, Findings: []windsock.Finding{},
		Resources: len(t.Resources), Edges: c.graph.edges(), Depth: c.depth,
	}
	for _, p := range t.Parameters {
		s.Parameters = append(s.Parameters, windsock.ParameterSpec{
			Name: p.Name, Type: p.Type, Description: p.Description, Required: !p.HasDefault, Hidden: p.Hidden,
		})
	}
	servers, components := c.names()
	s.Instances, s.Components = append(s.Instances, servers...), append(s.Components, components...)
	if len(servers) > maxNames || len(components) > maxNames {
		c.at(nil).fault(nil, "more than %d components or servers, with all that is nested", maxNames)
	}
	for _, c := range all {
		s.Findings = append(s.Findings, c.Findings...)
		s.Findings = append(s.Findings, c.found...)
	}
	slices.SortStableFunc(s.Findings, func(a, b windsock.Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, strings.Compare(a.Resource, b.Resource), strings.Compare(a.Text, b.Text))
	})
	s.Findings = slices.Compact(s.Findings)
	if len(s.Findings) >= maxFindings {
		s.Findings = append(s.Findings[:maxFindings], windsock.Finding{
			Line: 1, Severity: windsock.SeverityError, Text: fmt.Sprintf("more than %d findings; these are the first", maxFindings),
		})
	}
	return s
}

// checker looks at one template.
type checker struct {
	*Template
	all     map[string]*checker // by path: each file is looked at once
	above   []string            // the files in which this one is nested
	byName  map[string]*Resource
	params  map[string]*Parameter
	outputs map[string]bool
	nested  map[string]*checker // by the name that a type has
	graph   graph
	depth   int
	broken  bool // it is no template
	found   []windsock.Finding

	named               bool
	servers, components []string // once they are named
}

func newChecker(t *Template, all map[string]*checker) *checker {
	c := &checker{Template: t, all: all, byName: map[string]*Resource{}, params: map[string]*Parameter{}, outputs: map[string]bool{}, nested: map[string]*checker{}}
	all[t.Path] = c
	for i := range t.Resources {
		c.byName[t.Resources[i].Name] = &t.Resources[i]
	}
	for i := range t.Parameters {
		c.params[t.Parameters[i].Name] = &t.Parameters[i]
	}
	for _, o := range t.Outputs {
		c.outputs[o.Name] = true
	}
	return c
}

// place is something of which something may be wrong: a resource, an output, a condition.
type place struct {
	*checker
	resource string
	class    Class
	lineOf   func(path ...string) int
}

func (c *checker) of(r *Resource) place {
	p := c.at(r.LineOf)
	p.resource, p.class = r.Name, TypeOf(r.Type).Class
	return p
}

func (c *checker) at(lineOf func(path ...string) int) place {
	if lineOf == nil {
		lineOf = func(...string) int { return 1 }
	}
	return place{checker: c, lineOf: lineOf}
}

// foreign reports whether it is for the cloud to make.
func (p place) foreign() bool {
	return p.resource != "" && (p.class == Foreign || p.class == Server)
}

func (p place) fault(path []string, format string, args ...any) {
	p.say(windsock.SeverityError, path, format, args)
}

func (p place) warn(path []string, format string, args ...any) {
	p.say(windsock.SeverityWarning, path, format, args)
}

func (p place) note(path []string, format string, args ...any) {
	p.say(windsock.SeverityNote, path, format, args)
}

func (p place) say(severity windsock.Severity, path []string, format string, args []any) {
	if len(p.found) < maxFindings {
		p.found = append(p.found, windsock.Finding{
			File: p.Path, Line: p.lineOf(path...), Resource: p.resource, Severity: severity, Text: fmt.Sprintf(format, args...),
		})
	}
}

func (c *checker) check() {
	c.graph = c.Template.graph()
	var cycles [][]int
	c.depth, cycles = c.graph.walk()
	for _, cycle := range cycles {
		var names []string
		for _, i := range cycle {
			names = append(names, c.Resources[i].Name)
		}
		first := &c.Resources[cycle[0]]
		c.of(first).fault(nil, "a cycle, in which each needs the next: %s, %s", strings.Join(names, ", "), names[0])
	}
	for name, condition := range c.Conditions {
		c.at(c.conditionAt[name]).walker().condition(condition, nil)
	}
	c.conditionCycles()
	for i := range c.Resources {
		c.of(&c.Resources[i]).checkResource(&c.Resources[i])
	}
	for i := range c.Resources {
		r := &c.Resources[i]
		p := c.of(r)
		w := p.walker()
		if p.class == Group {
			w.vars = []string{cmp.Or(text(r.Properties["index_var"]), "%index%")}
		}
		w.value(r.Properties, []string{"properties"})
		w.value(r.Metadata, []string{"metadata"})
		w.condition(r.Condition, []string{"condition"})
		for _, name := range r.DependsOn {
			if c.byName[name] == nil {
				p.fault([]string{"depends_on"}, "depends_on: there is no resource %s%s", name, c.hint(name))
			}
		}
	}
	for _, o := range c.Outputs {
		w := c.at(o.lineOf).walker()
		w.value(o.Value, []string{"value"})
		w.condition(o.Condition, []string{"condition"})
	}
	c.checkHandles()
	c.checkNames()
}

// conditionCycles finds conditions that stand for themselves.
func (c *checker) conditionCycles() {
	const onTheWay, done = 1, 2
	states := map[string]int{}
	var visit func(name string)
	visit = func(name string) {
		states[name] = onTheWay
		w := walker{version: c.since(), odd: func(string, []string) {}, visit: func(fn string, args any, _ []string) {
			next, ok := args.(string)
			switch {
			case fn != "condition" || !ok:
			case states[next] == onTheWay:
				c.at(c.conditionAt[next]).fault(nil, "condition %s stands for itself", next)
			case states[next] != done:
				visit(next)
			}
		}}
		w.condition(c.Conditions[name], nil)
		states[name] = done
	}
	for _, name := range slices.Sorted(maps.Keys(c.Conditions)) {
		if states[name] != done {
			visit(name)
		}
	}
}

// pseudo are the parameters that nobody has to give.
var pseudo = []string{"OS::stack_id", "OS::stack_name", "OS::region", "OS::project_id"}

// walker looks at all references, and names what is no function here.
func (p place) walker() *walker {
	w := &walker{version: p.since()}
	w.odd = func(name string, path []string) { p.checkOdd(name, path) }
	w.visit = func(fn string, args any, path []string) {
		name, ok := subject(args)
		if why := refused[fn]; why != "" {
			p.refuse(path, fn, why)
		}
		switch fn {
		case "get_resource", "get_attr", "Ref":
			if fn == "get_attr" {
				p.checkAttr(args, path)
			}
			if ok && p.lacks(fn, name) && !w.varies(name) {
				p.fault(path, "%s: there is no resource %s%s", fn, name, p.hint(name))
			}
		case "get_param":
			if ok && p.params[name] == nil && !slices.Contains(pseudo, name) && !w.varies(name) {
				p.fault(path, "get_param: there is no parameter %s", name)
			}
		case "get_file":
			if ok && !w.varies(name) {
				p.checkFile(name, path)
			}
		case "condition":
			p.checkCondition(args, path)
		}
	}
	return w
}

// lacks reports whether there is no resource that a function names.
func (c *checker) lacks(fn, name string) bool {
	return c.byName[name] == nil && (fn != "Ref" || c.params[name] == nil && !slices.Contains(pseudo, name))
}

// hint says how a component is named that stands on several servers.
func (c *checker) hint(name string) string {
	if c.Format != "components" || len(c.found) >= maxFindings {
		return ""
	}
	var names []string
	for _, r := range c.Resources {
		if strings.HasSuffix(r.Name, "."+name) {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; there is " + strings.Join(names[:min(len(names), 3)], " and ")
}

// refuse says that we do not have a function. What is left to others may have any.
func (p place) refuse(path []string, fn, why string) {
	if !p.foreign() {
		p.fault(path, "%s is refused: %s", fn, why)
	}
}

func (p place) checkOdd(name string, path []string) {
	version := p.since()
	span, known := functions[name]
	switch {
	case known && span.since > version:
		p.warn(path, "%s is data here: it is a function only since %s", name, span.since)
	case known:
		p.fault(path, "%s is no function any more, since %s", name, span.until)
	case p.foreign(), name == "get_input":
	case strings.HasPrefix(name, "get_"), strings.HasPrefix(name, "Fn::"), strings.HasPrefix(name, "str_replace"):
		p.warn(path, "%s is data here: there is no such function", name)
	}
}

func (p place) checkCondition(v any, path []string) {
	if name, ok := v.(string); ok {
		if _, ok := p.Conditions[name]; !ok {
			p.fault(path, "there is no condition %s", name)
		}
		return
	}
	p.fault(path, "want a condition: a name, or one of equals, get_param, contains, and, or, not")
}

func (p place) checkFile(name string, at []string) {
	_, _, ok := p.File(name)
	why := outside(path.Dir(p.Path), name)
	switch {
	case ok:
	case p.foreign():
		p.note(at, "get_file: %s was not sent along", name)
	case why != "":
		p.warn(at, "get_file: %s %s: it is not read", name, why)
	default:
		p.warn(at, "get_file: %s was not sent along: it cannot be deployed without", name)
	}
}

// outside says why a file that is named in a folder is none that stands beside a template.
func outside(dir, name string) string {
	switch joined := path.Join(dir, name); {
	case strings.Contains(name, "://"):
		return "is a URL"
	case path.IsAbs(name):
		return "is an absolute path"
	case joined == ".." || strings.HasPrefix(joined, "../"):
		return "is outside of the template's folder"
	}
	return ""
}

// checkAttr looks whether what get_attr asks for is ever there.
func (p place) checkAttr(args any, path []string) {
	list, ok := args.([]any)
	least := 2
	if p.since() >= "2015-10-15" {
		least = 1 // all attributes
	}
	if !ok || len(list) < least {
		p.fault(path, "get_attr: want a list of a resource and its attribute")
		return
	}
	name, _ := list[0].(string)
	r := p.byName[name]
	if r == nil || len(list) < 2 {
		return
	}
	attribute, isText := list[1].(string)
	t := TypeOf(r.Type)
	known := append([]string{"show"}, t.Attributes...)
	switch {
	case !isText, t.Class == Foreign, t.Class == Group, t.Class == DeploymentGroup, t.Class == None:
		return
	case t.Class == Deployment:
		outputs, ok := p.outputsOf(r)
		if !ok {
			return
		}
		known = append(known, outputs...)
	case t.Class == Nested:
		n := p.nested[r.Type]
		if n == nil || n.outputs[attribute] || strings.HasPrefix(attribute, "resource.") {
			return
		}
	}
	switch {
	case slices.Contains(known, attribute):
	case p.resource == "", p.foreign(): // nothing of ours waits for it
		p.warn(path, "get_attr: %s has no attribute %s", name, attribute)
	default:
		p.fault(path, "get_attr: %s has no attribute %s", name, attribute)
	}
}

// checkHandles finds those to which is signalled for nothing.
func (c *checker) checkHandles() {
	used := map[string]bool{}
	for _, r := range c.Resources {
		switch TypeOf(r.Type).Class {
		case Condition, Nested, Group, Foreign:
			w := walker{version: c.since(), odd: func(string, []string) {}, visit: func(fn string, args any, _ []string) {
				if name, ok := subject(args); ok && (fn == "get_resource" || fn == "Ref") {
					used[name] = true
				}
			}}
			w.value(r.Properties, nil)
		}
	}
	for i := range c.Resources {
		if r := &c.Resources[i]; TypeOf(r.Type).Class == Handle && !used[r.Name] {
			c.of(r).warn(nil, "no condition waits for what is signalled to it")
		}
	}
}

// checkNames finds components that have one name on one server.
func (c *checker) checkNames() {
	type on struct{ server, name string }
	first := map[on]*Resource{}
	for i := range c.Resources {
		r := &c.Resources[i]
		name, named := r.Properties["name"].(string)
		server, placed := c.refersTo(r.Properties["server"])
		if TypeOf(r.Type).Class != Deployment || !named || !placed {
			continue
		}
		if other := first[on{server, name}]; other != nil {
			c.of(r).warn([]string{"properties", "name"}, "%s is on %s under the name %s, too", other.Name, server, name)
			continue
		}
		first[on{server, name}] = r
	}
}

// refersTo returns the name of the resource that get_resource names.
func (c *checker) refersTo(v any) (name string, ok bool) {
	if fn, args, isCall := call(v, c.since(), functions); isCall && (fn == "get_resource" || fn == "Ref") {
		name, ok = args.(string)
	}
	return name, ok
}

// names returns the names of servers and components, with all that is nested, up to one
// too many.
func (c *checker) names() (servers, components []string) {
	if !c.named {
		c.named = true
		for i := range c.Resources {
			r := &c.Resources[i]
			c.name(r.Name, r.Type, r.Properties)
		}
	}
	return c.servers, c.components
}

func (c *checker) name(name, typ string, properties map[string]any) {
	switch TypeOf(typ).Class {
	case Server:
		c.servers = append(c.servers, name)
	case Deployment, DeploymentGroup, Condition:
		c.components = append(c.components, name)
	case Nested:
		if n := c.nested[typ]; n != nil {
			servers, components := n.names()
			for _, inner := range servers[:min(len(servers), max(0, maxNames+1-len(c.servers)))] {
				c.servers = append(c.servers, name+"."+inner)
			}
			for _, inner := range components[:min(len(components), max(0, maxNames+1-len(c.components)))] {
				c.components = append(c.components, name+"."+inner)
			}
		}
	case Group:
		member, _ := properties["resource_def"].(map[string]any)
		inner, _ := member["properties"].(map[string]any)
		c.name(name+".*", text(member["type"]), inner)
	}
}
