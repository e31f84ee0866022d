// Package probe looks once at what was declared, over HTTP, over TCP or by asking a
// Nagios plugin, and says what it saw. It keeps nothing between two looks.
package probe

import (
	"context"
	"errors"
	"time"

	"windsock"
)

// Result is what one look saw.
type Result struct {
	State  windsock.State // Running, Failed, or Unknown: it could not look
	Reason string         // short, the same for the same cause, without an address or a secret
}

// errTimedOut is why the context of a look ends at the look's own time-out.
var errTimedOut = errors.New("timed out")

// Look looks as p says, for at most p.Timeout. When ctx ends before that the result is
// Unknown: whoever called it off learned nothing.
func Look(ctx context.Context, p windsock.Probe) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(p.Timeout), errTimedOut)
	defer cancel()
	switch p.Type {
	case windsock.ProbeHTTP:
		return lookHTTP(ctx, p.Target, p.Status)
	case windsock.ProbeTCP:
		return lookTCP(ctx, p.Target)
	case windsock.ProbeExec:
		return lookExec(ctx, p.Command)
	}
	return unknown("there is no such type of probe")
}

func running(reason string) Result { return Result{windsock.Running, reason} }
func failed(reason string) Result  { return Result{windsock.Failed, reason} }
func unknown(reason string) Result { return Result{windsock.Unknown, reason} }
