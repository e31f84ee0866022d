package reports

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"windsock"
)

// Conditions are values that paths have to lead to, all of them. They are written as in
// {"/status": ["firing", "resolved"]}, where "*" is any.
type Conditions []condition

type condition struct {
	path Path
	is   []string
}

const anything = "*"

// UnmarshalJSON reads conditions. They take the place of others.
func (c *Conditions) UnmarshalJSON(data []byte) error {
	var written map[string][]string
	if err := json.Unmarshal(data, &written); err != nil {
		return windsock.Invalid("", "want a list of values for each path")
	}
	*c = nil
	for _, text := range slices.Sorted(maps.Keys(written)) {
		one := condition{is: written[text]}
		if err := one.path.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		if len(one.is) == 0 {
			return windsock.Invalid("", "want one or more values for %s", windsock.Clip(text))
		}
		*c = append(*c, one)
	}
	return nil
}

// MarshalJSON writes them as they were read.
func (c Conditions) MarshalJSON() ([]byte, error) {
	written := make(map[string][]string, len(c))
	for _, one := range c {
		written[one.path.text] = one.is
	}
	return json.Marshal(written)
}

// hold reports whether an item meets all of them.
func (c Conditions) hold(it *item) bool {
	for i := range c {
		if !c[i].holds(it) {
			return false
		}
	}
	return true
}

func (c *condition) holds(it *item) bool {
	value := c.path.in(it)
	text, _ := textOf(value)
	return slices.Contains(c.is, text) && text != "" || value != nil && value != "" && slices.Contains(c.is, anything)
}

// demand returns a FieldError that names the first that an item does not meet.
func (c Conditions) demand(it *item) error {
	for i := range c {
		if c[i].holds(it) {
			continue
		}
		want := strings.Join(c[i].is, " or ")
		if want == anything {
			want = "a value"
		}
		got := "nothing"
		if value := c[i].path.in(it); value != nil {
			got = fmt.Sprintf("%q", windsock.Clip(fmt.Sprint(value)))
		}
		return windsock.Invalid(c[i].path.field(it), "want %s, got %s", want, got)
	}
	return nil
}
