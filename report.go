package windsock

import (
	"strings"
	"time"
)

// A Report is what a third party sent in a form of its own, as a rule reads it.
type Report struct {
	Readings []Reading // of its items, in order
	Omitted  int64     // items that its sender left out, as it says itself
}

// A Reading is what one item of a report says of whatever it names.
type Reading struct {
	Ignored string   // why it says nothing; "": it does
	Named   []Lookup // its subjects: the first that is found, and all that have the metadata
	Said    Observation
}

// Word returns the word that is said.
func (r *Reading) Word() Word { return Heard(r.Said.State) }

// A Lookup names something by other than our own id alone.
type Lookup struct {
	Kind  Kind // deployment or instance
	By    By
	Value string
}

// By says of what a Lookup is the value.
type By string

// What things are known by. Several may have the same name, address or metadata.
const (
	ByID         By = "id"
	ByProviderID By = "provider_id"
	ByName       By = "name"
	ByAddress    By = "address"
	byMetadata      = "metadata."
)

// ByMetadata names whatever has the value under that key of its metadata.
func ByMetadata(key string) By { return By(byMetadata + key) }

// Key returns the key of a ByMetadata.
func (b By) Key() (key string, ok bool) { return strings.CutPrefix(string(b), byMetadata) }

// Unmatched is what reports said of something that nobody declared.
type Unmatched struct {
	Report  string    `json:"report"` // the name of the rule by which it was read
	Kind    Kind      `json:"kind"`
	Subject string    `json:"subject"` // as it was named
	Why     string    `json:"why"`
	Word    Word      `json:"detection"`        // the last time,
	Reason  string    `json:"reason,omitempty"` // as well
	Count   int64     `json:"count"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// MaxUnmatched is how many of them are kept, the newest.
const MaxUnmatched = 1000
