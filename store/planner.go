package store

import "windsock"

// A Planner reads deployables, and says what is to be run once what it refers to is
// known. It does no I/O, as it may be asked within a transaction. *components.Planner is one.
type Planner interface {
	// Read says what is in a deployable; it returns an error when it cannot be deployed.
	Read(windsock.Deployable) (windsock.Summary, error)

	// Plan puts in the parameters of a deployment. It returns a windsock.FieldError for
	// parameters/name.
	Plan(windsock.Deployable, windsock.DeploymentSpec) (windsock.Plan, error)

	// Resolve makes a job of the spec of a PlannedComponent. Its error is for people, and
	// means that it will never be one with these values.
	Resolve(spec []byte, action windsock.Action, known windsock.Known) (windsock.Job, error)

	// Value is the value of a PlannedOutput's spec; nil when something is not known yet.
	Value(spec []byte, known windsock.Known) (any, error)
}
