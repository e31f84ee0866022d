package windsock

import (
	"strconv"
	"time"
)

// Availability is how long a subject was in which state from one moment to another.
//
// An outage begins when the subject is down, or degraded, while its owner expects it to
// run. It ends when the subject runs again, is no longer expected to, or nobody knows any
// more. Time in which nobody knows, or in which the owner does not expect it to run, is
// part of no uptime.
type Availability struct {
	Subject
	From      time.Time         `json:"from"`
	To        time.Time         `json:"to"`
	Truncated bool              `json:"truncated"` // it is not known, or was not there, as early as was asked for
	Seconds   map[State]Seconds `json:"seconds"`   // in each state; together all of the time
	Planned   Seconds           `json:"planned_seconds"`
	Uptime    *float64          `json:"uptime,omitempty"` // the part of the known, unplanned time in which it ran
	Failures  int               `json:"failures"`         // outages that began in that time
	Outage    Seconds           `json:"longest_outage_seconds"`
	MTTR      *Seconds          `json:"mttr_seconds,omitempty"` // mean length of the outages that began and were repaired
	MTBF      *Seconds          `json:"mtbf_seconds,omitempty"` // time that it ran, by failures
}

// Seconds is a duration that is shown as a number of seconds.
type Seconds time.Duration

// MarshalJSON shows it to the microsecond.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// A Timeline adds up an Availability as it is told of each change, in order. A clock that
// was set back makes no time negative.
type Timeline struct {
	sum             Availability
	at              time.Time // it is added up until then
	state, expected State     // since then

	ran, known time.Duration
	down       bool          // there is an outage,
	outage     time.Duration // that long by now,
	whole      bool          // and its beginning was seen
	repaired   int           // whole outages that ended with its running,
	repairs    time.Duration // and how long they were
}

// NewTimeline begins with what is known of the subject at from.
func NewTimeline(from, to time.Time, state, expected State) *Timeline {
	t := &Timeline{sum: Availability{From: from, To: to, Seconds: map[State]Seconds{}}, at: from}
	t.enter(state, expected, false)
	return t
}

// Change has the subject be in another state from at on, or its owner expect another one.
func (t *Timeline) Change(at time.Time, state, expected State) {
	if at.Before(t.sum.To) {
		t.pass(at)
		t.enter(state, expected, true)
	}
}

// End returns the sums.
func (t *Timeline) End() Availability {
	t.pass(t.sum.To)
	if t.known > 0 {
		uptime := float64(t.ran) / float64(t.known)
		t.sum.Uptime = &uptime
	}
	if t.repaired > 0 {
		mean := Seconds(t.repairs / time.Duration(t.repaired))
		t.sum.MTTR = &mean
	}
	if t.sum.Failures > 0 {
		mean := Seconds(t.ran / time.Duration(t.sum.Failures))
		t.sum.MTBF = &mean
	}
	return t.sum
}

// pass adds the time up to at.
func (t *Timeline) pass(at time.Time) {
	d := at.Sub(t.at)
	if d <= 0 {
		return
	}
	t.at = at
	t.sum.Seconds[t.state] += Seconds(d)
	switch {
	case t.expected != Running:
		t.sum.Planned += Seconds(d)
	case t.state != Unknown:
		t.known += d
		if t.state == Running {
			t.ran += d
		}
	}
	if t.down {
		t.outage += d
		t.sum.Outage = max(t.sum.Outage, Seconds(t.outage))
	}
}

// enter notes in what state the subject is from now on; seen: that it was not before.
func (t *Timeline) enter(state, expected State, seen bool) {
	t.state, t.expected = state, expected
	switch {
	case expected != Running || state == Unknown:
		t.down = false
	case state == Running:
		if t.down && t.whole {
			t.repaired++
			t.repairs += t.outage
		}
		t.down = false
	case !t.down && (state.Down() || state == Degraded):
		t.down, t.outage, t.whole = true, 0, seen
		if seen {
			t.sum.Failures++
		}
	}
}
