package document

import (
	"bytes"
	"errors"
	"slices"

	"go.yaml.in/yaml/v4"
)

// maxReread is how many bytes are read again, in all, to mend dashes.
const maxReread = 64 << 20

// load reads YAML, in which a dash may be an item of a list on one line: [-, a]. That is
// text in YAML 1.1, and an error to the library.
func load(data []byte) (docs []yaml.Node, err error) {
	for budget := maxReread; budget >= 0; budget -= len(data) {
		docs = nil
		err = yaml.Load(data, &docs, yaml.WithAllDocuments())
		var wrong *yaml.LoadError
		if !errors.As(err, &wrong) {
			break
		}
		dash := offset(data, wrong.Mark.Index)
		if dash+1 >= len(data) || data[dash] != '-' || !bytes.ContainsRune([]byte(",[]{}"), rune(data[dash+1])) {
			break
		}
		data = slices.Concat(data[:dash], []byte(`"-"`), data[dash+1:])
	}
	return docs, err
}

// offset is where the character with an index begins.
func offset(data []byte, index int) int {
	for at := range string(data) {
		if index == 0 {
			return at
		}
		index--
	}
	return len(data)
}
