package windsock

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Evidence is the latest statement of one source about one subject.
type Evidence struct {
	Source     string    `json:"source"`
	Origin     Origin    `json:"origin"`
	State      State     `json:"state"`                // Unknown: it never could look
	Since      time.Time `json:"since"`                // when it began to say so
	ObservedAt time.Time `json:"observed_at"`          // by its clock, never later than ours
	ReceivedAt time.Time `json:"received_at"`          // by ours
	ExpiresAt  time.Time `json:"expires_at,omitzero"`  // from then on it says nothing
	Reason     string    `json:"reason,omitempty"`     // in its words
	Raw        string    `json:"raw,omitempty"`        // the provider's own status word
	Requested  bool      `json:"requested,omitempty"`  // somebody asked for it
	Pending    State     `json:"pending,omitempty"`    // what it said last, Samples times in a row,
	Samples    int       `json:"samples,omitempty"`    // which is not yet often enough
	BlindSince time.Time `json:"blind_since,omitzero"` // it cannot look, since then,
	BlindFor   string    `json:"blind_reason,omitempty"`
	StaleAt    time.Time `json:"stale_at,omitzero"` // and from then on that is too long
}

// Effect is what a statement does to its source's evidence.
type Effect int

// Ignored: it is older than what the source already said, or the same. Renewed: the
// source says again what it said. Changed: it says something else.
const (
	Ignored Effect = iota
	Renewed
	Changed
)

// Apply folds a statement that arrived at now into what its source said before (the
// zero Evidence: nothing). A statement that is not later than the one before changes
// nothing; one from the future counts as made at now, or one fast clock would hide
// whatever its source says later. Statements of which it takes several count in the
// order of their arrival, whatever their time. A statement of Unknown is the admission that the
// source could not look: it leaves the state, and only notes since when.
func (e Evidence) Apply(o Observation, now time.Time) (Evidence, Effect) {
	if e.outdates(o) || o.Lifts && !e.accuses() {
		return e, Ignored
	}
	at := o.ObservedAt
	switch {
	case at.IsZero() || at.After(now) || o.Need > 1:
		at = now
		if !at.After(e.ObservedAt) {
			at = e.ObservedAt.Add(time.Microsecond)
		}
	case !at.After(e.ObservedAt):
		return e, Ignored
	}
	e.Source, e.Origin = o.Source, o.Origin
	if o.State == Unknown {
		return e.blind(o, at, now)
	}
	if o.Need > 1 && o.State != e.State {
		if e.Pending != o.State {
			e.Pending, e.Samples = o.State, 0
		}
		e.Samples++
		e.see()
		if e.Samples < o.Need {
			e.State = cmp.Or(e.State, Unknown)
			e.ReceivedAt = now
			return e, Changed
		}
	}
	effect := Renewed
	if o.State != e.State || o.Since.After(e.Since) {
		e.Since = at
		if !o.Since.IsZero() && o.Since.Before(at) {
			e.Since = o.Since
		}
	}
	if o.State != e.State || e.Pending != "" || !e.BlindSince.IsZero() || e.Raw != o.Raw || e.Requested != o.Requested ||
		(o.State != Running && e.Reason != o.Reason) { // what a check that passes says differs each time
		effect = Changed
		e.Reason = o.Reason
	}
	e.State, e.Raw, e.Requested = o.State, o.Raw, o.Requested
	e.Pending, e.Samples = "", 0
	e.see()
	e.ObservedAt, e.ReceivedAt, e.ExpiresAt = at, now, time.Time{}
	if o.TTL > 0 {
		e.ExpiresAt = now.Add(o.TTL) // by our clock, from receipt: the way here must not count against it
	}
	return e, effect
}

// outdates reports whether the source already said how it was after what the statement is
// about began. What began at the same moment counts unless it is worse.
func (e *Evidence) outdates(o Observation) bool {
	if o.Since.IsZero() || e.State == "" || e.State == Unknown {
		return false
	}
	later := o.Since.Compare(e.Since)
	return later < 0 || later == 0 && o.State.severity() > e.State.severity()
}

// accuses reports whether the source said that the thing is down, which nobody asked for.
func (e *Evidence) accuses() bool {
	return e.State == Failed || e.State == Stopped && !e.Requested
}

// blind notes that the source could not look.
func (e Evidence) blind(o Observation, at, now time.Time) (Evidence, Effect) {
	if !e.BlindSince.IsZero() {
		return e, Renewed
	}
	e.State = cmp.Or(e.State, Unknown)
	e.BlindSince, e.BlindFor, e.ReceivedAt = at, o.Reason, now
	if o.Promise > 0 {
		e.StaleAt = now.Add(o.Promise)
	}
	return e, Changed
}

// see notes that the source can look.
func (e *Evidence) see() {
	e.BlindSince, e.BlindFor, e.StaleAt = time.Time{}, "", time.Time{}
}

// expired reports whether the source promised to speak again and did not.
func (e *Evidence) expired(now time.Time) bool {
	return !e.ExpiresAt.IsZero() && !now.Before(e.ExpiresAt)
}

