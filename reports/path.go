package reports

import (
	"strconv"
	"strings"

	"windsock"
)

// A Path leads to a value: a JSON Pointer (RFC 6901) from the item or, after a $, from the
// whole body. A step [type=Ready] leads to the first object of a list with that member.
type Path struct {
	text  string
	body  bool
	steps []step
}

type step struct {
	name string // of a member, or the index in a list
	is   string // what the member has to be; only if find
	find bool
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// UnmarshalText reads a path.
func (p *Path) UnmarshalText(text []byte) error {
	rest := string(text)
	*p = Path{text: rest}
	rest, p.body = strings.CutPrefix(rest, "$")
	if rest == "" {
		return nil
	}
	names, ok := strings.CutPrefix(rest, "/")
	if !ok {
		return windsock.Invalid("", "want a path such as /labels/instance, or $/version of the whole body; got %q", windsock.Clip(p.text))
	}
	for name := range strings.SplitSeq(names, "/") {
		s := step{name: name}
		if inner, ok := strings.CutPrefix(name, "["); ok {
			inner, closed := strings.CutSuffix(inner, "]")
			s.name, s.is, s.find = strings.Cut(inner, "=")
			if !closed || !s.find {
				return windsock.Invalid("", "want a step such as [type=Ready]; got %q", windsock.Clip(name))
			}
			s.is = unescape.Replace(s.is)
		}
		s.name = unescape.Replace(s.name)
		p.steps = append(p.steps, s)
	}
	return nil
}

// MarshalText writes it as it was read.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// in returns the value, or nil when there is none.
func (p *Path) in(it *item) any {
	value := it.value
	if p.body {
		value = it.body
	}
	for _, s := range p.steps {
		switch of := value.(type) {
		case map[string]any:
			value = of[s.name]
			if s.find {
				return nil
			}
		case []any:
			value = s.of(of)
		default:
			return nil
		}
	}
	return value
}

// of returns what the step leads to in a list.
func (s *step) of(list []any) any {
	if !s.find {
		if i, err := strconv.Atoi(s.name); err == nil && i >= 0 && i < len(list) {
			return list[i]
		}
		return nil
	}
	for _, value := range list {
		if object, ok := value.(map[string]any); ok {
			if text, ok := textOf(object[s.name]); ok && text == s.is {
				return object
			}
		}
	}
	return nil
}

// field names what the path leads to, as errors do.
func (p *Path) field(it *item) string {
	names := make([]string, 0, len(p.steps)+1)
	if !p.body && it.at != "" {
		names = append(names, it.at)
	}
	for _, s := range p.steps {
		if s.find {
			s.name = "[" + s.name + "=" + s.is + "]"
		}
		names = append(names, s.name)
	}
	if len(names) == 0 {
		return "body"
	}
	return strings.Join(names, ".")
}

// textOf returns a scalar as text. Null is as if it were not there.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}
