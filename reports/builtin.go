package reports

import (
	_ "embed"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"windsock"
	"windsock/document"
)

//go:embed builtin.yaml
var builtin []byte

// Rules are those that there are, by name in order.
type Rules []*Rule

// Builtin returns the rules that windsock comes with.
func Builtin() Rules {
	var rules Rules
	doc, err := document.Parse("builtin.yaml", builtin)
	if err == nil {
		var data []byte
		if data, err = doc.JSON(); err == nil {
			err = json.Unmarshal(data, &rules, json.RejectUnknownMembers(true))
		}
	}
	for _, r := range rules {
		err = errors.Join(err, r.Check())
	}
	if err != nil {
		panic(err) // a test reads it
	}
	return rules.sorted()
}

func (r Rules) sorted() Rules {
	slices.SortFunc(r, func(a, b *Rule) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// Add adds a rule that is written in JSON. What it says of one that is there takes the place
// of what that says.
func (r Rules) Add(name string, data []byte) (Rules, error) {
	rule := r.named(name)
	if rule == nil {
		rule = &Rule{}
		r = append(r, rule)
	}
	if err := json.Unmarshal(data, rule, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if err := rule.Check(); err != nil {
		return nil, err
	}
	return r.sorted(), nil
}

func (r Rules) named(name string) *Rule {
	i := slices.IndexFunc(r, func(rule *Rule) bool { return rule.Name == name })
	if i < 0 {
		return nil
	}
	return r[i]
}

// Read reads a report by the rule of that name. It returns ErrNotFound when there is none.
func (r Rules) Read(name string, body []byte, now time.Time) (windsock.Report, error) {
	rule := r.named(name)
	if rule == nil {
		return windsock.Report{}, windsock.ErrNotFound
	}
	return rule.Read(body, now)
}

// Names lists them.
func (r Rules) Names() (names []string) {
	for _, rule := range r {
		names = append(names, rule.Name)
	}
	return names
}

// MarshalJSON writes the rules as they can be read.
func (r Rules) MarshalJSON() ([]byte, error) {
	return json.Marshal([]*Rule(r), json.Deterministic(true))
}
