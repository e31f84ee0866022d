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
