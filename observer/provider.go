package observer

import (
	"context"
	"time"

	"windsock"
)

// A Provider is a cloud, or whatever else runs deployments and can be asked for them. To
// add one takes a folder with a type that has these methods, a line where the program
// makes providers from its configuration, and a test that runs package providertest.
//
// Whatever cannot be told is an error, or a Sighting whose state is unknown; to leave a
// thing out of a listing says that it is gone.
type Provider interface {
	// Observe shows everything there is, a page at a time: deployments before their
	// instances, each once, or once more if it turns out to be another. What it returned
	// without an error was complete. The error of page ends it. A page is the callee's once
	// it was shown.
	Observe(ctx context.Context, page func([]windsock.Sighting) error) error

	// Check looks at one thing, named by the provider's id, and returns ErrNotFound only
	// when it is certain that there is none.
	Check(ctx context.Context, s windsock.Subject) (windsock.Sighting, error)

	// Words says what state each of the provider's own words stands for. All others are
	// unknown.
	Words() map[string]windsock.State
}

// A Differ is a Provider that can show what changed for less than everything.
type Differ interface {
	// Changes shows what changed since the last Observe or Changes that came to its end,
	// as Observe does. It may show what did not, and things that are gone.
	Changes(ctx context.Context, page func([]windsock.Sighting) error) error
}

// A Watcher is a Provider that says where to look before the next listing is due.
type Watcher interface {
	// Watch calls listening once nothing can be missed any more, and then hint with each
	// thing that may have changed, until ctx ends or the subscription is lost, which is
	// an error. A hint says where to look, and nothing of what is there to see.
	Watch(ctx context.Context, listening func(), hint func(windsock.Subject)) error
}

// A Source is a provider that is observed.
type Source struct {
	ID       string // of the provider; a deployment names it
	Kind     string
	Provider Provider
	Every    time.Duration // from one look at all of it to the next: a listing or, of a Differ, the changes; default 30 s
	Full     time.Duration // of a Differ, from one listing to the next; default ten times Every
}

const (
	defaultEvery = 30 * time.Second
	fullAfter    = 10
)
