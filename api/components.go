package api

import (
	"context"

	"windsock"
)

// Deployables keeps descriptions of software, and reads them.
type Deployables interface {
	// AddDeployable returns a windsock.FieldError for "template" that has the findings in
	// its summary when it cannot be deployed.
	AddDeployable(context.Context, windsock.Deployable) (windsock.Deployable, error)
	Deployable(ctx context.Context, id string) (windsock.Deployable, error)
	Deployables(ctx context.Context, after string, limit int) ([]windsock.Deployable, error) // without source and files
	RemoveDeployable(ctx context.Context, id string) error                                   // ErrConflict: a deployment is made by it
}

// Components keeps what is to be run where, and takes in that it was.
type Components interface {
	Components(ctx context.Context, deploymentID string) (windsock.ComponentGraph, error)
	Component(ctx context.Context, deploymentID, name string) (windsock.Component, error)
	RetryComponent(ctx context.Context, deploymentID, name string) (windsock.Component, error)  // ErrConflict: it is not over
	CancelComponent(ctx context.Context, deploymentID, name string) (windsock.Component, error) // ErrConflict: it is over
	Outputs(ctx context.Context, deploymentID string) (map[string]any, error)                   // null: not known yet

	// IssueToken makes the token by which an instance is told what to run; the one before
	// is void.
	IssueToken(ctx context.Context, instanceID string) (windsock.Secret, error)
	// Work returns ErrUnauthorized when the token is not the instance's. Its signal URLs
	// begin with base.
	Work(ctx context.Context, instanceID string, token windsock.Secret, base string) (windsock.Work, error)
	// AwaitWork returns once the instance's revision is not the given one any more, or the
	// error of ctx.
	AwaitWork(ctx context.Context, instanceID string, revision int64) error
	// Signal returns ErrNotFound for a token that never was one, ErrFinal, with the
	// outcome, when all was over.
	Signal(ctx context.Context, token windsock.Secret, s windsock.Signal) (windsock.SignalOutcome, error)
}
