// Package windsock is the vocabulary of the model of reality and the rules that
// decide: what evidence adds up to, what a deployment's members make of it, which
// word a monitor hears and which monitor hears it. It does no I/O, reads no clock
// and imports nothing but the standard library.
package windsock

import (
	"fmt"
	"time"
)

// Version is the version of the monitoring API, the only one there is.
const Version = "1"

// IDHeader is the header of a callback that says which windsock sends it, by the id of
// its log. A windsock that is sent its own refuses the request.
const IDHeader = "Windsock-Id"

// AttemptHeader is the header of a callback that says which try it is, from 1 on.
const AttemptHeader = "Windsock-Attempt"

// State is what is believed of an instance or a deployment. Suspended is said of
// instances only, Degraded of deployments only.
type State string

// The states. Unknown is not "fine" and not "down": nobody has told us yet, or the
// one who promised to keep telling fell silent.
const (
	Unknown   State = "unknown"
	Starting  State = "starting"
	Running   State = "running"
	Degraded  State = "degraded"
	Stopping  State = "stopping"
	Stopped   State = "stopped"
	Suspended State = "suspended"
	Failed    State = "failed"
	Gone      State = "gone"
)

// InstanceStates and DeploymentStates list the states each kind of subject can have.
var (
	InstanceStates   = [...]State{Unknown, Starting, Running, Stopping, Stopped, Suspended, Failed, Gone}
	DeploymentStates = [...]State{Unknown, Starting, Running, Degraded, Stopping, Stopped, Failed, Gone}
)

// severity orders states from fine to worst, so that ties and conflicts never depend
// on who spoke first.
func (s State) severity() int {
	switch s {
	case Running:
		return 0
	case Starting:
		return 2
	case Stopping:
		return 3
	case Stopped, Suspended:
		return 4
	case Gone:
		return 5
	case Degraded:
		return 6
	case Failed:
		return 7
	default:
		return 1
	}
}

// Down reports whether a member in this state counts against a deployment that
// expects it to run.
func (s State) Down() bool {
	return s == Failed || s == Stopped || s == Suspended || s == Gone
}

// Word is what monitors post and what they hear.
type Word string

// The three words of the monitor API.
const (
	StartDetected Word = "START DETECTED"
	FailDetected  Word = "FAIL DETECTED"
	StopDetected  Word = "STOP DETECTED"
)

// Words lists them in the order in which errors and documents name them.
var Words = [...]Word{StartDetected, FailDetected, StopDetected}

// State returns what the word says of its subject, or "" if it is no word.
func (w Word) State() State {
	switch w {
	case StartDetected:
		return Running
	case FailDetected:
		return Failed
	case StopDetected:
		return Stopped
	}
	return ""
}

// Heard returns the word a monitor hears when a subject enters next, or "" when that
// is for the timeline only.
func Heard(next State) Word {
	switch next {
	case Running:
		return StartDetected
	case Failed, Degraded:
		return FailDetected
	case Stopped, Suspended, Gone:
		return StopDetected
	}
	return ""
}

// Kind says what sort of thing an id names.
type Kind string

// Deployments, instances and components have a state; providers, monitors, and the log
// itself, only have a history.
const (
	KindDeployment Kind = "deployment"
	KindInstance   Kind = "instance"
	KindComponent  Kind = "component" // its id is <deployment>/<name>
	KindProvider   Kind = "provider"
	KindMonitor    Kind = "monitor"
	KindLog        Kind = "log"
)

// Subject is what evidence and events are about.
type Subject struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
}

// Origin says by which way a source knows: a provider knows whether the instance is
// there, probes and monitors know whether it works.
type Origin string

// The three origins of evidence.
const (
	FromProvider Origin = "provider"
	FromProbe    Origin = "probe"
	FromMonitor  Origin = "monitor"
)

// Observation is one statement of one source about one subject at one moment.
type Observation struct {
	Subject  Subject
	Provider string       // the subject's id is this provider's own; "": it is ours, or that of a provider who alone has it
	As       *Description // of what a provider shows: declares it, unless it is known as just this
	Source   string       // who says so; a source has one piece of evidence a subject
	Origin   Origin
	State    State  // Unknown: the source could not look, or does not know itself; "": nothing is said of it, only As counts
	Reason   string // in the source's words, for people
	Raw      string // the provider's own status word

	ObservedAt time.Time     // by the source's clock; zero: in order of arrival
	TTL        time.Duration // the source promises to speak again within it; 0: no promise
	Promise    time.Duration // a poll or probe that cannot look for longer is stale; 0: never
	Need       int           // statements in a row it takes to change this source's mind; below 2: one. They count as they arrive
	Requested  bool          // somebody asked for this, so a stop is no fault

	// A source that tells again and again how it is, as alerts are sent until they end, has
	// no ObservedAt but says when that began. It counts as it arrives, unless the source
	// already said how it was later. Zero: said once.
	Since time.Time
	Lifts bool // it ends what the same source said is down, and is nothing else
}

