package components

import (
	"slices"
	"strconv"
	"strings"
)

// A walker calls visit for each call of a function in a value, the outer ones first, and
// odd for each map that looks like one and is none.
type walker struct {
	version string
	visit   func(fn string, args any, path []string)
	odd     func(name string, path []string)
	vars    []string // what is replaced in the text before it is looked at: %index%
}

// value walks what may stand anywhere but in a condition. The path is good only until
// visit returns.
func (w *walker) value(v any, path []string) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			w.value(item, append(path, strconv.Itoa(i)))
		}
	case map[string]any:
		fn, args, ok := call(v, w.version, functions)
		if ok {
			w.visit(fn, args, path)
			w.arguments(fn, args, append(path, fn))
			return
		}
		if len(v) == 1 {
			w.odd(fn, path)
		}
		for key, value := range v {
			w.value(value, append(path, key))
		}
	}
}

func (w *walker) arguments(fn string, args any, path []string) {
	list, _ := args.([]any)
	m, _ := args.(map[string]any)
	switch {
	case fn == "if" && len(list) > 0:
		w.condition(list[0], append(path, "0"))
		for i, item := range list[1:] {
			w.value(item, append(path, strconv.Itoa(i+1)))
		}
	case fn == "repeat":
		outer := w.vars
		if each, ok := m["for_each"].(map[string]any); ok {
			for name := range each {
				w.vars = append(w.vars, name)
			}
		}
		w.value(args, path)
		w.vars = outer
	default:
		w.value(args, path)
	}
}

// condition walks a condition, which is a name, a function, true or false.
func (w *walker) condition(v any, path []string) {
	switch v := v.(type) {
	case string:
		w.visit("condition", v, path)
	case map[string]any:
		fn, args, ok := call(v, w.version, conditionFunctions)
		if !ok {
			w.visit("condition", v, path)
			return
		}
		path = append(path, fn)
		list, isList := args.([]any)
		switch {
		case (fn == "and" || fn == "or") && isList:
			for i, item := range list {
				w.condition(item, append(path, strconv.Itoa(i)))
			}
		case fn == "not":
			w.condition(args, path)
		case fn == "get_param" || fn == "yaql":
			w.visit(fn, args, path[:len(path)-1])
		default:
			w.value(args, path)
		}
	}
}

// varies reports whether a name is made of what is replaced in it.
func (w *walker) varies(name string) bool {
	return slices.ContainsFunc(w.vars, func(v string) bool { return v != "" && strings.Contains(name, v) })
}

// subject returns what a function is about, if that is said by a word: the name of a
// resource, of a parameter or of a file.
func subject(args any) (name string, ok bool) {
	if list, isList := args.([]any); isList && len(list) > 0 {
		args = list[0]
	}
	name, ok = args.(string)
	return name, ok
}
