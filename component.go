package windsock

import (
	"encoding/json"
	"time"
)

// A component is a piece of software to be configured on an instance. What it is given
// refers to what others produced, so that the components of a deployment are a graph; it
// is done when it has signalled so. What is to be done is said by a deployable, which may
// be deployed many times.

// ComponentState is how far a component has come with its action.
type ComponentState string

// The states of a component.
const (
	ComponentWaiting   ComponentState = "waiting"   // for what it refers to, or for its instance to run
	ComponentAvailable ComponentState = "available" // whoever runs it may have it
	ComponentRunning   ComponentState = "running"   // it was said to have begun
	ComponentComplete  ComponentState = "complete"
	ComponentFailed    ComponentState = "failed"
	ComponentTimedOut  ComponentState = "timed_out"
	ComponentCancelled ComponentState = "cancelled" // by an operator; nobody waits for it
)

// ComponentStates lists them from first to last.
var ComponentStates = [...]ComponentState{
	ComponentWaiting, ComponentAvailable, ComponentRunning,
	ComponentComplete, ComponentFailed, ComponentTimedOut, ComponentCancelled,
}

// Final reports whether nothing but an operator or an update takes a component out of it.
func (s ComponentState) Final() bool {
	return s == ComponentComplete || s == ComponentFailed || s == ComponentTimedOut || s == ComponentCancelled
}

// Done reports whether those that come after a component in it need not wait any more.
func (s ComponentState) Done() bool { return s == ComponentComplete || s == ComponentCancelled }

// Offered reports whether whoever runs a component in it may have it.
func (s ComponentState) Offered() bool { return s == ComponentAvailable || s == ComponentRunning }

// Occasion is what takes a component from one state to another.
type Occasion string

// The occasions.
const (
	OnReady    Occasion = "ready"    // all that it needs is there
	OnOpen     Occasion = "open"     // the same of a condition, which nobody runs
	OnStarted  Occasion = "started"  // it was said to have begun
	OnSuccess  Occasion = "success"  // it was said to be done, or there is nothing to do
	OnFailure  Occasion = "failure"  // it was said to have failed, or cannot be run
	OnDeadline Occasion = "deadline" // nobody said anything in time
	OnCancel   Occasion = "cancel"
	OnRetry    Occasion = "retry"
	OnRenewal  Occasion = "renewal" // there is something else to be done
)

// occasions says what takes a component to which state. What is not there changes nothing.
var occasions = map[ComponentState]map[Occasion]ComponentState{
	ComponentWaiting: {
		OnReady: ComponentAvailable, OnOpen: ComponentRunning,
		OnSuccess: ComponentComplete, OnFailure: ComponentFailed, OnCancel: ComponentCancelled, OnRenewal: ComponentWaiting,
	},
	ComponentAvailable: {
		OnStarted: ComponentRunning,
		OnSuccess: ComponentComplete, OnFailure: ComponentFailed, OnDeadline: ComponentTimedOut, OnCancel: ComponentCancelled, OnRenewal: ComponentWaiting,
	},
	ComponentRunning: {
		OnSuccess: ComponentComplete, OnFailure: ComponentFailed, OnDeadline: ComponentTimedOut, OnCancel: ComponentCancelled, OnRenewal: ComponentWaiting,
	},
	ComponentComplete:  {OnRenewal: ComponentWaiting},
	ComponentFailed:    {OnRetry: ComponentWaiting, OnRenewal: ComponentWaiting},
	ComponentTimedOut:  {OnRetry: ComponentWaiting, OnRenewal: ComponentWaiting},
	ComponentCancelled: {OnRetry: ComponentWaiting, OnRenewal: ComponentWaiting},
}

// Next returns the state that follows, and whether the occasion takes a component out of
// this one at all.
func (s ComponentState) Next(on Occasion) (ComponentState, bool) {
	next, ok := occasions[s][on]
	if !ok {
		return s, false
	}
	return next, true
}

// Action is why a component runs.
type Action string

// The actions, as Heat calls them.
const (
	ActionCreate Action = "CREATE"
	ActionUpdate Action = "UPDATE"
	ActionDelete Action = "DELETE"
)

