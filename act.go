package windsock

import (
	"context"
	"sync/atomic"
	"time"
)

// An Act is a write that somebody who had to say who he is asked for over HTTP.
type Act struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Name    string    `json:"name"` // of the principal
	Method  string    `json:"method"`
	Route   string    `json:"route"`             // its path, as the contract has it
	Subject string    `json:"subject,omitempty"` // what it is about, by the ids in the path or that it was given
	Status  int       `json:"status"`            // 200: it was done; another one is what was answered
	Address string    `json:"address"`           // from which it came

	kept atomic.Bool
}

// Kept reports whether it was stored, and Keep says that it was.
func (a *Act) Kept() bool { return a.kept.Load() }
func (a *Act) Keep()      { a.kept.Store(true) }

type actKey struct{}

// WithAct returns a context for what is done of a.
func WithAct(ctx context.Context, a *Act) context.Context { return context.WithValue(ctx, actKey{}, a) }

// ActOf returns the act of which something is done; nil if it is none.
func ActOf(ctx context.Context) *Act {
	a, _ := ctx.Value(actKey{}).(*Act)
	return a
}

// About names the subject of the act of which something is done, if its path did not.
func About(ctx context.Context, id string) {
	if a := ActOf(ctx); a != nil && a.Subject == "" {
		a.Subject = id
	}
}