// Verdict is what all evidence about a subject adds up to.
type Verdict struct {
	State      State
	Source     string   // the one that decided
	Sources    []string // all that say so, in order
	Reason     string
	DetectedAt time.Time
	Requested  bool
	Stale      bool      // a source that promised to keep looking cannot, for too long
	Suspect    bool      // a failure was reported, by fewer sources than the quorum
	Deadline   time.Time // when time alone may change this verdict; zero: never
}

// Merge adds up what all sources say of one subject.
//
//   - A provider that says anything but running decides: it knows whether the thing
//     is there.
//   - Else the thing is failed once quorum distinct probes and monitors say so, and
//     otherwise what the newest of them says.
//   - What they said before the provider last saw it enter running is void: it was
//     restarted since.
//   - A source whose promise ran out says unknown, from that moment on, and not what
//     it said before. So only a statement made since then can say more, and no failure
//     turns into running by falling silent.
//
// The verdict does not depend on the order of the evidence.
func Merge(evidence []Evidence, quorum int, now time.Time) Verdict {
	v := Verdict{State: Unknown}
	var provider *Evidence
	for i := range evidence {
		e := &evidence[i]
		v.watch(e, now)
		if e.Origin == FromProvider && e.State != Unknown && later(e, provider, now) {
			provider = e
		}
	}
	if provider != nil && provider.State != Running && !provider.expired(now) {
		return v.decide(provider, []*Evidence{provider}, now)
	}
	valid := make([]*Evidence, 0, len(evidence))
	var newest, failure *Evidence
	failing := 0
	for i := range evidence {
		e := &evidence[i]
		if !counts(e, provider) {
			continue
		}
		valid = append(valid, e)
		if e.State == Failed && !e.expired(now) {
			failing++
			if later(e, failure, now) {
				failure = e
			}
		} else if later(e, newest, now) {
			newest = e
		}
	}
	if failing >= max(quorum, 1) {
		return v.decide(failure, valid, now)
	}
	v.Suspect = failing > 0
	if newest == nil {
		v.Reason = whyBlind(evidence)
		return v
	}
	return v.decide(newest, valid, now)
}

// counts reports whether e says anything beside the provider's evidence, which may be
// nil: of several providers one counts, and a report from before the provider saw the
// thing enter running is void.
func counts(e, provider *Evidence) bool {
	switch {
	case e == provider:
		return true
	case e.State == Unknown || e.Origin == FromProvider:
		return false
	}
	return provider == nil || provider.State != Running || !e.ObservedAt.Before(provider.Since)
}

// says is what the evidence counts as now, and since when.
func (e *Evidence) says(now time.Time) (State, time.Time) {
	switch {
	case e.expired(now):
		return Unknown, e.ExpiresAt
	case e.Origin == FromProvider:
		return e.State, e.Since // it sees that it is there again and again; that is no news of how it works
	}
	return e.State, e.ObservedAt
}

// later reports whether a has the last word over b.
func later(a, b *Evidence, now time.Time) bool {
	if b == nil {
		return true
	}
	sa, ta := a.says(now)
	sb, tb := b.says(now)
	return cmp.Or(ta.Compare(tb), cmp.Compare(sa.severity(), sb.severity()), cmp.Compare(a.Source, b.Source)) > 0
}

// watch notes what of this evidence the passing of time changes.
func (v *Verdict) watch(e *Evidence, now time.Time) {
	if !e.StaleAt.IsZero() && !now.Before(e.StaleAt) {
		v.Stale = true
	}
	for _, t := range [...]time.Time{e.ExpiresAt, e.StaleAt} {
		if t.After(now) && (v.Deadline.IsZero() || t.Before(v.Deadline)) {
			v.Deadline = t
		}
	}
}

// decide completes the verdict with what by says, and names all of the valid evidence
// that says the same.
func (v Verdict) decide(by *Evidence, valid []*Evidence, now time.Time) Verdict {
	v.State, v.DetectedAt = by.says(now)
	v.Source, v.Reason, v.Requested = by.Source, by.Reason, by.Requested
	if by.expired(now) {
		v.Reason, v.Requested = "nothing more was heard from "+by.Source, false
	}
	for _, e := range valid {
		if s, _ := e.says(now); s == v.State {
			v.Sources = append(v.Sources, e.Source)
		}
	}
	slices.Sort(v.Sources)
	return v
}

// whyBlind is the reason of a source that never could look, or "".
func whyBlind(evidence []Evidence) (reason string) {
	for i := range evidence {
		if r := evidence[i].BlindFor; evidence[i].State == Unknown && r > reason {
			reason = r
		}
	}
	return reason
}

// Dispensable returns the source, among those of the same family as a new one (what is
// before the colon), whose evidence may be dropped to make room for that: the one that was
// longest silent of those that report no failure, or not any more. "": none.
func Dispensable(evidence []Evidence, source string, now time.Time) (oldest string) {
	family, _, ok := strings.Cut(source, ":")
	if !ok || family == string(FromMonitor) { // registered monitors are strangers to each other
		return ""
	}
	var at time.Time
	for i := range evidence {
		e := &evidence[i]
		if e.Origin == FromMonitor && (e.State != Failed || e.expired(now)) && strings.HasPrefix(e.Source, family+":") && (oldest == "" || e.ReceivedAt.Before(at)) {
			oldest, at = e.Source, e.ReceivedAt
		}
	}
	return oldest
}