// Outcome answers one Observation.
type Outcome struct {
	Subject  Subject // with our id, whatever id it was reported under
	Changed  bool    // the observed state is another one now
	State    State   // the observed state now
	EventSeq int64   // of the event that says so; 0 when unchanged
	Err      error   // ErrNotFound, ErrConflict or ErrTooMany; the others of its batch are not concerned
}

// EventType says what an event is about.
type EventType string

// The events of the log. Flags are stale and suspect. A subject is settled when its
// callbacks are no longer held, and that says how it is then. A declared subject is new in the
// model or is described anew; a removed one was taken out of it, which says nothing of
// the thing itself. A monitor that is added again may have other wishes than before. One
// that is paused is not called back until it is resumed; the reason says why. One is
// verified when it allowed to be called, expiring when its lease is about to end, and was
// removed when that has expired.
const (
	InstanceState      EventType = "instance.state"
	InstanceFlags      EventType = "instance.flags"
	InstanceSettled    EventType = "instance.settled"
	InstanceDeclared   EventType = "instance.declared"
	InstanceRemoved    EventType = "instance.removed"
	DeploymentState    EventType = "deployment.state"
	DeploymentFlags    EventType = "deployment.flags"
	DeploymentSettled  EventType = "deployment.settled"
	DeploymentDeclared EventType = "deployment.declared"
	DeploymentRemoved  EventType = "deployment.removed"
	MonitorAdded       EventType = "monitor.added"
	MonitorRemoved     EventType = "monitor.removed"
	LogGap             EventType = "log.gap" // a monitor lost events; its id is the subject's
	MonitorPaused      EventType = "monitor.paused"
	MonitorResumed     EventType = "monitor.resumed"
	MonitorVerified    EventType = "monitor.verified"
	MonitorExpiring    EventType = "monitor.expiring"
	MonitorExpired     EventType = "monitor.expired"
	MonitorReplayed    EventType = "monitor.replayed" // it is told events again; the reason says which
	ProviderLost       EventType = "provider.lost"    // nobody could list it for too long: what it said may be out of date
	ProviderBack       EventType = "provider.back"
	ComponentChanged   EventType = "component.state" // Component says from what to what
)

// Event is one entry of the log. It holds all that a callback says, so that every try
// and every replay of it says the same.
type Event struct {
	Seq          int64     `json:"seq"`
	ID           string    `json:"id"`
	Type         EventType `json:"type"`
	Time         time.Time `json:"time"`
	Kind         Kind      `json:"kind"`
	SubjectID    string    `json:"subject_id"`
	DeploymentID string    `json:"deployment_id,omitempty"`
	Provider     string    `json:"provider,omitempty"`
	Pool         string    `json:"pool,omitempty"`

	Word     Word  `json:"detection,omitempty"` // "": for the timeline only
	State    State `json:"observed_state,omitempty"`
	Previous State `json:"previous_state,omitempty"`
	Expected State `json:"expected_state,omitempty"`

	Source     string    `json:"source,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	DetectedAt time.Time `json:"detected_at,omitzero"` // by the source's clock

	EventData
}

// EventData is the part of an Event that nothing selects by.
type EventData struct {
	Stale         bool              `json:"stale,omitempty"`
	Suspect       bool              `json:"suspect,omitempty"`
	Unstable      bool              `json:"unstable,omitempty"`      // the subject flaps
	PreviousSince time.Time         `json:"previous_since,omitzero"` // of a failure that is over: when it began
	Held          Word              `json:"held,omitempty"`          // the word that it would have, were callbacks not held
	HeldBy        string            `json:"held_by,omitempty"`       // what holds them, in words
	Metadata      map[string]string `json:"metadata,omitempty"`      // of the deployment, as it then was
	Instances     []string          `json:"instances,omitempty"`     // the failing ones, on a deployment event; the first MaxNamed
	Affected      []string          `json:"affected,omitempty"`      // the deployments that depend on this one, which is down; the first MaxNamed

	Component *ComponentChange `json:"component,omitempty"` // of a ComponentChanged

	By string `json:"by,omitempty"` // who posted the detection that it follows from, if he had to say who he is
	Trace

	Scope     Scope     `json:"scope,omitempty"`     // the monitor's, of a LogGap and a MonitorExpiring
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of a MonitorExpiring

	// Of a LogGap: what was lost, of those events between two that concern the monitor.
	FirstSeq int64 `json:"first_seq,omitempty"`
	LastSeq  int64 `json:"last_seq,omitempty"`
	Lost     int64 `json:"lost,omitempty"`
}

// MaxNamed is how many failing instances an event names.
const MaxNamed = 100

// RollupSource is the source of an event that follows from a deployment's members.
const RollupSource = "rollup"

// Observed is the observed state of a subject, as the API shows it.
type Observed struct {
	State    State     `json:"observed_state"`
	Since    time.Time `json:"since,omitzero"`   // by our clock; zero: since ever
	SeenAt   time.Time `json:"seen_at,omitzero"` // when a source last said something new or renewed a promise
	Reason   string    `json:"reason,omitempty"`
	Sources  []string  `json:"sources"` // who says so
	Drift    bool      `json:"drift"`
	Stale    bool      `json:"stale"`
	Suspect  bool      `json:"suspect"`
	Unstable bool      `json:"unstable"`          // it flaps
	Held     bool      `json:"held"`              // something of it was not told, and will be once nothing holds it any more
	HeldBy   string    `json:"held_by,omitempty"` // what holds it, in words
}

// Deployment is a collection of running instances.
type Deployment struct {
	DeploymentSpec
	Observed
	RunsOn    []string      `json:"runs_on,omitempty"` // the ids of deployments on which its provider says it runs, and so depends
	Instances map[State]int `json:"instances"`         // its members, counted by observed state
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`
	Evidence  []Evidence    `json:"evidence,omitempty"` // of the deployment itself; only when it is shown alone
}

