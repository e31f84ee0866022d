// Package document reads YAML as if it were JSON: safely, whoever wrote it, and knowing on
// which line each thing stands.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// The bounds of a file. With its aliases followed it may be larger than it is written,
// but not by much: nine lines of aliases of aliases can stand for gigabytes.
const (
	maxExpanded = 64 << 20 // bytes of keys and values, and nodeCost for each
	nodeCost    = 8
	maxDepth    = 64 // of mappings, lists and aliases; one within what it stands for has no end
)

// A Document is a YAML file that was read.
type Document struct {
	Path string
	root *yaml.Node // nil: the file says nothing
	json bool       // it is JSON, too
}

// An Error says where in a document something is wrong.
type Error struct {
	Path   string // of the file; "": it is none
	Line   int
	Detail string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Detail)
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Detail)
}

// ReadFile returns what is in a file, if that is no more than limit bytes.
func ReadFile(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if len(data) > limit {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, limit>>20)
	}
	return data, err
}

// Parse reads the one document of a YAML file. Its errors name the path.
func Parse(path string, data []byte) (*Document, error) {
	d := &Document{Path: path}
	if i := firstNonText(data); i >= 0 {
		return nil, d.errorOn(1+bytes.Count(data[:i], []byte("\n")), "not UTF-8 text")
	}
	if d.root, d.json = readJSON(data); d.json {
		return d, nil
	}
	docs, err := load(data)
	if err != nil {
		var wrong *yaml.LoadError
		if errors.As(err, &wrong) {
			detail := wrong.Message
			if wrong.ContextMsg != "" {
				detail += fmt.Sprintf(" (%s, from line %d)", wrong.ContextMsg, wrong.ContextMark.Line)
			}
			return nil, d.errorOn(wrong.Mark.Line, detail)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch len(docs) {
	case 0:
	case 1:
		d.root = docs[0].Content[0]
	default:
		return nil, d.errorOn(docs[1].Line, "a second document begins; want one")
	}
	return d, nil
}

// firstNonText returns where data stops being text, or -1.
func firstNonText(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		broken := r == utf8.RuneError && size == 1
		control := unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r'
		if broken || control || r == '\uFFFE' || r == '\uFFFF' {
			return i
		}
		i += size
	}
	return -1
}

func (d *Document) errorOn(line int, detail string) error {
	return &Error{Path: d.Path, Line: line, Detail: detail}
}

// ErrorAt returns an error about what stands at the pointer.
func (d *Document) ErrorAt(at jsontext.Pointer, detail string) error {
	if at == "" {
		return d.errorOn(d.Line(at), detail)
	}
	return d.errorOn(d.Line(at), fieldName(at)+": "+detail)
}

// fieldName writes a pointer as people do: deployments[0].instances[1].probe.
func fieldName(at jsontext.Pointer) string {
	var name strings.Builder
	for token := range at.Tokens() {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			name.WriteString("[" + token + "]")
		case name.Len() > 0:
			name.WriteString("." + token)
		default:
			name.WriteString(token)
		}
	}
	return name.String()
}

// Line returns the line on which what is at the pointer stands; if it is missing, that
// of what it is missing in.
func (d *Document) Line(at jsontext.Pointer) int {
	return d.find(at).Line
}

// Shown is what stands at the pointer, in a word or two.
func (d *Document) Shown(at jsontext.Pointer) string {
	switch n := d.find(at).node; {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case len(n.Value) > 64:
		return "a long text"
	case n.ShortTag() == "!!str":
		return strconv.Quote(n.Value)
	default:
		return n.Value
	}
}

func (d *Document) find(at jsontext.Pointer) Node {
	return d.Root().At(slices.Collect(at.Tokens())...)
}

// JSON returns the document as JSON.
func (d *Document) JSON() ([]byte, error) {
	if d.root == nil {
		return []byte("{}"), nil
	}
	e := expander{doc: d, budget: maxExpanded}
	return e.appendValue(nil, d.root, 0)
}

// expander follows the aliases of a document, as far as its budget goes.
type expander struct {
	doc    *Document
	budget int

	seen map[string]sighting // where keys were seen last
	pass int                 // how many mappings were gathered
}

