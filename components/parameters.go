package components

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"windsock"
)

// attributesKey is the parameter that holds, by resource, the attributes of those that
// are no business of ours, unless the template has a parameter of that name.
const attributesKey = "attributes"

// bind returns the values of a template's parameters: those given, otherwise their
// defaults. Values that are known only at run time are taken as they are.
func (t *Template) bind(given map[string]any) (map[string]any, error) {
	values := make(map[string]any, len(t.Parameters))
	for _, p := range t.Parameters {
		v, ok := given[p.Name]
		switch {
		case ok && v != nil:
		case p.HasDefault && p.Default != nil:
			v = p.Default
		default:
			return nil, windsock.Invalid("parameters/"+p.Name, "it has no default, so that it has to be given")
		}
		if isPending(v) {
			v = lateType(p.Type, v)
		} else {
			var err error
			if v, err = p.value(v); err != nil {
				return nil, windsock.Invalid("parameters/"+p.Name, "%s", err)
			}
		}
		values[p.Name] = v
	}
	for _, name := range sortedKeys(given) {
		if _, ok := values[name]; !ok {
			return nil, windsock.Invalid("parameters/"+name, "there is no such parameter")
		}
	}
	return values, nil
}

// value makes v a value of the parameter, unless it breaks a constraint.
func (p Parameter) value(v any) (any, error) {
	v, err := coerce(p.Type, v)
	if err == nil {
		err = p.check(v)
	}
	return v, err
}

// coerce makes v a value of a parameter's type, as far as Heat does. It never shows v.
func coerce(typ string, v any) (any, error) {
	switch typ {
	case "number":
		if s, ok := v.(string); ok {
			v = number(strings.TrimSpace(s))
		}
		switch v.(type) {
		case int64, float64:
			return v, nil
		}
		return nil, errors.New("want a number")
	case "boolean":
		switch strings.ToLower(textOf(v)) {
		case "true", "t", "yes", "y", "on", "1":
			return true, nil
		case "false", "f", "no", "n", "off", "0":
			return false, nil
		}
		return nil, errors.New("want true or false")
	case "comma_delimited_list":
		switch v := v.(type) {
		case []any:
			list := make([]any, len(v))
			for i, e := range v {
				list[i] = textOf(e)
			}
			return list, nil
		case string:
			list := []any{}
			for item := range strings.SplitSeq(v, ",") {
				if v != "" {
					list = append(list, strings.TrimSpace(item))
				}
			}
			return list, nil
		}
		return nil, fmt.Errorf("want a list, or text with commas; got %s", kindOf(v))
	case "json":
		switch v := v.(type) {
		case map[string]any, []any:
			return v, nil
		case string:
			if v == "" {
				return map[string]any{}, nil
			}
			var parsed any
			if json.Unmarshal([]byte(v), &parsed) == nil {
				return normalize(parsed), nil
			}
		}
		return nil, errors.New("want a map or a list, or JSON")
	}
	switch v.(type) {
	case []any, map[string]any:
		return nil, fmt.Errorf("want text, got %s", kindOf(v))
	}
	return textOf(v), nil
}

// check returns what a value breaks of the parameter's constraints. What needs a cloud
// to be judged (custom_constraint) is not, nor is a pattern that is no regular expression
// of ours.
func (p Parameter) check(v any) error {
	for _, c := range p.Constraints {
		for kind, rule := range c {
			if err := p.checkOne(kind, rule, v); err != nil {
				if d, ok := c["description"].(string); ok {
					return fmt.Errorf("%w (%s)", err, d)
				}
				return err
			}
		}
	}
	return nil
}

func (p Parameter) checkOne(kind string, rule, v any) error {
	switch kind {
	case "length":
		n := int64(utf8.RuneCountInString(textOf(v)))
		switch v := v.(type) {
		case []any:
			n = int64(len(v))
		case map[string]any:
			n = int64(len(v))
		}
		return within(rule, n, "a length")
	case "range":
		if _, ok := asFloat(v); ok {
			return within(rule, v, "a number")
		}
	case "modulo":
		r, _ := rule.(map[string]any)
		n, isInt := v.(int64)
		step, ok := r["step"].(int64)
		offset, _ := r["offset"].(int64)
		if ok && step != 0 && (!isInt || (n-offset)%step != 0) {
			return fmt.Errorf("want %d and steps of %d from there", offset, step)
		}
	case "allowed_values":
		allowed, ok := rule.([]any)
		if !ok {
			return nil
		}
		values, isList := v.([]any)
		if !isList {
			values = []any{v}
		}
		for _, v := range values {
			if !slices.ContainsFunc(allowed, func(a any) bool { return equal(a, v) || textOf(a) == textOf(v) }) {
				if p.Hidden {
					return errors.New("want one of the values that are allowed")
				}
				return fmt.Errorf("want one of %s", encode(allowed))
			}
		}
	case "allowed_pattern":
		pattern, _ := rule.(string)
		if re, err := regexp.Compile("^(?:" + pattern + ")$"); err == nil && !re.MatchString(textOf(v)) {
			return fmt.Errorf("want what matches %s", pattern)
		}
	}
	return nil
}

// within judges v by a rule's min and max.
func within(rule, v any, what string) error {
	bounds, _ := rule.(map[string]any)
	n, _ := asFloat(v)
	lowest, hasMin := asFloat(bounds["min"])
	highest, hasMax := asFloat(bounds["max"])
	if hasMin && n < lowest {
		return fmt.Errorf("want %s of at least %s", what, textOf(bounds["min"]))
	}
	if hasMax && n > highest {
		return fmt.Errorf("want %s of at most %s", what, textOf(bounds["max"]))
	}
	return nil
}

// asFloat returns a number, which may be written as text, as Heat's are.
func asFloat(v any) (float64, bool) {
	if s, ok := v.(string); ok {
		v = number(s)
	}
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
