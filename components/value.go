package components

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A pending value is a call that can only be made once software has run. It stands in
// trees of values; the names in it are those of the plan.
type pending struct {
	fn   string // of builtins, or one of the references below
	args any
}

// The references. All take a list that begins with the name of a resource; then may come
// an attribute of it, and a path into that.
const (
	refID      = "id"      // what get_resource gives
	refOutput  = "attr"    // of a component or handle
	refServer  = "server"  // of a server
	refForeign = "foreign" // of what nobody tells of
	refName    = "name"    // what has no identity has its name
)

// Functions of ours, which only a plan calls.
const (
	selectPath = "select" // [value, path…]
	asType     = "type"   // [type, value]
)

// A pending value in JSON is a map of callKey and argsKey. A map that has these by itself
// is the value of literalKey.
const (
	callKey    = "$call"
	argsKey    = "$args"
	literalKey = "$literal"
)

// The values of a plan or a job may come to maxWork bytes, of which each value has
// nodeWeight at least.
const (
	maxWork    = 128 << 20
	nodeWeight = 32
)

const maxSafeInt = 1<<53 - 1 // what a float64 has exactly

var errTooLarge = errors.New("it grows too large")

// removed stands for an item that is not there: an `if` without its else.
type removed struct{}

// kindOf names the kind of a value for people; never the value, which may be secret.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	case *pending:
		return "something known only at run time"
	}
	return "nothing"
}

// weigh returns what a value weighs, or something above limit if it is that at least.
func weigh(v any, limit int) int {
	w := nodeWeight
	switch v := v.(type) {
	case string:
		w += len(v)
	case []any:
		for _, e := range v {
			if w += weigh(e, limit-w); w > limit {
				break
			}
		}
	case map[string]any:
		for k, e := range v {
			if w += len(k) + weigh(e, limit-w); w > limit {
				break
			}
		}
	case *pending:
		w += len(v.fn) + weigh(v.args, limit-w)
	}
	return w
}

// isPending reports whether something in v is not known yet.
func isPending(v any) bool {
	switch v := v.(type) {
	case *pending:
		return true
	case []any:
		return slices.ContainsFunc(v, isPending)
	case map[string]any:
		for _, e := range v {
			if isPending(e) {
				return true
			}
		}
	}
	return false
}

// eachRef calls f for each reference in v.
func eachRef(v any, f func(ref *pending, resource string)) {
	switch v := v.(type) {
	case *pending:
		if args, ok := v.args.([]any); ok && len(args) > 0 && isRef(v.fn) {
			if name, ok := args[0].(string); ok {
				f(v, name)
			}
		}
		eachRef(v.args, f)
	case []any:
		for _, e := range v {
			eachRef(e, f)
		}
	case map[string]any:
		for _, e := range v {
			eachRef(e, f)
		}
	}
}

func isRef(fn string) bool {
	return fn == refID || fn == refOutput || fn == refServer || fn == refForeign || fn == refName
}

// mapText returns v with f applied to each text and key in it; in references, to all but
// the resource's name.
func mapText(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = mapText(e, f)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[f(k)] = mapText(e, f)
		}
		return m
	case *pending:
		if args, ok := v.args.([]any); ok && isRef(v.fn) {
			rest, _ := mapText(args[1:], f).([]any)
			return &pending{v.fn, append([]any{args[0]}, rest...)}
		}
		return &pending{v.fn, mapText(v.args, f)}
	}
	return v
}

// normalize makes numbers of what encoding/json decoded int64 where they are whole.
func normalize(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= maxSafeInt {
			return int64(v)
		}
	case int:
		return int64(v)
	case json.Number:
		return number(string(v))
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = normalize(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = normalize(e)
		}
		return m
	}
	return v
}

// number reads a number; nil is none.
func number(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return f
	}
	return nil
}

// textOf is how Heat writes a value into text: maps and lists as JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return floatText(v)
	}
	return string(encode(v))
}

func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".en") {
		s += ".0"
	}
	return s
}

// equal compares as Python does: numbers by their value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case int64:
		if f, ok := b.(float64); ok {
			return float64(a) == f
		}
		return a == b
	case float64:
		if i, ok := b.(int64); ok {
			return a == float64(i)
		}
		return a == b
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, equal)
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, m, equal)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// at follows a path into v. What is not there is nothing.
func at(v any, path []any) any {
	for i, key := range path {
		if p, ok := v.(*pending); ok {
			if args, isList := p.args.([]any); isList && (p.fn == refOutput || p.fn == refServer || p.fn == refForeign || p.fn == selectPath) {
				return &pending{p.fn, slices.Concat(args, path[i:])}
			}
			return &pending{selectPath, slices.Concat([]any{v}, path[i:])}
		}
		if isPending(key) {
			return &pending{selectPath, slices.Concat([]any{v}, path[i:])}
		}
		switch c := v.(type) {
		case map[string]any:
			v = c[textOf(key)]
		case []any:
			n, err := strconv.Atoi(textOf(key))
			if n < 0 {
				n += len(c)
			}
			if err != nil || n < 0 || n >= len(c) {
				return nil
			}
			v = c[n]
		default:
			return nil
		}
	}
	return v
}

// encode writes a value as JSON that decode reads; the same value always in the same bytes.
func encode(v any) []byte {
	b, err := json.Marshal(encodable(v))
	if err != nil {
		panic(fmt.Sprintf("components: a tree that is no JSON: %v", err)) // it is made of what JSON has
	}
	return b
}

func encodable(v any) any {
	switch v := v.(type) {
	case float64:
		return json.Number(floatText(v))
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = encodable(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = encodable(e)
		}
		if _, ok := v[callKey]; ok || v[literalKey] != nil {
			return map[string]any{literalKey: m}
		}
		return m
	case *pending:
		return map[string]any{callKey: v.fn, argsKey: encodable(v.args)}
	}
	return v
}

// decoded is the value that encode was given, of what a json.Decoder with UseNumber read.
func decoded(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i, e := range v {
			v[i] = decoded(e)
		}
	case map[string]any:
		if fn, ok := v[callKey].(string); ok {
			return &pending{fn, decoded(v[argsKey])}
		}
		m, literal := v[literalKey].(map[string]any)
		if !literal {
			m = v
		}
		for k, e := range m {
			m[k] = decoded(e)
		}
		return m
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
