// Package reports reads what third parties send in forms of their own: what of it names
// something, and what says START, FAIL or STOP. How, is data: a rule, which a user may read,
// change and add. It does no I/O.
package reports

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"windsock"
)

// A Rule says how the reports of one kind are read.
type Rule struct {
	Name    string     `json:"name"`
	About   string     `json:"about,omitempty"`
	Items   []Path     `json:"items,omitempty"`   // the first that is there counts: a list of items, or one; default the body
	Require Conditions `json:"require,omitempty"` // what every item has to have, or the whole report is refused
	Omitted *Path      `json:"omitted,omitempty"` // how many items the sender left out
	Cases   []Case     `json:"cases"`             // the first that an item meets is how it is read

	Reads // unless a case has it
}

// A Case says how the items that meet a condition are read.
type Case struct {
	When  Conditions               `json:"when,omitempty"`
	Word  windsock.Word            `json:"word,omitempty"`  // what they say, or None,
	Of    Text                     `json:"of,omitzero"`     // or the word is looked up by this
	Words map[string]windsock.Word `json:"words,omitempty"` // here
	Why   string                   `json:"why,omitempty"`   // they say nothing

	Requested bool `json:"requested,omitempty"` // somebody asked for this, so a stop is no fault
	Lifts     bool `json:"lifts,omitempty"`     // it ends what the same source said is down, and is nothing else

	Reads
}

// Reads says where in an item things are.
type Reads struct {
	Subject []Subject         `json:"subject,omitempty"` // the first that has a value names what it is about
	Source  Text              `json:"source,omitzero"`   // default the name of the rule
	Reason  Text              `json:"reason,omitzero"`
	At      Text              `json:"at,omitzero"`    // when it was seen; default on arrival
	Since   Text              `json:"since,omitzero"` // when it began, of what is sent again and again while it lasts
	Ends    Text              `json:"ends,omitzero"`  // when it ends unless it is sent again
	TTL     windsock.Duration `json:"ttl,omitempty"`  // or after how long
}

// A Subject names something by one or more values. The first by which it is found counts,
// and all that have the metadata.
type Subject struct {
	Kind       windsock.Kind   `json:"kind,omitempty"` // default instance
	ID         Text            `json:"id,omitzero"`
	ProviderID Text            `json:"provider_id,omitzero"`
	Name       Text            `json:"name,omitzero"`
	Address    Text            `json:"address,omitzero"` // a port is left out
	Metadata   map[string]Text `json:"metadata,omitempty"`
}

// None is the word of what says nothing.
const None windsock.Word = "none"

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// Check returns a FieldError when nothing can be read by the rule.
func (r *Rule) Check() error {
	if !namePattern.MatchString(r.Name) || r.Name == "unmatched" {
		return windsock.Invalid("name", "want small letters, digits, _ and -, and not unmatched; got %q", windsock.Clip(r.Name))
	}
	if err := windsock.CheckSource(r.Name); err != nil {
		return windsock.Invalid("name", "%q is reserved", r.Name)
	}
	if len(r.Cases) == 0 {
		return windsock.Invalid("cases", "is required")
	}
	if err := r.Reads.check(); err != nil {
		return err
	}
	for i := range r.Cases {
		if err := r.Cases[i].check(len(r.Subject) > 0); err != nil {
			return err
		}
	}
	return nil
}

func (c *Case) check(named bool) error {
	if err := c.Reads.check(); err != nil {
		return err
	}
	if (c.Word == "") == (len(c.Words) == 0) || (len(c.Words) == 0) != c.Of.IsZero() {
		return windsock.Invalid("cases", "want a word, or of and the words that it may be")
	}
	speaks := false
	for _, w := range append(slices.Collect(maps.Values(c.Words)), c.Word) {
		if w != "" && w != None && w.State() == "" {
			return windsock.Invalid("cases", "want %s, %s, %s or none as a word; got %q",
				windsock.StartDetected, windsock.FailDetected, windsock.StopDetected, windsock.Clip(string(w)))
		}
		speaks = speaks || w.State() != ""
	}
	if speaks && !named && len(c.Subject) == 0 {
		return windsock.Invalid("subject", "is required")
	}
	return nil
}

func (r *Reads) check() error {
	for _, s := range r.Subject {
		if s.Kind != "" && s.Kind != windsock.KindInstance && s.Kind != windsock.KindDeployment {
			return windsock.Invalid("subject", "want instance or deployment as its kind, got %q", windsock.Clip(string(s.Kind)))
		}
		if s.ID.IsZero() && s.ProviderID.IsZero() && s.Name.IsZero() && s.Address.IsZero() && len(s.Metadata) == 0 {
			return windsock.Invalid("subject", "want one or more of id, provider_id, name, address and metadata")
		}
		if s.Kind == windsock.KindDeployment && !s.Address.IsZero() {
			return windsock.Invalid("subject", "a deployment has no address")
		}
	}
	if time.Duration(r.TTL) < 0 {
		return windsock.Invalid("ttl", "want more than 0")
	}
	return nil
}
