package windsock

import (
	"fmt"
	"slices"
	"time"
)

// Fate is what became of an event for one monitor, or will.
type Fate string

// The fates.
const (
	Delivered   Fate = "delivered"
	Waiting     Fate = "waiting"
	PassedOver  Fate = "passed_over"
	FateUnknown Fate = "unknown"
)

// Reason says why an event waits for a monitor, or is passed over.
type Reason string

// Why an event waits: the first that holds.
const (
	ReasonPaused  Reason = "paused"      // the monitor is
	ReasonPending Reason = "pending"     // the monitor has to allow first that it is called
	ReasonAway    Reason = "backing_off" // the monitor failed, and is tried again later
	ReasonRefused Reason = "refused"     // itself, or one before it of the same subject
	ReasonInLine  Reason = "in_line"
)

// Why an event is passed over.
const (
	ReasonScope      Reason = "scope"      // it lies outside of the monitor's
	ReasonSubjects   Reason = "subjects"   // its kind of subject was not asked for
	ReasonDetections Reason = "detections" // its word, or events without one, were not asked for
	ReasonEcho       Reason = "echo"       // the monitor reported it itself
	ReasonMonitor    Reason = "monitor"    // it is about another monitor, and for those who hear everything, if for any
	ReasonRegistered Reason = "registered" // the monitor was registered later
	ReasonSkipped    Reason = "skipped"    // an operator had the monitor skip what waited
	ReasonLost       Reason = "lost"       // the monitor was so far behind that it lost what was old
)

// ReasonWishes is why a verdict is unknown: the monitor had other wishes then.
const ReasonWishes Reason = "wishes"

// words are what the texts say of those reasons that need nothing else.
var words = map[Reason]string{
	ReasonScope:      "it lies outside of the scope of the monitor",
	ReasonSubjects:   "the monitor did not ask for events of this kind of subject",
	ReasonDetections: "the monitor did not ask for events with this detection, or for those without one",
	ReasonEcho:       "the monitor reported it itself, and did not ask to hear that",
	ReasonMonitor:    "of monitors only gaps and pauses are told, to others that hear everything",
	ReasonRegistered: "the monitor was registered later",
	ReasonSkipped:    "an operator had the monitor skip what waited for it",
	ReasonLost:       "the monitor was so far behind that it lost what is old",
	ReasonWishes:     "the monitor had other wishes then, and no try of it is kept",
}

// unwanted returns why a monitor is not called back for an event that lies in its scope;
// "": it is.
func (m *Monitor) unwanted(e *Event) Reason {
	switch {
	case e.Kind == KindLog && (e.SubjectID == m.ID || m.hearsEverything()), e.Kind == KindMonitor && m.wantsOfMonitors(e):
		return ""
	case e.Kind == KindLog, e.Kind == KindMonitor:
		return ReasonMonitor
	case m.Subjects != "" && m.Subjects != Both && string(e.Kind)+"s" != string(m.Subjects):
		return ReasonSubjects
	case e.Source == MonitorSource(m.ID) && !m.Echo:
		return ReasonEcho
	case m.Detections.All(), e.Word != "" && (len(m.Detections) == 0 || slices.Contains(m.Detections, e.Word)):
		return ""
	}
	return ReasonDetections
}

func (m *Monitor) hearsEverything() bool {
	return (m.Scope == "" || m.Scope == Global) && (m.Subjects == "" || m.Subjects == Both) && m.Detections.All()
}

