package document

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Value returns what stands in the document as PyYAML reads it, which follows YAML 1.1:
// yes and off are booleans, 0644 is 420, 12:30 is 750, 1e3 is text. A value is nil, bool,
// int64, float64, string, []any or map[string]any; keys and dates are text as they are
// written, and so is a whole number that does not fit.
func (d *Document) Value() (any, error) {
	if d.root == nil {
		return map[string]any{}, nil
	}
	e := expander{doc: d, budget: maxValue}
	return e.value(d.root, 0)
}

// maxValue is as maxExpanded, for what is kept in memory; an alias costs more, so that a
// bomb ends soon.
const (
	maxValue  = 32 << 20
	aliasCost = 256
)

func (e *expander) value(n *yaml.Node, depth int) (any, error) {
	if err := e.spend(n, depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		e.budget -= aliasCost
		return e.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		if err := e.plainTag(n, "!!seq"); err != nil {
			return nil, err
		}
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := e.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case yaml.MappingNode:
		if err := e.plainTag(n, "!!map"); err != nil {
			return nil, err
		}
		members, err := e.members(n, depth)
		if err != nil {
			return nil, err
		}
		m := make(map[string]any, len(members))
		for _, member := range members {
			if m[member.key.Value], err = e.value(member.value, depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return e.scalar(n)
}

// plainTag returns an error if a list or a mapping is said to be something else.
func (e *expander) plainTag(n *yaml.Node, want string) error {
	if tag := n.ShortTag(); tag != want {
		return e.doc.errorOn(n.Line, fmt.Sprintf("the tag %s means nothing here", tag))
	}
	return nil
}

func (e *expander) scalar(n *yaml.Node) (any, error) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tagged := n.Style&yaml.TaggedStyle != 0
	switch tag := n.ShortTag(); {
	case tag == "!!null", tag == "!!bool", tag == "!!int", tag == "!!float":
		if v := plain(n.Value); tagged && shortTag(v) != tag {
			return nil, e.doc.errorOn(n.Line, fmt.Sprintf("%q is no %s", n.Value, tag))
		}
	case tag != "!!str" && tag != "!!timestamp" && tag != "!!merge":
		return nil, e.doc.errorOn(n.Line, fmt.Sprintf("the tag %s means nothing here", tag))
	case tagged || n.Style&quoted != 0:
		return n.Value, nil
	}
	v := plain(n.Value)
	if e.doc.json && v == any(n.Value) {
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			v = f // 1e3
		}
	}
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return nil, e.doc.errorOn(n.Line, fmt.Sprintf("%s is no value here", n.Value))
	}
	return v, nil
}

// shortTag is the tag that a plain value has.
func shortTag(v any) string {
	switch v.(type) {
	case nil:
		return "!!null"
	case bool:
		return "!!bool"
	case int64:
		return "!!int"
	case float64:
		return "!!float"
	}
	return "!!str"
}

var (
	boolean = map[string]bool{"yes": true, "true": true, "on": true, "no": false, "false": false, "off": false}
	integer = regexp.MustCompile(`^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*(:[0-5]?[0-9])*)$`)
	float   = regexp.MustCompile(`^([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)$`)
	special = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// plain returns what YAML 1.1 has a plain scalar stand for.
func plain(text string) any {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil
	}
	if b, ok := boolean[strings.ToLower(text)]; ok && oneCase(text) {
		return b
	}
	digits := strings.ReplaceAll(text, "_", "")
	switch {
	case integer.MatchString(text):
		if strings.Contains(digits, ":") {
			if f := sexagesimal(digits); math.Abs(f) < 1<<53 {
				return int64(f)
			}
		} else if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
			return i
		}
	case float.MatchString(text):
		if strings.Contains(digits, ":") {
			return sexagesimal(digits)
		}
		if f, err := strconv.ParseFloat(digits, 64); err == nil {
			return f
		}
	case special.MatchString(text):
		f, _ := strconv.ParseFloat(strings.Replace(text, ".", "", 1), 64)
		return f
	}
	return text
}

// oneCase reports whether a word is written small, large, or with its first letter large.
func oneCase(word string) bool {
	rest := word[1:]
	return rest == strings.ToLower(rest) || word == strings.ToUpper(word)
}

// sexagesimal reads 1:30 as 90.
func sexagesimal(text string) (sum float64) {
	unsigned := strings.TrimLeft(text, "+-")
	for part := range strings.SplitSeq(unsigned, ":") {
		f, _ := strconv.ParseFloat(part, 64)
		sum = sum*60 + f
	}
	if strings.HasPrefix(text, "-") {
		return -sum
	}
	return sum
}
