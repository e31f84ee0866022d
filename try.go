package windsock

import (
	"strconv"
	"strings"
	"time"
)

// A Try is one request to a monitor and what came of it.
type Try struct {
	ID           int64     `json:"id"` // rises
	BegunAt      time.Time `json:"begun_at"`
	Seq          int64     `json:"seq"` // of the event or, of several in one request, the first
	LastSeq      int64     `json:"last_seq"`
	Events       int       `json:"events"`             // how many the request carried
	EventID      string    `json:"event_id,omitempty"` // when it is one
	Kind         Kind      `json:"kind,omitempty"`     // what the event is about, when it is one
	SubjectID    string    `json:"subject_id,omitempty"`
	DeploymentID string    `json:"deployment_id,omitempty"`
	Result       Result    `json:"result"`
	TryData
}

// TryData is the part of a Try that nothing selects by.
type TryData struct {
	Attempt  int      `json:"attempt"`
	URL      string   `json:"url"` // without anything secret
	Status   int      `json:"status,omitempty"`
	Class    string   `json:"error_class,omitempty"`
	Error    string   `json:"error,omitempty"`
	Answer   string   `json:"answer,omitempty"` // without anything secret
	Duration Duration `json:"duration"`         // from connecting to the end of the answer
	Wire
}

// Wire is how a request went on its way. What is zero there was not.
type Wire struct {
	Remote   string `json:"remote,omitempty"`   // the IP address and port that was dialled
	Reused   bool   `json:"reused,omitempty"`   // by a connection that was there
	Protocol string `json:"protocol,omitempty"` // of the answer
	Phases   Phases `json:"phases"`
}

// Phases are how long the parts of a request took. The one in which it failed lasted until
// then.
type Phases struct {
	DNS       Duration `json:"dns,omitempty"`
	Connect   Duration `json:"connect,omitempty"`
	TLS       Duration `json:"tls,omitempty"`
	FirstByte Duration `json:"first_byte,omitempty"` // from the end of the request to the beginning of its answer
	Body      Duration `json:"body,omitempty"`       // from there to the end of the answer
}

// Result is what a try says of its event and of the monitor.
type Result string

// What can come of a try.
const (
	TryTaken   Result = "taken"   // the event was delivered
	TryRefused Result = "refused" // the monitor is there, but does not take this event: others may well go through
	TryAway    Result = "away"    // it is not there, or cannot take anything now
	TryGone    Result = "gone"    // it wants nothing any more
	TryFailed  Result = "failed"  // any but taken, where tries are selected
)

// TryFilter selects from the tries of a monitor, the newest first. Zero fields select
// everything; Limit is always set.
type TryFilter struct {
	Before int64 // ids before this one
	Limit  int
	Result Result
	Event  string    // that carried this one, by seq or id
	Of     Subject   // about this one; of a deployment, with its instances
	Since  time.Time // begun then or later
}

// Tries are some of the tries of a monitor.
type Tries struct {
	List    []Try
	Omitted int64 // how many others there were that are not kept, as they were too many at once
}

// ParseEvent reads what names an event: its seq, or its id, which tells the log, too.
func ParseEvent(text string) (seq int64, log string, err error) {
	number := text
	if id, ok := strings.CutPrefix(text, "evt_"); ok {
		if log, number, _ = strings.Cut(id, "_"); log == "" {
			number = ""
		}
	}
	if seq, err = strconv.ParseInt(number, 10, 64); err != nil || seq < 1 {
		return 0, "", Invalid("event", "want the seq or the id of an event, got %q", Clip(text))
	}
	return seq, log, nil
}

// EventID returns the id of an event: the same whenever it is read, and no other event's
// in any log.
func EventID(log string, seq int64) string { return "evt_" + log + "_" + strconv.FormatInt(seq, 10) }
