package windsock

import (
	"encoding/json"
	"slices"
	"strings"
)

// Scope says whose events a monitor hears: "global", or a kind and an id, as in
// "pool:east". A deployment's scope holds its instances.
type Scope string

// Global is the scope of a monitor that named none.
const Global Scope = "global"

var scopeKinds = []string{"provider", "pool", "deployment", "instance"}

// Validate returns a FieldError when s is no scope.
func (s Scope) Validate() error {
	if s == Global {
		return nil
	}
	kind, value, _ := strings.Cut(string(s), ":")
	if !slices.Contains(scopeKinds, kind) {
		return Invalid("scope", "want global or one of provider, pool, deployment, instance, a colon and an id; got %q", Clip(string(s)))
	}
	return checkText("scope", value, 1, maxID)
}

// ScopesOf returns every scope that an event belongs to, so that a map from scope to
// monitors finds all that may be concerned without asking each of them.
func ScopesOf(e *Event) []Scope {
	scopes := make([]Scope, 0, 5)
	scopes = append(scopes, Global)
	for _, s := range [...]struct{ kind, id string }{{"provider", e.Provider}, {"pool", e.Pool}, {"deployment", e.DeploymentID}} {
		if s.id != "" {
			scopes = append(scopes, Scope(s.kind+":"+s.id))
		}
	}
	switch e.Kind {
	case KindInstance:
		scopes = append(scopes, Scope("instance:"+e.SubjectID))
	case KindLog, KindMonitor:
		scopes = scopes[:1] // the others are those of the same
		if e.Scope != "" && e.Scope != Global {
			scopes = append(scopes, e.Scope)
		}
	}
	return scopes
}

// Covers reports whether a subject lies in the scope: a deployment, or an instance of it.
func (s Scope) Covers(of Subject, deployment, provider, pool string) bool {
	if s == "" || s == Global {
		return true
	}
	kind, id, _ := strings.Cut(string(s), ":")
	switch kind {
	case "provider":
		return provider == id && id != ""
	case "pool":
		return pool == id && id != ""
	case "deployment":
		return deployment == id && id != ""
	}
	return of == Subject{Kind: KindInstance, ID: id} && kind == "instance"
}

// Wants reports whether an event that lies in the monitor's scope is one to call it
// back for: it asked for such words and such subjects, and did not say so itself.
//
// A gap is told to who lost something by it, whatever it asked for, and to those who
// watch everything.
func (m *Monitor) Wants(e *Event) bool { return m.unwanted(e) == "" }

// ofInterest are the events of a monitor that others are called back for: those which
// somebody should look after.
var ofInterest = []EventType{MonitorPaused, MonitorResumed, MonitorVerified, MonitorExpiring, MonitorExpired}

// wantsOfMonitors reports whether to call the monitor back for what happened to another
// one, if it asked for everything; or because its own lease ends, whatever it asked for.
func (m *Monitor) wantsOfMonitors(e *Event) bool {
	if e.SubjectID == m.ID {
		return e.Type == MonitorExpiring
	}
	return slices.Contains(ofInterest, e.Type) && m.hearsEverything()
}

// MonitorSource is the source of what a registered monitor reports.
func MonitorSource(id string) string { return "monitor:" + id }

// Subjects says of which kind of subject a monitor hears.
type Subjects string

// The kinds of subject a monitor can hear of; absent means Both.
const (
	Both            Subjects = "both"
	OnlyDeployments Subjects = "deployments"
	OnlyInstances   Subjects = "instances"
)

// Detections are the words a monitor hears: some of Words, or "all", which adds the
// events that have no word. Empty means the three words.
type Detections []Word

// everything is how Detections says "all".
const everything Word = "all"

// All reports whether events without a word are wanted, too.
func (d Detections) All() bool { return slices.Contains(d, everything) }

// UnmarshalText reads "all", one word, or several with commas between them.
func (d *Detections) UnmarshalText(text []byte) error {
	*d = nil
	for w := range strings.SplitSeq(string(text), ",") {
		*d = append(*d, Word(strings.TrimSpace(w)))
	}
	return nil
}

// UnmarshalJSON reads a word, "all", or a list of words.
func (d *Detections) UnmarshalJSON(data []byte) error {
	var one Word
	if json.Unmarshal(data, &one) == nil {
		*d = Detections{one}
		return nil
	}
	return json.Unmarshal(data, (*[]Word)(d))
}

// MarshalJSON writes "all" or the list of words.
func (d Detections) MarshalJSON() ([]byte, error) {
	switch {
	case d.All():
		return json.Marshal(everything)
	case len(d) == 0:
		return json.Marshal(Words)
	}
	return json.Marshal([]Word(d))
}

// Validate returns a FieldError when d holds something that is no word.
func (d Detections) Validate() error {
	for _, w := range d {
		if w.State() == "" && w != everything {
			return Invalid("detections", "want all or some of %s; got %q", nameWords(), Clip(string(w)))
		}
	}
	return nil
}

func nameWords() string {
	return string(StartDetected + ", " + FailDetected + ", " + StopDetected)
}
