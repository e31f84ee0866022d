package components

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"windsock"
	"windsock/document"
)

// MaxSource is how large a template may be, in bytes.
const MaxSource = 4 << 20

// Parse reads a deployable. Its error says that it is none; whatever else is wrong with
// it is among the findings, and not in the template.
func Parse(source string, files map[string]string) (*Template, error) {
	return parse("", source, files)
}

func parse(path, source string, files map[string]string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("larger than %d MiB", MaxSource>>20)
	}
	doc, err := document.Parse(path, []byte(source))
	if err != nil {
		return nil, err
	}
	repeated := doc.DropRepeated()
	value, err := doc.Value()
	if err != nil {
		return nil, err
	}
	sections, ok := value.(map[string]any)
	if !ok {
		return nil, &document.Error{Path: path, Line: 1, Detail: "want a mapping with heat_template_version or components"}
	}
	r := reader{Template: &Template{Path: path, Files: files, Format: "hot"}, doc: doc}
	for _, key := range repeated {
		r.add(repeatedKey(path, key))
	}
	if err := r.readVersion(sections); err != nil {
		return nil, err
	}
	r.readSections(entry{Node: doc.Root(), value: sections})
	return r.Template, nil
}

// reader fills a Template.
type reader struct {
	*Template
	doc *document.Document
}

// repeatedKey says that a key stands twice. Heat takes the last without a word. What is
// lost with a section, a resource or a component would have run.
func repeatedKey(path string, key document.Repeated) windsock.Finding {
	f := windsock.Finding{File: path, Line: key.Line, Severity: windsock.SeverityWarning,
		Text: fmt.Sprintf("%s stands on line %d already; the last counts", key.Key, key.First)}
	if key.Depth == 0 || key.Depth == 1 && slices.Contains([]string{"resources", "components", "instances"}, key.In) {
		f.Severity = windsock.SeverityError
	}
	return f
}

// entry is a member of a mapping, with its value.
type entry struct {
	name string
	document.Node
	value any
}

// lineOf returns the line of what stands at a path in an entry.
func (e entry) lineOf(path ...string) int { return e.At(path...).Line }

// finding says what is wrong with what stands at the path in an entry.
func (r *reader) finding(e entry, path []string, format string, args ...any) {
	r.add(windsock.Finding{
		File: r.Path, Line: e.lineOf(path...), Severity: windsock.SeverityError, Text: fmt.Sprintf(format, args...),
	})
}

func (r *reader) add(f windsock.Finding) {
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
}

func (r *reader) readVersion(sections map[string]any) error {
	fail := func(section, detail string) error {
		return &document.Error{Path: r.Path, Line: r.doc.Root().At(section).Line, Detail: detail}
	}
	version, given := sections["heat_template_version"]
	short := has(sections, "components") || has(sections, "instances")
	switch {
	case sections["AWSTemplateFormatVersion"] != nil || sections["HeatTemplateFormatVersion"] != nil:
		return fail("", "a template of CloudFormation is not read; want heat_template_version or components")
	case !given && !short:
		return fail("", "want a template with heat_template_version, or with components")
	case !given:
		return nil
	}
	r.Version, _ = version.(string)
	if versions[r.Version] == "" {
		return fail("heat_template_version", fmt.Sprintf("heat_template_version: want one of %s; got %q",
			strings.Join(slices.Sorted(maps.Keys(versions)), ", "), text(version)))
	}
	return nil
}

// conditional is the first version with conditions and all that goes with them.
const conditional = "2016-10-14"

func (r *reader) readSections(root entry) {
	for _, section := range r.entries(root, "the template") {
		switch section.name {
		case "heat_template_version":
		case "description":
			r.Description = text(section.value)
		case "parameters":
			r.readParameters(section)
		case "parameter_groups":
			r.readParameterGroups(section, root.value.(map[string]any)["parameters"])
		case "conditions":
			r.readConditions(section)
		case "resources":
			r.readResources(section)
		case "outputs":
			r.readOutputs(section)
		case "components", "instances":
			r.Format = "components"
		default:
			r.finding(section, nil, "%s: there is no such section", section.name)
		}
	}
	r.readShort(root)
}

