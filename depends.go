package windsock

import (
	"fmt"
	"slices"
	"time"
)

// DependsSettle is how long a failure has to last, and with it what a subject depends on,
// before that is no longer held to be the reason. A probe with the default interval sees
// within it that its target fails, or works again.
const DependsSettle = 30 * time.Second

// maxDepends is how many deployments another may depend on.
const maxDepends = 100

// A Parent is a deployment that another depends on.
type Parent struct {
	ID    string
	State State
	Since time.Time // zero: it was never seen in another

	Unwatched bool // nobody but its provider has said yet how it is
}

// up reports whether nothing is heard against it. What nobody can see says nothing.
func (p *Parent) up() bool { return p.State == Running || p.State == Degraded || p.State == Unknown }

// Blame says in words which of its parents may be why a subject is as it is since then, and
// until when: if that is zero, until that parent changes. It returns "" when none may be.
//
// While a parent is not up it is held to be the reason. Since those who look at a child and
// at its parent do not do so at one moment, so it is for a while after either changed: that
// the parent fails may be seen only then, or that the child works again. One that nobody
// watches is not waited for, as nobody would see that.
func Blame(parents []Parent, since, now time.Time) (why string, until time.Time) {
	for i := range parents {
		if p := &parents[i]; !p.up() {
			return fmt.Sprintf("depends on %s, which is %s", p.ID, p.State), time.Time{}
		}
	}
	latest := Parent{Since: since}
	for _, p := range parents {
		if p.Since.After(latest.Since) {
			latest = p
		}
	}
	until = latest.Since.Add(DependsSettle)
	if !now.Before(until) {
		return "", time.Time{}
	}
	if latest.ID != "" {
		return fmt.Sprintf("depends on %s, which is %s only since then", latest.ID, latest.State), until
	}
	for _, p := range parents {
		if !p.Unwatched {
			return fmt.Sprintf("depends on %s, which may be about to fail", p.ID), until
		}
	}
	return "", time.Time{}
}

// checkDepends returns a FieldError when a deployment cannot depend on these.
func checkDepends(id string, on []string) error {
	if len(on) > maxDepends {
		return Invalid("depends_on", "want at most %d", maxDepends)
	}
	for i, parent := range on {
		switch err := ValidID("depends_on", parent); {
		case err != nil:
			return err
		case parent == id:
			return Invalid("depends_on", "it cannot depend on itself")
		case slices.Contains(on[:i], parent):
			return Invalid("depends_on", "%q is in it twice", parent)
		}
	}
	return nil
}
