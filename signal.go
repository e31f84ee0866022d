package windsock

// SignalStatus is what a signal says.
type SignalStatus string

// What a signal can say.
const (
	SignalStarted SignalStatus = "started" // progress alone
	SignalSuccess SignalStatus = "success"
	SignalFailure SignalStatus = "failure"
)

// A Signal is what comes back of a component that runs, or to a condition.
type Signal struct {
	Status  SignalStatus
	Reason  string         // for people; "": there was none
	ID      string         // of a condition: one with the same id takes the place of the one before; "": the next number
	Data    any            // of a condition
	Outputs map[string]any // deploy_stdout, deploy_stderr, deploy_status_code and what the component declares
}

// SignalOutcome answers a Signal.
type SignalOutcome struct {
	DeploymentID string         `json:"deployment_id"`
	Component    string         `json:"component"`
	State        ComponentState `json:"state"`
	Changed      bool           `json:"changed"`
}
