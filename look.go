package windsock

// A Place is where to look for a deployment or an instance.
type Place struct {
	Subject           // with our id
	Provider   string // of it, or of its deployment
	ProviderID string // "": the provider does not know it
	Probed     bool   // it has a probe
}

// A Look is what one look at a subject saw.
type Look struct {
	Source string `json:"source"`               // as the evidence of it is called
	State  State  `json:"seen_state,omitempty"` // unknown: it cannot be told
	Raw    string `json:"raw,omitempty"`        // the provider's own words for it
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // why nobody could look, in place of all that
}

// Looked is what came of looking at one of many.
type Looked struct {
	Subject
	Looks []Look // each by another way; none: nothing looks at it
	Err   error
}

// Seen returns what was seen by several ways: the worst, of those that could tell. It is
// "" when nobody could look, and unknown when nobody who did could tell.
func Seen(looks []Look) (worst State) {
	for _, l := range looks {
		switch {
		case l.Error != "" || worst != "" && l.State == Unknown:
		case worst == "" || worst == Unknown || l.State.severity() > worst.severity():
			worst = l.State
		}
	}
	return worst
}
