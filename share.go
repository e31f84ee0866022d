package windsock

import (
	"context"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
)

// What processes share is cut into units, each of which one process at a time does. The
// monitors and the probes are cut into shares, by their ids; each provider is a unit.
const (
	UnitClock     = "clock"     // has deadlines that passed take effect
	UnitRetention = "retention" // deletes what is old

	shares = 16 // processes beyond that have nothing to do
)

// DelivererUnits are those that call the monitors back, ProbesUnits those that look at
// instances by their probes.
var (
	DelivererUnits = unitsOf("deliverer")
	ProbesUnits    = unitsOf("probes")
)

// DelivererUnit returns the unit that calls a monitor back.
func DelivererUnit(monitorID string) string { return DelivererUnits[shareOf(monitorID)] }

// ProbesUnit returns the unit that looks at an instance by its probe.
func ProbesUnit(instanceID string) string { return ProbesUnits[shareOf(instanceID)] }

// ProviderUnit returns the unit that polls a provider.
func ProviderUnit(id string) string { return "provider/" + id }

// UnitGroup returns of which group a unit is. The processes that take part in a group
// share its units evenly.
func UnitGroup(unit string) string {
	group, _, _ := strings.Cut(unit, "/")
	return group
}

func unitsOf(group string) []string {
	units := make([]string, shares)
	for i := range units {
		units[i] = group + "/" + strconv.Itoa(i)
	}
	return units
}

func shareOf(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	sum := h.Sum32()
	return int((sum ^ sum>>16) % shares) // the low bits alone know little of the first letters
}

// A Term is a time for which a unit is for this process to do.
type Term interface {
	// Stands reports whether it still is, by our own clock.
	Stands() bool
}

// A Worker does units, as long as they are for this process to do.
type Worker interface {
	// Begin has units done, under their terms. It does not wait.
	Begin(units map[string]Term)

	// End ends the work on a unit. When it returns nothing of that is under way. While
	// the term stands, what is under way may be brought to its end.
	End(unit string)
}

type termsKey struct{}

// Under returns a context under which the store writes only while all of the terms stand.
func Under(ctx context.Context, terms ...Term) context.Context {
	return context.WithValue(ctx, termsKey{}, terms)
}

// TermsOf returns the terms of a context.
func TermsOf(ctx context.Context) []Term {
	terms, _ := ctx.Value(termsKey{}).([]Term)
	return terms
}

// DoAll has a worker do all units until ctx ends, where no other process would.
func DoAll(ctx context.Context, w Worker, units ...string) error {
	terms := make(map[string]Term, len(units))
	for _, u := range units {
		terms[u] = endless{}
	}
	w.Begin(terms)
	<-ctx.Done()
	var ending sync.WaitGroup
	for _, u := range units {
		ending.Go(func() { w.End(u) })
	}
	ending.Wait()
	return nil
}

type endless struct{}

func (endless) Stands() bool { return true }
