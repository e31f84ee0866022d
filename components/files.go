package components

import (
	"fmt"
	"path"
)

// File returns the file that a template names, and the path under which it was sent
// along: the name itself, or what it is beside the template.
func (t *Template) File(name string) (at, content string, ok bool) {
	for _, at := range [...]string{name, path.Join(path.Dir(t.Path), name)} {
		if content, ok := t.Files[at]; ok {
			return at, content, true
		}
	}
	return "", "", false
}

// Nested returns the template that the type of a resource names.
func (t *Template) Nested(name string) (*Template, error) {
	at, source, ok := t.File(name)
	if !ok {
		return nil, fmt.Errorf("the file %s was not sent along", name)
	}
	return parse(at, source, t.Files)
}

// Mentions returns the files that a template names, and those of them that are templates,
// as paths beside the deployable; no others than can stand there.
func (t *Template) Mentions() (files, templates []string) {
	dir := path.Dir(t.Path)
	add := func(list *[]string, name string) {
		if outside(dir, name) == "" {
			*list = append(*list, path.Join(dir, name))
		}
	}
	w := walker{version: t.since(), odd: func(string, []string) {}, visit: func(fn string, args any, _ []string) {
		if name, ok := args.(string); ok && fn == "get_file" {
			add(&files, name)
		}
	}}
	for _, r := range t.Resources {
		typ := r.Type
		for member := r.Properties; TypeOf(typ).Class == Group; {
			member, _ = member["resource_def"].(map[string]any)
			typ = text(member["type"])
			member, _ = member["properties"].(map[string]any)
		}
		if TypeOf(typ).Class == Nested {
			add(&templates, typ)
		}
		w.value(r.Properties, nil)
		w.value(r.Metadata, nil)
	}
	for _, o := range t.Outputs {
		w.value(o.Value, nil)
	}
	return append(files, templates...), templates
}
