package windsock

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// A Sighting is what a provider shows of one thing that it runs.
type Sighting struct {
	Subject // named by the provider's own id
	Description
	State     State  // Unknown: the provider does not know, or says a word that we do not know; "": it only describes a deployment, whose state its members make
	Raw       string // its own words for the state
	Reason    string
	Requested bool // somebody asked for this state, so that a stop is no fault
}

// A Description is what a provider says that a thing is. What it says takes the place of
// what it said before, and of what others declared.
type Description struct {
	Deployment string // of an instance: the provider's id of its deployment, which is to be described first; "": what the instance is cannot be told for now
	Name       string
	Pool       string   // of a deployment
	RunsOn     []string // of a deployment: the provider's ids of those, shown before, on which all of it runs, so that it fails if they do; nil: that cannot be told for now
	Assembly   string   // of an instance
	Address    string   // of an instance
	Metadata   map[string]string
}

// Fit cuts a description to what may be declared. A provider's word is no user's input:
// a name that is too long must not hide that the thing is down.
func (d *Description) Fit() {
	for text, most := range map[*string]int{&d.Name: maxName, &d.Pool: maxID, &d.Assembly: maxName, &d.Address: maxName} {
		*text = fitText(*text, most)
	}
	if len(d.Metadata) == 0 {
		d.Metadata = nil
		return
	}
	fit := make(map[string]string, min(len(d.Metadata), maxMetadata))
	for _, key := range slices.Sorted(maps.Keys(d.Metadata)) {
		if len(fit) < maxMetadata && checkText("", key, 1, maxID) == nil {
			fit[key] = fitText(d.Metadata[key], maxValue)
		}
	}
	d.Metadata = fit
}

// fitText makes s at most so many bytes of text without control characters.
func fitText(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// ProviderSource is the source of what a provider says.
func ProviderSource(id string) string { return "provider:" + id }
