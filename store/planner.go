package store

import (
	"fmt"
	"runtime/debug"

	"windsock"
)

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

// resolve has the Planner make a job. If it panics that is an error of this job alone, not of
// all that is in the same transaction.
func (s *Store) resolve(spec []byte, action windsock.Action, known windsock.Known) (job windsock.Job, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("a job could not be made", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return s.Planner.Resolve(spec, action, known)
}
