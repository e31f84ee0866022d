package windsock

import (
	"context"
	"slices"
)

// A Permission is what a caller may do. Each includes those before it.
type Permission string

const (
	MayRead   Permission = "read"   // see the model, its log and the monitors
	MayReport Permission = "report" // and report what it sees, within its scope
	MayAdmin  Permission = "admin"  // and everything else
)

// Permissions are all of them, the least first.
var Permissions = []Permission{MayRead, MayReport, MayAdmin}

// Allows reports whether who has p may do what needs another one.
func (p Permission) Allows(other Permission) bool {
	has, needs := slices.Index(Permissions, p), slices.Index(Permissions, other)
	return needs >= 0 && has >= needs
}

// Validate returns a FieldError when p is none.
func (p Permission) Validate() error {
	if !slices.Contains(Permissions, p) {
		return Invalid("role", "want one of read, report, admin; got %q", Clip(string(p)))
	}
	return nil
}

// A Principal is who calls.
type Principal struct {
	Name       string // as the audit has it; "": nobody had to say who he is
	Permission Permission
	Scope      Scope  // of what it may report on
	MonitorID  string // of the registered monitor that it is, and that is the source of what it reports; "": none
}

// Anyone is who calls a windsock that asks nobody who he is.
var Anyone = Principal{Permission: MayAdmin, Scope: Global}

type principalKey struct{}

// WithPrincipal returns a context for what is done for p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf returns for whom something is done; Anyone if nobody was named.
func PrincipalOf(ctx context.Context) Principal {
	if p, ok := ctx.Value(principalKey{}).(Principal); ok {
		return p
	}
	return Anyone
}
