package main

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	maxFile     = 16 << 20 // bytes
	maxExpanded = 64 << 20 // bytes of keys and values, and nodeCost for each
	nodeCost    = 8
	maxDepth    = 32 // of mappings, lists and aliases; one within what it stands for has no end
)

// document is a YAML file that is read as if it were JSON, and that knows on which
// line each thing stands.
type document struct {
	path string
	root *yaml.Node // nil: the file says nothing
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, maxFile>>20)
	}
	return data, err
}

// parseDocument reads the one document of a YAML file.
func parseDocument(path string, data []byte) (*document, error) {
	d := &document{path: path}
	if i := firstNonText(data); i >= 0 {
		return nil, d.errorOn(1+bytes.Count(data[:i], []byte("\n")), "not UTF-8 text")
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
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

func (d *document) errorOn(line int, detail string) error {
	return fmt.Errorf("%s:%d: %s", d.path, line, detail)
}

// errorAt returns an error about what stands at the pointer.
func (d *document) errorAt(at jsontext.Pointer, detail string) error {
	if at == "" {
		return d.errorOn(d.line(at), detail)
	}
	return d.errorOn(d.line(at), fieldName(at)+": "+detail)
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

// line returns the line on which what is at the pointer stands; if it is missing, that
// of what it is missing in.
func (d *document) line(at jsontext.Pointer) int {
	line, _ := d.find(at)
	return line
}

// shown is what stands at the pointer, in a word or two.
func (d *document) shown(at jsontext.Pointer) string {
	switch _, n := d.find(at); {
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

// find returns what stands at the pointer, and the line of its key; if it is missing,
// the last on the way there.
func (d *document) find(at jsontext.Pointer) (line int, n *yaml.Node) {
	if d.root == nil {
		return 1, &yaml.Node{Kind: yaml.MappingNode}
	}
	e := expander{doc: d, budget: maxExpanded}
	line, n = d.root.Line, resolve(d.root)
	for token := range at.Tokens() {
		key, value := e.child(n, token)
		if value == nil {
			break
		}
		line, n = key.Line, resolve(value)
	}
	return line, n
}

// resolve returns what an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// json returns the document as JSON.
func (d *document) json() ([]byte, error) {
	if d.root == nil {
		return []byte("{}"), nil
	}
	e := expander{doc: d, budget: maxExpanded}
	return e.appendValue(nil, d.root, 0)
}

// expander follows the aliases of a document, as far as its budget goes.
type expander struct {
	doc    *document
	budget int
}

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
		data, err := stdjson.Marshal(v)
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
	g := gatherer{expander: e, has: map[string]bool{}}
	err := g.gather(n, depth)
	return g.members, err
}

// gatherer collects members; the first of a name stays.
type gatherer struct {
	*expander
	members []member
	has     map[string]bool
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
	own := map[string]*yaml.Node{}
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
		if first := own[key.Value]; first != nil {
			return g.doc.errorOn(key.Line, fmt.Sprintf("%s stands on line %d already", key.Value, first.Line))
		}
		own[key.Value] = key
		if !g.has[key.Value] {
			g.has[key.Value] = true
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

// child returns the member of a mapping, or the item of a list, that a token of a
// pointer names. An item is its own key.
func (e *expander) child(n *yaml.Node, token string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(token); err == nil && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	case yaml.MappingNode:
		members, _ := e.members(n, 0)
		for _, m := range members {
			if m.key.Value == token {
				return m.key, m.value
			}
		}
	}
	return nil, nil
}