// DefaultDeadline is how long a component may take from being available to its signal.
const DefaultDeadline = time.Hour

// A Deployable is a description of software that may be deployed any number of times. It
// never changes; another text is another deployable.
type Deployable struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Source    string            `json:"template,omitempty"` // YAML or JSON: a HOT template, or the shorter form
	Files     map[string]string `json:"files,omitempty"`    // what get_file and nested templates name
	CreatedAt time.Time         `json:"created_at"`
	Summary
}

// A Summary says what is in a deployable.
type Summary struct {
	Format      string          `json:"format"` // "hot" or "components"
	Version     string          `json:"version,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  []ParameterSpec `json:"parameters"`
	Instances   []string        `json:"instances"` // the names of its servers
	Components  []string        `json:"components"`
	Resources   int             `json:"resources"` // of any type
	Edges       int             `json:"edges"`     // who refers to whom, each pair once
	Depth       int             `json:"depth"`     // of the longest chain of resources
	Findings    []Finding       `json:"findings"`
}

// A ParameterSpec is a value that is given when a deployable is deployed.
type ParameterSpec struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // string, number, json, comma_delimited_list or boolean
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required"` // it has no default
	Hidden      bool   `json:"hidden"`   // it is never shown
}

// A Finding is what somebody who reads a deployable should know.
type Finding struct {
	File     string   `json:"file,omitempty"` // of those sent along; "": the template itself
	Line     int      `json:"line,omitempty"`
	Resource string   `json:"resource,omitempty"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
}

// Severity says what follows of a Finding.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // it cannot be deployed
	SeverityWarning Severity = "warning" // it is not what its author meant, most likely
	SeverityNote    Severity = "note"    // it is left to others: no business of ours
)

// A Plan is what a deployable asks of one deployment, with its parameters put in.
type Plan struct {
	Instances  []PlannedInstance
	Components []PlannedComponent
	Outputs    []PlannedOutput
}

// A PlannedInstance is a server that components run on. An instance of the deployment
// whose assembly is its name takes its place.
type PlannedInstance struct {
	Name string
}

// ComponentKind says who runs a component.
type ComponentKind string

// The kinds.
const (
	KindSoftware  ComponentKind = "software"       // its instance
	KindCondition ComponentKind = "wait_condition" // nobody: somebody signals
)

// A PlannedComponent is one node of the graph.
type PlannedComponent struct {
	Name     string // of its resource; within groups and templates with their names before it: "web.0"
	Kind     ComponentKind
	Instance string        // the name of the server it is for; "" for a condition
	Handle   string        // of a condition: the resource of which others ask where to signal
	Group    string        // whose hook runs it: "script", "ansible"
	Actions  []Action      // for which there is something to run; for the others it is complete at once
	After    []string      // the components that have to be complete first, sorted
	Needs    []string      // the servers that have to be there and run first, its own among them, sorted
	Refers   []string      // the resources whose attributes its spec mentions: of After and Needs, or its own handle
	Spec     []byte        // JSON that a Resolver makes a Job of; equal ones do the same
	Outputs  []Output      // that it declares
	Signals  int           // how many a condition takes to be complete; otherwise 1
	Deadline time.Duration // from being available to its last signal
	Retries  int           // how often it runs again by itself when it fails or is too late
	Silent   bool          // it is complete as soon as it was handed out (NO_SIGNAL)
}

// An Output is what a component says that it produced.
type Output struct {
	Name  string `json:"name"`
	Type  string `json:"type,omitempty"`
	Error bool   `json:"error_output,omitempty"` // that it says so means that it failed
}

// A PlannedOutput is a value that the deployment as a whole shows.
type PlannedOutput struct {
	Name        string
	Description string
	Refers      []string
	Spec        []byte // JSON
}

// GivenInputs are those that a component is given beside its own, as Heat does.
var GivenInputs = [...]string{"deploy_server_id", "deploy_action", "deploy_stack_id", "deploy_resource_name",
	"deploy_signal_transport", "deploy_signal_id", "deploy_signal_verb"}

// Known is what is known of the resources that a spec refers to, by their names; by none,
// the given inputs of the component itself.
type Known map[string]Produced

// Produced is what is known of one resource.
type Produced struct {
	ID         string         // what get_resource gives
	Attributes map[string]any // what get_attr gives; values as encoding/json has them
}

// A Job is what is to be run on an instance.
type Job struct {
	Group   string         `json:"group"`
	Config  any            `json:"config"` // text, or a structure
	Options map[string]any `json:"options"`
	Inputs  []Input        `json:"inputs"`
	Outputs []Output       `json:"outputs"`
}

// An Input is a value that a job is given.
type Input struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // String, Number, CommaDelimitedList, Json or Boolean
	Description string `json:"description,omitempty"`
	Value       any    `json:"value"`
}

// Work is what an instance may run, in the order in which it should: one after the other
// is always right.
type Work struct {
	InstanceID string `json:"instance_id"`
	Revision   int64  `json:"revision"` // another one: something is to be run, or no more
	Components []Task `json:"components"`
}

// A Task is a job for an instance, as heat-config hooks read it, with where to signal.
type Task struct {
	ID           string    `json:"id"` // of the component and this run of it; another run has another
	Name         string    `json:"name"`
	DeploymentID string    `json:"deployment_id"`
	Action       Action    `json:"action"`
	CreationTime time.Time `json:"creation_time"` // when it became available
	DeadlineAt   time.Time `json:"deadline_at"`
	SignalURL    string    `json:"signal_url"`
	Job
}

// Component is a node of a deployment's graph, as the API shows it.
type Component struct {
	DeploymentID string                     `json:"deployment_id"`
	Name         string                     `json:"name"`
	Kind         ComponentKind              `json:"kind"`
	Instance     string                     `json:"instance,omitempty"`    // by its name in the deployable
	InstanceID   string                     `json:"instance_id,omitempty"` // "": there is none yet
	Group        string                     `json:"group,omitempty"`
	Action       Action                     `json:"action"`
	State        ComponentState             `json:"state"`
	Since        time.Time                  `json:"since"`
	Reason       string                     `json:"reason,omitempty"`
	Run          int                        `json:"run"`                 // how often it was made available
	After        []string                   `json:"after"`               // components it waits for, or waited for
	WaitsFor     []string                   `json:"waits_for,omitempty"` // of all that it needs, what is not there yet
	Signals      int                        `json:"signals"`             // that counted for this run
	Want         int                        `json:"signals_wanted"`
	AvailableAt  time.Time                  `json:"available_at,omitzero"` // of the latest run, as are these:
	StartedAt    time.Time                  `json:"started_at,omitzero"`
	FinishedAt   time.Time                  `json:"finished_at,omitzero"`
	DeadlineAt   time.Time                  `json:"deadline_at,omitzero"`
	Outputs      map[string]json.RawMessage `json:"outputs,omitempty"` // only when it is shown alone, as are these:
	History      []Signalled                `json:"history,omitempty"`
}

// ComponentGraph is all components of a deployment.
type ComponentGraph struct {
	DeploymentID string                 `json:"deployment_id"`
	Counts       map[ComponentState]int `json:"counts"`
	CriticalPath []string               `json:"critical_path"` // the chain that took, or takes, longest, from first to last
	Seconds      float64                `json:"seconds"`       // that it took, or takes already
	Components   []Component            `json:"components"`
}

// Signalled is one signal, as it is kept.
type Signalled struct {
	Time   time.Time    `json:"time"`
	Run    int          `json:"run"`
	ID     string       `json:"id,omitempty"` // the sender's own
	Status SignalStatus `json:"status"`
	Reason string       `json:"reason,omitempty"`
	Late   bool         `json:"late,omitempty"` // it changed nothing: all was over
}

// A ComponentChange is what an event says of a component.
type ComponentChange struct {
	Name       string         `json:"name"`
	State      ComponentState `json:"state"`
	Previous   ComponentState `json:"previous,omitempty"` // "": it is new
	Action     Action         `json:"action"`
	InstanceID string         `json:"instance_id,omitempty"`
	Run        int            `json:"run,omitempty"`
}
