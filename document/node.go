package document

import (
	"strconv"

	"go.yaml.in/yaml/v4"
)

// A Node is something that stands in a document.
type Node struct {
	Line int // of its key, if it has one
	doc  *Document
	node *yaml.Node
}

// A Member is one key of a mapping, with its value.
type Member struct {
	Key string
	Node
}

// Root is all that stands in the document.
func (d *Document) Root() Node {
	if d.root == nil {
		return Node{1, d, &yaml.Node{Kind: yaml.MappingNode}}
	}
	return Node{d.root.Line, d, resolve(d.root)}
}

// At returns what stands at a path of keys and numbers of items; if it is missing, the
// last on the way there.
func (n Node) At(path ...string) Node {
	e := expander{doc: n.doc, budget: maxExpanded}
	for _, token := range path {
		key, value := e.child(n.node, token)
		if value == nil {
			break
		}
		n.Line, n.node = key.Line, resolve(value)
	}
	return n
}

// Members returns what a mapping holds, in the order in which it stands there; nil if n
// is none.
func (n Node) Members() (list []Member) {
	if n.node.Kind != yaml.MappingNode {
		return nil
	}
	e := expander{doc: n.doc, budget: maxExpanded}
	members, _ := e.members(n.node, 0)
	for _, m := range members {
		list = append(list, Member{m.key.Value, Node{m.key.Line, n.doc, resolve(m.value)}})
	}
	return list
}

// resolve returns what an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// child returns the member of a mapping, or the item of a list, that a token names. An
// item is its own key.
func (e *expander) child(n *yaml.Node, token string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(token); err == nil && 0 <= i && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 { // without what is merged, for a start
			if key := n.Content[i]; key.Value == token && key.Kind == yaml.ScalarNode && key.ShortTag() != "!!merge" {
				return key, n.Content[i+1]
			}
		}
		members, _ := e.members(n, 0)
		for _, m := range members {
			if m.key.Value == token {
				return m.key, m.value
			}
		}
	}
	return nil, nil
}
