package observer

import (
	"testing"

	"windsock"
)

// Where a deployment runs is part of what it is, and so is that this cannot be told.
func TestWhereItRunsIsPartOfADescription(t *testing.T) {
	h, met := newHasher(), map[uint64][]string{}
	for _, on := range [][]string{nil, {}, {"node:a"}, {"node:b"}, {"node:a", "node:b"}} {
		s := windsock.Sighting{Description: windsock.Description{Name: "shop", RunsOn: on, Metadata: map[string]string{"a": "b"}}}
		sum := h.sums(&s).description
		if other, ok := met[sum]; ok {
			t.Errorf("%#v is as %#v", on, other)
		}
		met[sum] = on
	}
}