// entries returns what a mapping holds, in order. Nothing at all is an empty one.
func (r *reader) entries(e entry, what string) (list []entry) {
	m, ok := e.value.(map[string]any)
	if !ok {
		if e.value != nil {
			r.finding(e, nil, "%s: want a mapping, got %s", what, describe(e.value))
		}
		return nil
	}
	for _, member := range e.Members() {
		list = append(list, entry{member.Key, member.Node, m[member.Key]})
	}
	return list
}

// only says which keys of a mapping mean nothing.
func (r *reader) only(e entry, what string, keys ...string) {
	m, _ := e.value.(map[string]any)
	for _, key := range sortedKeys(m) {
		if !slices.Contains(keys, key) {
			r.finding(e, []string{key}, "%s: %s means nothing there", what, key)
		}
	}
}

var parameterTypes = []string{"string", "number", "json", "comma_delimited_list", "boolean"}

func (r *reader) readParameters(section entry) {
	for _, e := range r.entries(section, "parameters") {
		what := "parameter " + e.name
		m, ok := e.value.(map[string]any)
		if !ok {
			r.finding(e, nil, "%s: want a mapping with a type", what)
			continue
		}
		r.only(e, what, "type", "description", "default", "schema", "constraints", "hidden", "label", "immutable", "tags")
		p := Parameter{Name: e.name, Type: text(m["type"]), Description: text(m["description"]), Line: e.Line}
		if !slices.Contains(parameterTypes, p.Type) {
			r.finding(e, []string{"type"}, "%s: want as type one of %s", what, strings.Join(parameterTypes, ", "))
			continue
		}
		p.Default, p.HasDefault = m["default"]
		p.Hidden = isTrue(m["hidden"])
		p.Constraints = r.constraints(e, m["constraints"], what)
		if p.Default != nil {
			if _, err := p.value(p.Default); err != nil {
				r.add(windsock.Finding{File: r.Path, Line: e.lineOf("default"), Severity: windsock.SeverityWarning,
					Text: fmt.Sprintf("%s: its default cannot be taken, so that it has to be given: %s", what, err)})
			}
		}
		r.Parameters = append(r.Parameters, p)
	}
}

var constraintKinds = []string{"length", "range", "modulo", "allowed_values", "allowed_pattern", "custom_constraint"}

func (r *reader) constraints(e entry, v any, what string) (list []map[string]any) {
	items, ok := v.([]any)
	if !ok && v != nil {
		r.finding(e, []string{"constraints"}, "%s: want a list of constraints", what)
	}
	for i, item := range items {
		m, _ := item.(map[string]any)
		n := 0
		for key := range m {
			if slices.Contains(constraintKinds, key) {
				n++
			} else if key != "description" {
				n = -len(m)
			}
		}
		if n != 1 {
			r.finding(e, []string{"constraints", fmt.Sprint(i)}, "%s: want as constraint one of %s", what, strings.Join(constraintKinds, ", "))
			continue
		}
		list = append(list, m)
	}
	return list
}

// readParameterGroups looks only whether the groups are right: they are for who asks for
// parameters.
func (r *reader) readParameterGroups(section entry, parameters any) {
	groups, ok := section.value.([]any)
	if !ok && section.value != nil {
		r.finding(section, nil, "parameter_groups: want a list, got %s", describe(section.value))
	}
	known, _ := parameters.(map[string]any)
	seen := map[string]bool{}
	for i, group := range groups {
		m, _ := group.(map[string]any)
		names, ok := m["parameters"].([]any)
		if !ok {
			r.finding(section, []string{fmt.Sprint(i)}, "parameter_groups: want in each group a list of parameters")
		}
		for j, name := range names {
			path := []string{fmt.Sprint(i), "parameters", fmt.Sprint(j)}
			switch _, ok := known[text(name)]; {
			case !ok:
				r.finding(section, path, "parameter_groups: there is no parameter %s", text(name))
			case seen[text(name)]:
				r.finding(section, path, "parameter_groups: %s stands in a group already", text(name))
			}
			seen[text(name)] = true
		}
	}
}

func (r *reader) readConditions(section entry) {
	if r.since() < conditional {
		r.finding(section, nil, "conditions: there are none before %s", conditional)
		return
	}
	r.Conditions, r.conditionAt = map[string]any{}, map[string]func(path ...string) int{}
	for _, e := range r.entries(section, "conditions") {
		if _, isBool := e.value.(bool); !isBool && !isMap(e.value) {
			r.finding(e, nil, "condition %s: want a function, true or false", e.name)
			continue
		}
		r.Conditions[e.name], r.conditionAt[e.name] = e.value, e.lineOf
	}
}