// Instance is one running thing of a deployment.
type Instance struct {
	InstanceSpec
	Observed
	Provider  string     `json:"provider,omitempty"` // of its deployment
	Pool      string     `json:"pool,omitempty"`     // of its deployment
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	Evidence  []Evidence `json:"evidence,omitempty"` // only when it is shown alone
}

// Monitor is a third party that is registered to be called back.
type Monitor struct {
	MonitorSpec
	ID     string `json:"monitor_id"`
	Signed bool   `json:"signed"` // a secret is set; it is never shown

	OldUntil    time.Time `json:"old_secret_until,omitzero"` // until then the secret before signs, too
	Authorized  bool      `json:"authorized"`                // a bearer token is set; it is never shown
	HeaderNames []string  `json:"header_names,omitempty"`    // of the headers it asked for, whose values are never shown
	OwnCA       bool      `json:"own_ca"`                    // it gave the certificates that are trusted
	Certified   bool      `json:"certified"`                 // a client certificate is shown to it

	VerifiedAt  time.Time `json:"verified_at,omitzero"`   // when it allowed to be called, if it was asked
	AllowedRate int       `json:"allowed_rate,omitempty"` // requests a minute; 0: as many as we like
	ExpiresAt   time.Time `json:"expires_at,omitzero"`    // when its lease ends
	Cursor      int64     `json:"cursor"`                 // every event up to here was delivered or is none of its business
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	Delivery    Delivery  `json:"delivery"`
}

// Delivery is how the callbacks to one monitor go.
type Delivery struct {
	State     string    `json:"state"`                  // "pending", "idle", "delivering", "retrying" or "paused"
	PausedBy  Pause     `json:"paused_by,omitempty"`    // why it is paused
	Backlog   int64     `json:"backlog"`                // events that wait for it
	Parked    int       `json:"parked_lanes,omitempty"` // subjects of which it refused an event; what followed waits behind it
	Attempts  int       `json:"attempts,omitempty"`
	NextTryAt time.Time `json:"next_try_at,omitzero"`
	OldestAt  time.Time `json:"oldest_at,omitzero"` // when the oldest waiting event happened
	LastError string    `json:"last_error,omitempty"`
	SuccessAt time.Time `json:"last_success_at,omitzero"`
}

// Registration is what came of adding a monitor.
type Registration struct {
	Monitor
	Created bool   // it was not there before
	Made    Secret // the secret that was made for it, which cannot be had again
}

// Rotation is what came of giving a monitor another secret.
type Rotation struct {
	Made     Secret    // the secret that was made for it, which cannot be had again; "": it gave one
	OldUntil time.Time // until then the secret before signs, too; zero: there was none
}

// Target is a monitor as the deliverer needs it, with its keys.
type Target struct {
	Monitor
	Secret    Secret
	OldSecret Secret            // the one before; signs beside Secret until OldUntil
	Bearer    Secret            // sent as Authorization: Bearer
	Headers   map[string]Secret // sent as they are
	TLS       TLS
	Origin    string   // as which it allowed to be called; sent with all that it is sent
	Progress  Progress `json:"-"` // as it was last saved, with all its lanes
}

