package windsock

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Member is what counts of an instance in its deployment.
type Member struct {
	Expected State
	State    State
}

// AsMember returns how an instance counts: one that was stopped or deleted on request is
// not expected to run, whatever its owner declared before.
func AsMember(expected State, v Verdict) Member {
	if v.Requested && (v.State == Stopped || v.State == Stopping || v.State == Gone) {
		expected = Stopped
	}
	return Member{Expected: expected, State: v.State}
}

// Tally counts the members of a deployment. It is all that Rollup needs of them, so
// that one change in a deployment of a hundred thousand costs one row.
type Tally map[Member]int

// Rule says how many members have to run for their deployment to run: "all" (or ""),
// "any" or "min:k".
type Rule string

// atLeast returns how many of n members have to run, and whether the rule is one.
func (r Rule) atLeast(n int) (int, bool) {
	switch r {
	case "", "all":
		return n, true
	case "any":
		return 1, true
	}
	k, err := strconv.Atoi(strings.TrimPrefix(string(r), "min:"))
	if err != nil || k < 1 || !strings.HasPrefix(string(r), "min:") {
		return n, false
	}
	return k, true
}

// Rollup returns the state of a deployment and the reason for it, from the verdict on
// the deployment itself, what its owner expects of it, and its members. A member that
// is not expected to run does not count against it; what is said of the deployment
// itself can make it worse than its members are, never better. But that it is gone only a
// provider says, who knows.
func Rollup(own Verdict, expected State, members Tally, rule Rule) (State, string) {
	if own.State == Gone {
		return Gone, own.Reason
	}
	due, rest := Tally{}, Tally{} // by state alone
	for m, k := range members {
		if m.Expected == Running && expected == Running {
			due.add(m.State, k)
		} else {
			rest.add(m.State, k)
		}
	}
	var state State
	var reason string
	switch {
	case due.total() > 0:
		state, reason = due.running(rule)
	case rest.total() > 0:
		state, reason = rest.resting()
	default:
		return own.State, own.Reason
	}
	if own.State != Unknown && own.State.severity() > state.severity() {
		return own.State, own.Reason
	}
	return state, reason
}

// running is the state of a deployment whose members t are expected to run.
func (t Tally) running(rule Rule) (State, string) {
	n := t.total()
	need, _ := rule.atLeast(n)
	down := t.of(Failed, Stopped, Suspended, Gone)
	switch {
	case t.of(Running) >= need:
		return Running, fmt.Sprintf("%d of %d instances run", t.of(Running), n)
	case t.of(Running) == n:
		return Degraded, fmt.Sprintf("%d instances run, it takes %d", n, need)
	case down == n:
		return Failed, fmt.Sprintf("none of %d instances runs", n)
	case down > 0:
		return Degraded, fmt.Sprintf("%d of %d instances are down", down, n)
	}
	return t.first(n, Starting, Stopping, Unknown)
}

// resting is the state of a deployment none of whose members t is expected to run.
func (t Tally) resting() (State, string) {
	n := t.total()
	switch n {
	case t.of(Gone):
		return Gone, fmt.Sprintf("all %d instances are gone", n)
	case t.of(Failed, Stopped, Suspended, Gone):
		return Stopped, fmt.Sprintf("none of %d instances runs, nor should it", n)
	}
	return t.first(n, Stopping, Unknown, Starting, Running)
}

// first is the first of states that a member is in.
func (t Tally) first(n int, states ...State) (State, string) {
	for _, s := range states {
		if k := t.of(s); k > 0 {
			return s, fmt.Sprintf("%d of %d instances are %s", k, n, s)
		}
	}
	return Unknown, ""
}

func (t Tally) add(s State, k int) { t[Member{State: s}] += k }

func (t Tally) of(states ...State) (n int) {
	for _, s := range states {
		n += t[Member{State: s}]
	}
	return n
}

func (t Tally) total() (n int) {
	for _, k := range t {
		n += k
	}
	return n
}

// Drift reports whether what is observed contradicts what the owner wants. A state on
// its way there does not, nor does one that nobody knows.
func Drift(expected, observed State) bool {
	switch observed {
	case Unknown:
		return false
	case Running, Starting, Degraded:
		return expected != Running || observed == Degraded
	case Stopping:
		return expected == Running
	case Gone:
		return expected != Gone
	}
	return expected != Stopped
}

// Phase is how far a component has come with what.
type Phase struct {
	Action Action
	State  ComponentState
}

// ComponentTally counts the components of a deployment.
type ComponentTally map[Phase]int

// Rollup makes what a deployment's members add up to worse by its components, never
// better. Of those that failed, the first is told of by failure, which is asked when there
// are any.
func (t ComponentTally) Rollup(state State, reason string, expected State, failure func() string) (State, string) {
	var failed, pending, total int
	for phase, n := range t {
		total += n
		switch s := phase.State; {
		case s == ComponentFailed || s == ComponentTimedOut:
			failed += n
		case !s.Done():
			pending += n
		}
	}
	way := Starting
	if expected == Gone {
		way = Stopping
	}
	switch {
	case state == Gone, state == Failed:
	case failed > 1:
		return Failed, fmt.Sprintf("%s; and %d more", failure(), failed-1)
	case failed > 0:
		return Failed, failure()
	case pending > 0 && way.severity() > state.severity():
		return way, fmt.Sprintf("%d of %d components are not complete", pending, total)
	}
	return state, reason
}

// Failure says in words that a component failed.
func (c *Component) Failure() string {
	text := "component " + c.Name
	if on := cmp.Or(c.InstanceID, c.Instance); on != "" {
		text += " on " + on
	}
	text += " " + strings.ReplaceAll(string(c.State), "_", " ")
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}
