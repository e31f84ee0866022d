package document

import "go.yaml.in/yaml/v4"

// Repeated is a key that stands twice in a mapping.
type Repeated struct {
	Key   string
	Line  int    // where it stands again
	First int    // where it stood before
	Depth int    // of the mapping; that of the document is 0
	In    string // the key whose value the mapping is; "" in the document itself and in lists
}

// DropRepeated leaves of keys that stand twice in a mapping only the last, as PyYAML
// does, and returns them. Without it, they are an error.
func (d *Document) DropRepeated() (list []Repeated) {
	var visit func(n *yaml.Node, in string, depth int)
	visit = func(n *yaml.Node, in string, depth int) {
		if n.Kind == yaml.MappingNode {
			places := map[string]int{}
			kept := n.Content[:0]
			for i := 0; i < len(n.Content); i += 2 {
				key, value := n.Content[i], n.Content[i+1]
				place, twice := places[key.Value]
				if twice && key.Kind == yaml.ScalarNode && key.ShortTag() != "!!merge" {
					list = append(list, Repeated{key.Value, key.Line, kept[place].Line, depth, in})
					kept[place], kept[place+1] = key, value
					continue
				}
				places[key.Value] = len(kept)
				kept = append(kept, key, value)
			}
			n.Content = kept
		}
		for i, child := range n.Content {
			in := ""
			if n.Kind == yaml.MappingNode && i%2 == 1 {
				in = n.Content[i-1].Value
			}
			visit(child, in, depth+1)
		}
	}
	if d.root != nil {
		visit(d.root, "", 0)
	}
	return list
}
