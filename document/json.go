package document

import (
	"bytes"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// readJSON returns the nodes that YAML would read, if data is JSON. YAML has no
// surrogate pairs ("\ud83d\ude00"), and keeps all that it reads of one long line.
func readJSON(data []byte) (root *yaml.Node, ok bool) {
	r := jsonReader{data: data, line: 1,
		in: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)),
	}
	root, err := r.value()
	if err != nil {
		return nil, false
	}
	if _, err := r.in.ReadToken(); err != io.EOF {
		return nil, false
	}
	return root, true
}

type jsonReader struct {
	data []byte
	at   int64 // how far it is read
	line int   // there
	in   *jsontext.Decoder
}

func (r *jsonReader) value() (*yaml.Node, error) {
	token, err := r.in.ReadToken()
	if err != nil {
		return nil, err
	}
	end := r.in.InputOffset()
	r.line += bytes.Count(r.data[r.at:end], []byte("\n"))
	r.at = end
	n := &yaml.Node{Line: r.line}
	switch token.Kind() {
	case '{':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		return n, r.content(n)
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		return n, r.content(n)
	}
	n.Kind, n.Value = yaml.ScalarNode, token.String()
	switch token.Kind() {
	case '"':
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	case '0':
		n.Tag = "!!float"
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = "!!int"
		}
	case 'n':
		n.Tag = "!!null"
	default:
		n.Tag = "!!bool"
	}
	return n, nil
}

// content reads what is in a mapping or a list, and its end.
func (r *jsonReader) content(n *yaml.Node) error {
	for kind := r.in.PeekKind(); kind != '}' && kind != ']'; kind = r.in.PeekKind() {
		child, err := r.value()
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	_, err := r.in.ReadToken()
	return err
}