// TLS is how a monitor is called by https, in PEM; "": the roots of the system, and no
// certificate of ours. Equal ones may share connections.
type TLS struct {
	CA         string // the only ones that are trusted
	ClientCert string
	ClientKey  Secret
}

// Pong is what came of a ping.
type Pong struct {
	Taken        bool     `json:"taken"` // as a callback would have been
	Status       int      `json:"status,omitempty"`
	Duration     Duration `json:"duration"` // from connecting to the end of the answer
	Class        string   `json:"error_class,omitempty"`
	Error        string   `json:"error,omitempty"`
	Answer       string   `json:"answer,omitempty"` // without anything secret
	URL          string   `json:"url"`
	WebhookID    string   `json:"webhook_id"`
	SignedString string   `json:"signed_string"` // what a signature of it is made of
	Signature    string   `json:"signature,omitempty"`
	Wire
}

// Secret is text that shows itself to nobody: not in logs, errors or JSON.
type Secret string

// Format and MarshalText hide the secret.
func (Secret) Format(f fmt.State, _ rune)   { fmt.Fprint(f, "[secret]") }
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Progress is how far the callbacks to one monitor have come.
type Progress struct {
	MonitorID string
	Round     int64             // which resume it goes back to; an older one is not saved any more
	Cursor    int64             // every event up to here was delivered, waits in a lane, or is none of its business
	Ahead     map[Subject]int64 // beyond the cursor: up to where the events of a subject were delivered
	Lanes     []Lane            // those that were parked, or came on, since the last time
	Cleared   []Subject         // those that are not parked any more

	Attempts     int // how often it was tried in vain since it last answered
	NextTryAt    time.Time
	LastError    string
	SuccessAt    time.Time
	Failures     int       // of any kind since the last success,
	FailingSince time.Time // and the time of the first
	Window       *Window   // what it is told again; nil: nothing, or no more
	Paused       Pause     // is read only; PauseMonitor and ResumeMonitor write it
	LatestTo     int64     // as well: what waits up to here is coalesced

	Tries   []Try // since the last time, that are to be kept,
	Omitted int   // and how many that are not
}

// Lane is what waits for one monitor about one subject because the first of it was
// refused.
type Lane struct {
	Subject   Subject
	FirstSeq  int64 // the first that waits; those before were delivered
	Attempts  int   // how often that was tried in vain
	NextTryAt time.Time
	LastError string
}

// Pause says why a monitor is not called back for the time being; "" when it is.
type Pause string

// Why a monitor is paused. It is resumed by an operator; unless one paused it, also by
// taking the event with which it is tried each hour.
const (
	PausedByOperator Pause = "operator"
	PausedByFailures Pause = "failures" // for a day, and often
	PausedByGone     Pause = "gone"     // it answered 410
)

// Resume says what a monitor hears that goes on after a pause.
type Resume string

// What is left of that which waits.
const (
	Replay    Resume = "replay"  // all
	Skip      Resume = "skip"    // nothing
	Coalesced Resume = "latest"  // of each subject the newest
	Recovered Resume = "success" // all, as it took one: for monitors that no operator paused
)

// ProbeTarget is an instance that has a probe.
type ProbeTarget struct {
	InstanceID string
	Provider   string // of its deployment
	Probe      Probe
}

// Pool counts what lies in one pool of a provider, by observed state.
type Pool struct {
	Provider    string        `json:"provider"`
	Pool        string        `json:"pool"`
	Deployments map[State]int `json:"deployments"`
	Instances   map[State]int `json:"instances"`
}

// ProviderStatus is how the observation of one provider goes.
type ProviderStatus struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	CompleteAt time.Time `json:"complete_at,omitzero"` // when everything it watches had last been looked at
	Watched    int       `json:"watched"`              // subjects it looks at
	Blind      int       `json:"blind"`                // of these, how many the last look could not judge
	LastError  string    `json:"last_error,omitempty"` // why, of one of them; or why the last listing failed

	// Of one that is listed as a whole.
	Every       Duration `json:"interval,omitempty"`    // from one listing to the next
	Took        Duration `json:"took,omitempty"`        // of the last complete one
	Deployments int      `json:"deployments,omitempty"` // in it
	Instances   int      `json:"instances,omitempty"`
	Lost        bool     `json:"lost"` // none was complete for LostAfter intervals
	WholeTook   Duration `json:"-"`    // to list everything, where Took may be of the changes alone
}

// LostAfter is how many intervals without a complete listing make a provider lost, beside
// as long as it takes to list everything: what it said of its deployments and instances is
// stale from then on.
const LostAfter = 3