func (r *reader) readResources(section entry) {
	for _, e := range r.entries(section, "resources") {
		if m, ok := e.value.(map[string]any); ok && has(m, "components") {
			r.Format = "components" // what readShort reads
			continue
		}
		if resource, ok := r.resource(e); ok {
			r.Resources = append(r.Resources, resource)
		}
	}
}

// resource reads what any resource has; more says what this one may have besides.
func (r *reader) resource(e entry, more ...string) (Resource, bool) {
	what := "resource " + e.name
	m, ok := e.value.(map[string]any)
	if !ok {
		r.finding(e, nil, "%s: want a mapping with a type", what)
		return Resource{}, false
	}
	keys := append(more, "type", "properties", "metadata", "depends_on", "update_policy", "deletion_policy", "description")
	if r.since() >= conditional {
		keys = append(keys, "condition", "external_id")
	}
	r.only(e, what, keys...)
	res := Resource{Name: e.name, Type: text(m["type"]), Metadata: m["metadata"], Line: e.Line, LineOf: e.lineOf}
	if _, isText := m["type"].(string); !isText && (m["type"] != nil || more == nil) {
		r.finding(e, []string{"type"}, "%s: want a type", what)
		return Resource{}, false
	}
	for _, key := range []string{"properties", "metadata", "update_policy"} {
		if v, given := m[key]; given && !isMap(v) {
			r.finding(e, []string{key}, "%s: want a mapping as %s, got %s", what, key, describe(v))
		}
	}
	res.Properties, _ = m["properties"].(map[string]any)
	res.DependsOn = r.names(e, m, "depends_on", what)
	if res.Condition = m["condition"]; res.Condition != nil {
		r.checkCondition(e, res.Condition, what)
	}
	if policy := text(m["deletion_policy"]); m["deletion_policy"] != nil && !isMap(m["deletion_policy"]) &&
		!slices.Contains([]string{"delete", "retain", "snapshot"}, strings.ToLower(policy)) {
		r.finding(e, []string{"deletion_policy"}, "%s: want delete, retain or snapshot as deletion_policy, got %q", what, policy)
	}
	return res, true
}

func (r *reader) checkCondition(e entry, v any, what string) {
	switch v.(type) {
	case string, bool, map[string]any:
	default:
		r.finding(e, []string{"condition"}, "%s: want as condition a name, a function, true or false; got %s", what, describe(v))
	}
}

// names reads a name, or a list of names.
func (r *reader) names(e entry, m map[string]any, key, what string) (list []string) {
	v, given := m[key]
	items, isList := v.([]any)
	if !isList && given {
		items = []any{v}
	}
	for _, item := range items {
		name, ok := item.(string)
		if !ok {
			r.finding(e, []string{key}, "%s: want as %s a name, or a list of names", what, key)
			return nil
		}
		list = append(list, name)
	}
	return list
}

func (r *reader) readOutputs(section entry) {
	for _, e := range r.entries(section, "outputs") {
		what := "output " + e.name
		m, ok := e.value.(map[string]any)
		value, given := m["value"]
		if !ok || !given {
			r.finding(e, nil, "%s: want a mapping with a value", what)
			continue
		}
		keys := []string{"value", "description"}
		if r.since() >= conditional {
			keys = append(keys, "condition")
		}
		r.only(e, what, keys...)
		if m["condition"] != nil {
			r.checkCondition(e, m["condition"], what)
		}
		r.Outputs = append(r.Outputs, Output{Name: e.name, Description: text(m["description"]), Value: value, Condition: m["condition"], Line: e.Line, lineOf: e.lineOf})
	}
}

// text is a scalar as text.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool, int64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

func has(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

func isMap(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func isTrue(v any) bool {
	return v == true || slices.Contains([]string{"true", "yes", "on", "t", "y", "1"}, strings.ToLower(text(v)))
}

// describe says what kind of value it is.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		return fmt.Sprint(v)
	case int64, float64:
		return fmt.Sprint("the number ", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "text"
}