// Explanation says why an event was, will be or will not be told to a monitor.
type Explanation struct {
	MonitorID string `json:"monitor_id"`
	EventID   string `json:"event_id"`
	Seq       int64  `json:"seq"`
	Verdict   Fate   `json:"verdict"`
	Reason    Reason `json:"reason,omitempty"`
	Text      string `json:"text"` // the same in words

	// Of one that waits.
	Before    *int64    `json:"before,omitempty"`     // at most so many wait before it
	BehindSeq int64     `json:"behind_seq,omitempty"` // the refused event, maybe itself
	PausedBy  Pause     `json:"paused_by,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	NextTryAt time.Time `json:"next_try_at,omitzero"`
	LastError string    `json:"last_error,omitempty"`

	Tries []Try `json:"tries"` // with it, that are kept; the newest first
}

// Past is what is known of a monitor and an event beside where the monitor stands now.
type Past struct {
	Taken  bool   // a try with the event was
	Passed Reason // the monitor was moved past the event, and why; "": it was not
	Wished int64  // up to this event it had other wishes
}

// Waits reports whether the monitor has still to pass the event e, and in which lane if
// that is a refused one.
func (p *Progress) Waits(e *Event) (in *Lane, waits bool) {
	of := Subject{e.Kind, e.SubjectID}
	for i := range p.Lanes {
		if l := &p.Lanes[i]; l.Subject == of {
			return l, e.Seq >= l.FirstSeq
		}
	}
	return nil, e.Seq > max(p.Cursor, p.Ahead[of])
}

// Explain says why e was, will be or will not be told to the monitor t.
func Explain(t *Target, e *Event, past Past) Explanation {
	x := Explanation{MonitorID: t.ID, EventID: e.ID, Seq: e.Seq}
	lane, waits := t.Progress.Waits(e)
	waits = waits && !t.Progress.Window.Passes(e)
	why := t.unwanted(e)
	if !slices.Contains(ScopesOf(e), t.Scope) {
		why = ReasonScope
	}
	switch {
	case waits && why == "":
		x.wait(t, lane)
		return x
	case past.Taken:
		x.Verdict, x.Text = Delivered, "The monitor took it."
		return x
	case why == ReasonScope, why != "" && (waits || e.Seq > past.Wished):
		x.Verdict, x.Reason = PassedOver, why
	case past.Passed != "":
		x.Verdict, x.Reason = PassedOver, past.Passed
	case e.Seq <= past.Wished:
		x.Verdict, x.Reason = FateUnknown, ReasonWishes
		x.Text = "Whether it was told cannot be said any more: " + words[x.Reason] + "."
		return x
	case t.Coalesces(e):
		x.Verdict, x.Text = Delivered, "The monitor took it, or in its stead a newer one of the same subject."
		return x
	default:
		x.Verdict, x.Text = Delivered, "The monitor took it; that try is not kept."
		return x
	}
	x.Text = "It is not told: " + words[x.Reason] + "."
	return x
}

// wait explains why an event waits, in a lane if that is a refused one.
func (x *Explanation) wait(t *Target, in *Lane) {
	p := &t.Progress
	x.Verdict, x.Reason, x.Text = Waiting, ReasonInLine, "Its turn comes."
	if in != nil && in.Attempts > 0 { // else what was refused is taken meanwhile, or is about to be tried anew
		x.Reason, x.BehindSeq = ReasonRefused, in.FirstSeq
		x.Attempts, x.NextTryAt, x.LastError = in.Attempts, in.NextTryAt, in.LastError
		x.Text = fmt.Sprintf("It waits behind event %d of the same subject, which the monitor refused", in.FirstSeq)
		if in.FirstSeq == x.Seq {
			x.Text = "The monitor refused it"
		}
		x.Text += x.times()
	}
	if p.Attempts > 0 {
		x.Reason, x.Attempts, x.NextTryAt, x.LastError = ReasonAway, p.Attempts, p.NextTryAt, p.LastError
		x.Text = "The monitor could not be reached, or wanted nothing" + x.times()
	}
	if t.Pending() {
		x.Reason, x.Text = ReasonPending, "The monitor did not allow yet that it is called"+x.times()
	}
	if p.Paused != "" {
		x.Reason, x.PausedBy = ReasonPaused, p.Paused
		x.Text = pauses[p.Paused]
		if p.Paused == PausedByOperator {
			x.NextTryAt = time.Time{}
		}
	}
}

// times tells of the tries in vain.
func (x *Explanation) times() string {
	text := fmt.Sprintf(", %d times", x.Attempts)
	switch x.Attempts {
	case 0:
		text = ""
	case 1:
		text = ", once"
	}
	if !x.NextTryAt.IsZero() {
		text += "; the next try is at " + x.NextTryAt.Format(time.RFC3339)
	}
	return text + "."
}

var pauses = map[Pause]string{
	PausedByOperator: "An operator paused the monitor.",
	PausedByFailures: "The monitor is paused, as it failed for a day; it is tried once an hour.",
	PausedByGone:     "The monitor is paused, as it answered 410; it is tried once an hour.",
}