type sighting struct{ pass, line int }

// spend pays for a look at n.
func (e *expander) spend(n *yaml.Node, depth int) error {
	e.budget -= nodeCost + len(n.Value)
	switch {
	case e.budget < 0:
		return e.doc.errorOn(n.Line, "too large, with all aliases followed")
	case depth > maxDepth:
		return e.doc.errorOn(n.Line, fmt.Sprintf("nested deeper than %d, or an alias within what it stands for", maxDepth))
	}
	return nil
}

func (e *expander) appendValue(out []byte, n *yaml.Node, depth int) ([]byte, error) {
	if err := e.spend(n, depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return e.appendValue(out, n.Alias, depth+1)
	case yaml.SequenceNode:
		return e.appendList(out, n, depth)
	case yaml.MappingNode:
		return e.appendMapping(out, n, depth)
	}
	return e.appendScalar(out, n)
}

func (e *expander) appendList(out []byte, n *yaml.Node, depth int) (_ []byte, err error) {
	out = append(out, '[')
	for i, item := range n.Content {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = e.appendValue(out, item, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func (e *expander) appendMapping(out []byte, n *yaml.Node, depth int) ([]byte, error) {
	members, err := e.members(n, depth)
	if err != nil {
		return nil, err
	}
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = jsontext.AppendQuote(out, m.key.Value); err != nil {
			return nil, e.doc.errorOn(m.key.Line, err.Error())
		}
		out = append(out, ':')
		if out, err = e.appendValue(out, m.value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

func (e *expander) appendScalar(out []byte, n *yaml.Node) ([]byte, error) {
	switch tag := n.ShortTag(); tag {
	case "!!null", "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, e.doc.errorOn(n.Line, err.Error())
		}
		data, err := json.Marshal(v)
		if err != nil { // infinite, or not a number
			return nil, e.doc.errorOn(n.Line, fmt.Sprintf("%s is no value here", n.Value))
		}
		return append(out, data...), nil
	case "!!str", "!!timestamp", "!!merge":
		return jsontext.AppendQuote(out, n.Value)
	default:
		return nil, e.doc.errorOn(n.Line, fmt.Sprintf("the tag %s means nothing here", tag))
	}
}

// member is one key of a mapping, with its value.
type member struct {
	key, value *yaml.Node
}

// members returns what a mapping holds: what it says itself, then what it merges
// ("<<") and does not say itself.
func (e *expander) members(n *yaml.Node, depth int) ([]member, error) {
	if e.seen == nil {
		e.seen = map[string]sighting{}
	}
	g := gatherer{expander: e, first: e.pass + 1, members: make([]member, 0, len(n.Content)/2)}
	err := g.gather(n, depth)
	return g.members, err
}

// gatherer collects members; the first of a name stays.
type gatherer struct {
	*expander
	first   int // its first pass
	members []member
}

func (g *gatherer) gather(n *yaml.Node, depth int) error {
	if err := g.spend(n, depth); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return g.gather(n.Alias, depth+1)
	case yaml.SequenceNode:
		return g.gatherAll(n.Content, depth+1)
	case yaml.ScalarNode:
		return g.doc.errorOn(n.Line, "want a mapping to merge")
	}
	var merged []*yaml.Node
	g.pass++
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := g.spend(key, depth); err != nil {
			return err
		}
		if key.Kind != yaml.ScalarNode {
			return g.doc.errorOn(key.Line, "want a plain word as key")
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		last := g.seen[key.Value]
		if last.pass == g.pass {
			return g.doc.errorOn(key.Line, fmt.Sprintf("%s stands on line %d already", key.Value, last.line))
		}
		g.seen[key.Value] = sighting{g.pass, key.Line}
		if last.pass < g.first {
			g.members = append(g.members, member{key, value})
		}
	}
	return g.gatherAll(merged, depth+1)
}

func (g *gatherer) gatherAll(nodes []*yaml.Node, depth int) error {
	for _, n := range nodes {
		if err := g.gather(n, depth); err != nil {
			return err
		}
	}
	return nil
}
