package windsock

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

// due is a member that is expected to run, idle one that is not.
func due(s State) Member  { return Member{Expected: Running, State: s} }
func idle(s State) Member { return Member{Expected: Stopped, State: s} }

// rollupCases tells what members there are and what is said of the deployment itself,
// and which state that makes. Fields left out are the default.
type rollupCases map[string]struct {
	members  Tally
	own      State // default unknown
	expected State // default running
	rule     Rule
	want     State
}

func (cases rollupCases) run(t *testing.T) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			setDefault(&c.own, Unknown)
			setDefault(&c.expected, Running)
			got, reason := Rollup(Verdict{State: c.own, Reason: "so it was said"}, c.expected, c.members, c.rule)
			if got != c.want {
				t.Errorf("got %s, because %s; want %s", got, reason, c.want)
			}
			if reason == "" {
				t.Errorf("%s for no reason", got)
			}
		})
	}
}

func TestMembersThatShouldRun(t *testing.T) {
	rollupCases{
		"all run":                                {members: Tally{due(Running): 3}, want: Running},
		"one of many is failed":                  {members: Tally{due(Running): 99, due(Failed): 1}, want: Degraded},
		"one of many is stopped":                 {members: Tally{due(Running): 99, due(Stopped): 1}, want: Degraded},
		"one of many is suspended":               {members: Tally{due(Running): 99, due(Suspended): 1}, want: Degraded},
		"one of many is gone":                    {members: Tally{due(Running): 99, due(Gone): 1}, want: Degraded},
		"one of many runs":                       {members: Tally{due(Running): 1, due(Failed): 99}, want: Degraded},
		"one is failed, and others start":        {members: Tally{due(Failed): 1, due(Starting): 2}, want: Degraded},
		"one is failed, nothing known of others": {members: Tally{due(Failed): 1, due(Unknown): 2}, want: Degraded},

		"all launches failed":           {members: Tally{due(Failed): 3}, want: Failed},
		"the only one failed":           {members: Tally{due(Failed): 1}, want: Failed},
		"all are stopped by themselves": {members: Tally{due(Stopped): 3}, want: Failed},
		"all are suspended":             {members: Tally{due(Suspended): 3}, want: Failed},
		"all are gone":                  {members: Tally{due(Gone): 3}, want: Failed},
		"all are down, each its way":    {members: Tally{due(Failed): 1, due(Stopped): 1, due(Gone): 1, due(Suspended): 1}, want: Failed},

		"one starts":                       {members: Tally{due(Running): 2, due(Starting): 1}, want: Starting},
		"one starts, one is unknown":       {members: Tally{due(Starting): 1, due(Unknown): 1}, want: Starting},
		"one starts, one stops":            {members: Tally{due(Starting): 1, due(Stopping): 1}, want: Starting},
		"one stops":                        {members: Tally{due(Running): 2, due(Stopping): 1}, want: Stopping},
		"none was ever heard of":           {members: Tally{due(Unknown): 3}, want: Unknown},
		"one was never created, so far":    {members: Tally{due(Running): 2, due(Unknown): 1}, want: Unknown},
		"the only one was never created":   {members: Tally{due(Unknown): 1}, want: Unknown},
		"entries of nobody change nothing": {members: Tally{due(Running): 3, due(Failed): 0, idle(Failed): 0}, want: Running},
	}.run(t)
}

func TestMembersThatNeedNotRun(t *testing.T) {
	rollupCases{
		"do not count against those that should": {members: Tally{due(Running): 2, idle(Stopped): 3}, want: Running},
		"nor when they failed":                   {members: Tally{due(Running): 2, idle(Failed): 3}, want: Running},
		"nor when they are gone, as they should": {members: Tally{due(Running): 2, {Expected: Gone, State: Gone}: 3}, want: Running},
		"nor when they run":                      {members: Tally{due(Failed): 2, idle(Running): 3}, want: Failed},
		"nor help to a running one":              {members: Tally{due(Running): 1, idle(Running): 3}, rule: "min:2", want: Degraded},

		"all are stopped":                     {members: Tally{idle(Stopped): 3}, want: Stopped},
		"all are suspended":                   {members: Tally{idle(Suspended): 3}, want: Stopped},
		"all are gone":                        {members: Tally{idle(Gone): 3}, want: Gone},
		"some are gone, some stopped":         {members: Tally{idle(Gone): 1, idle(Stopped): 2}, want: Stopped},
		"one failed on its way down":          {members: Tally{idle(Failed): 1, idle(Stopped): 2}, want: Stopped},
		"one is still stopping":               {members: Tally{idle(Stopping): 1, idle(Stopped): 2}, want: Stopping},
		"one still runs":                      {members: Tally{idle(Running): 1, idle(Stopped): 2}, want: Running},
		"one starts":                          {members: Tally{idle(Starting): 1, idle(Stopped): 2}, want: Starting},
		"one is unknown":                      {members: Tally{idle(Unknown): 1, idle(Stopped): 2}, want: Unknown},
		"one is unknown, and one still runs":  {members: Tally{idle(Unknown): 1, idle(Running): 2}, want: Unknown},
		"one starts, and one still runs":      {members: Tally{idle(Starting): 1, idle(Running): 2}, want: Starting},
		"one is unknown, and one still stops": {members: Tally{idle(Unknown): 1, idle(Stopping): 2}, want: Stopping},
	}.run(t)
}

// A deployment that should not run does not fail by being down.
func TestDeploymentThatNeedNotRun(t *testing.T) {
	for _, expected := range []State{Stopped, Gone} {
		t.Run("expected "+string(expected), func(t *testing.T) {
			rollupCases{
				"all are stopped":   {members: Tally{due(Stopped): 3}, expected: expected, want: Stopped},
				"all failed":        {members: Tally{due(Failed): 3}, expected: expected, want: Stopped},
				"all are gone":      {members: Tally{due(Gone): 3}, expected: expected, want: Gone},
				"all still run":     {members: Tally{due(Running): 3}, expected: expected, want: Running},
				"one still runs":    {members: Tally{due(Running): 1, due(Stopped): 2}, expected: expected, want: Running},
				"one still stops":   {members: Tally{due(Stopping): 1, due(Running): 2}, expected: expected, want: Stopping},
				"of some none know": {members: Tally{due(Unknown): 1, idle(Stopped): 2}, expected: expected, want: Unknown},
			}.run(t)
		})
	}
}

func TestRules(t *testing.T) {
	mixed := Tally{due(Running): 2, due(Failed): 1, due(Starting): 1}
	rollupCases{
		"all is the default":        {members: mixed, rule: "", want: Degraded},
		"all by name":               {members: mixed, rule: "all", want: Degraded},
		"any":                       {members: mixed, rule: "any", want: Running},
		"any, and none":             {members: Tally{due(Failed): 3}, rule: "any", want: Failed},
		"any, and one of it starts": {members: Tally{due(Starting): 1, due(Unknown): 2}, rule: "any", want: Starting},
		"any, of those that may":    {members: Tally{due(Failed): 1, idle(Running): 1}, rule: "any", want: Failed},

		"fewer than there are":              {members: mixed, rule: "min:1", want: Running},
		"just enough":                       {members: mixed, rule: "min:2", want: Running},
		"one too few, as one failed":        {members: mixed, rule: "min:3", want: Degraded},
		"one too few, as one starts":        {members: Tally{due(Running): 2, due(Starting): 1}, rule: "min:3", want: Starting},
		"enough, while one starts":          {members: Tally{due(Running): 2, due(Starting): 1}, rule: "min:2", want: Running},
		"enough, while one is unknown":      {members: Tally{due(Running): 2, due(Unknown): 1}, rule: "min:2", want: Running},
		"more than there are":               {members: Tally{due(Running): 3}, rule: "min:4", want: Degraded},
		"more than there are, and all down": {members: Tally{due(Failed): 3}, rule: "min:4", want: Failed},
	}.run(t)
}

func TestWhatIsSaidOfTheDeploymentItself(t *testing.T) {
	healthy, bad, half := Tally{due(Running): 3}, Tally{due(Failed): 3}, Tally{due(Running): 2, due(Failed): 1}
	rollupCases{
		"fail, and all run":                {members: healthy, own: Failed, want: Failed},
		"fail, and some run":               {members: half, own: Failed, want: Failed},
		"fail, and all are stopped":        {members: Tally{idle(Stopped): 3}, own: Failed, want: Failed},
		"fail under a rule that is met":    {members: half, own: Failed, rule: "any", want: Failed},
		"stop, and all run":                {members: healthy, own: Stopped, want: Stopped},
		"stop, and all are failed":         {members: bad, own: Stopped, want: Failed},
		"start, and all run":               {members: healthy, own: Running, want: Running},
		"start does not hide a failure":    {members: half, own: Running, want: Degraded},
		"start does not hide failures":     {members: bad, own: Running, want: Failed},
		"start does not know the unknown":  {members: Tally{due(Unknown): 3}, own: Running, want: Unknown},
		"start does not run the stopped":   {members: Tally{idle(Stopped): 3}, own: Running, want: Stopped},
		"starting, and all run":            {members: healthy, own: Starting, want: Starting},
		"silence, and all run":             {members: healthy, own: Unknown, want: Running},
		"silence, and some run":            {members: half, own: Unknown, want: Degraded},
		"gone, and all run":                {members: healthy, own: Gone, want: Gone},
		"start of one without members":     {own: Running, want: Running},
		"fail of one without members":      {own: Failed, want: Failed},
		"stop of one without members":      {own: Stopped, want: Stopped},
		"start of one whose members left":  {members: Tally{due(Running): 0}, own: Running, want: Running},
		"fail of one that should not run":  {members: Tally{idle(Stopped): 1}, own: Failed, expected: Stopped, want: Failed},
		"without members or evidence":      {want: Unknown},
		"without, where all it takes is 1": {rule: "any", want: Unknown},
		"without, where nobody expects it": {expected: Gone, want: Unknown},
	}.run(t)
}

func TestReasonCountsTheMembers(t *testing.T) {
	for name, c := range map[string]struct {
		own     Verdict
		members Tally
		rule    Rule
		want    string
	}{
		"running":       {members: Tally{due(Running): 3}, want: "3 of 3 instances run"},
		"enough":        {members: Tally{due(Running): 2, due(Failed): 1}, rule: "any", want: "2 of 3 instances run"},
		"too few":       {members: Tally{due(Running): 2}, rule: "min:3", want: "2 instances run, it takes 3"},
		"degraded":      {members: Tally{due(Running): 2, due(Failed): 1, due(Gone): 1}, want: "2 of 4 instances are down"},
		"failed":        {members: Tally{due(Gone): 2, idle(Running): 1}, want: "none of 2 instances runs"},
		"starting":      {members: Tally{due(Running): 2, due(Starting): 1}, want: "1 of 3 instances are starting"},
		"stopped":       {members: Tally{idle(Stopped): 2}, want: "none of 2 instances runs, nor should it"},
		"gone":          {members: Tally{idle(Gone): 2}, want: "all 2 instances are gone"},
		"said of it":    {own: Verdict{State: Failed, Reason: "no network"}, members: Tally{due(Running): 3}, want: "no network"},
		"nothing worse": {own: Verdict{State: Running, Reason: "fine"}, members: Tally{due(Running): 3}, want: "3 of 3 instances run"},
	} {
		t.Run(name, func(t *testing.T) {
			setDefault(&c.own.State, Unknown)
			if _, got := Rollup(c.own, Running, c.members, c.rule); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestStoppedOnRequestIsNotExpectedToRun(t *testing.T) {
	for name, c := range map[string]struct {
		expected State
		v        Verdict
		want     Member
	}{
		"stopped on request":      {Running, Verdict{State: Stopped, Requested: true}, idle(Stopped)},
		"stopping on request":     {Running, Verdict{State: Stopping, Requested: true}, idle(Stopping)},
		"stopped by itself":       {Running, Verdict{State: Stopped}, due(Stopped)},
		"deleted on request":      {Running, Verdict{State: Gone, Requested: true}, idle(Gone)},
		"failed, though asked to": {Running, Verdict{State: Failed, Requested: true}, due(Failed)},
		"running on request":      {Running, Verdict{State: Running, Requested: true}, due(Running)},
		"stopped as expected":     {Stopped, Verdict{State: Stopped}, idle(Stopped)},
		"gone as expected":        {Gone, Verdict{State: Gone}, Member{Expected: Gone, State: Gone}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := AsMember(c.expected, c.v); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	rollupCases{
		"one of three was stopped on request": {members: Tally{due(Running): 2, AsMember(Running, Verdict{State: Stopped, Requested: true}): 1}, want: Running},
		"one of three was deleted on request": {members: Tally{due(Running): 2, AsMember(Running, Verdict{State: Gone, Requested: true}): 1}, want: Running},
		"all three were":                      {members: Tally{AsMember(Running, Verdict{State: Stopped, Requested: true}): 3}, want: Stopped},
		"all three stopped by themselves":     {members: Tally{AsMember(Running, Verdict{State: Stopped}): 3}, want: Failed},
	}.run(t)
}

func TestDrift(t *testing.T) {
	for name, c := range map[string]struct {
		expected, observed State
		want               bool
	}{
		"runs as it should":          {Running, Running, false},
		"is on its way up":           {Running, Starting, false},
		"should run and does not":    {Running, Stopped, true},
		"should run, is suspended":   {Running, Suspended, true},
		"should run and failed":      {Running, Failed, true},
		"should run, half of it":     {Running, Degraded, true},
		"should run and goes down":   {Running, Stopping, true},
		"should run and is gone":     {Running, Gone, true},
		"is stopped as it should":    {Stopped, Stopped, false},
		"is suspended, so it stands": {Stopped, Suspended, false},
		"is on its way down":         {Stopped, Stopping, false},
		"should stop and runs":       {Stopped, Running, true},
		"should stop and comes up":   {Stopped, Starting, true},
		"should stop, half runs":     {Stopped, Degraded, true},
		"is gone as it should":       {Gone, Gone, false},
		"is on its way out":          {Gone, Stopping, false},
		"should be gone and runs":    {Gone, Running, true},
		"should be gone, is stopped": {Gone, Stopped, true},
		"should be gone and failed":  {Gone, Failed, true},
		"nobody knows, should run":   {Running, Unknown, false},
		"nobody knows, should stop":  {Stopped, Unknown, false},
		"nobody knows, should go":    {Gone, Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Drift(c.expected, c.observed); got != c.want {
				t.Errorf("expected %s, observed %s: drift is %t, want %t", c.expected, c.observed, got, c.want)
			}
		})
	}
}

func TestGoneIsNotWhatStoppedMeans(t *testing.T) {
	if !Drift(Stopped, Gone) {
		t.Error("the owner wants it stopped, it is gone, and that is no drift")
	}
}

// crowd is a few members in any state, expected to do anything.
func crowd(r *rand.Rand) Tally {
	t := Tally{}
	for range r.IntN(6) {
		t[Member{Expected: pick(r, Running, Running, Stopped, Gone), State: pick(r, InstanceStates[:]...)}] += 1 + r.IntN(3)
	}
	return t
}

// rank orders the states of a deployment from fine to worst.
func rank(s State) int {
	return strings.Index("running unknown starting stopping stopped gone degraded failed", string(s))
}

func TestRollupCountsOnlyMembersThereAre(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		members, own := crowd(r), Verdict{State: pick(r, DeploymentStates[:]...)}
		expected, rule := pick(r, Running, Stopped, Gone), pick(r, Rule("all"), "any", "min:2")
		want, why := Rollup(own, expected, members, rule)
		padded := maps.Clone(members)
		for range 5 {
			padded[Member{Expected: pick(r, Running, Stopped, Gone), State: pick(r, InstanceStates[:]...)}] += 0
		}
		for range 3 { // a map is in another order each time
			if got, reason := Rollup(own, expected, padded, rule); got != want || reason != why {
				return fmt.Errorf("%v make %s, because %s; with zeros %v it is %s, because %s", members, want, why, padded, got, reason)
			}
		}
		return nil
	})
}

func TestRollupLeavesTheTallyAlone(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		members := crowd(r)
		before := maps.Clone(members)
		Rollup(Verdict{State: Unknown}, Running, members, "all")
		if !maps.Equal(members, before) {
			return fmt.Errorf("%v became %v", before, members)
		}
		return nil
	})
}

func TestOneMoreThatRunsMakesNothingWorse(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		members, own, rule := crowd(r), Verdict{State: pick(r, DeploymentStates[:]...)}, pick(r, Rule("all"), "any", "")
		before, _ := Rollup(own, Running, members, rule)
		more := maps.Clone(members)
		more[due(Running)]++
		if after, why := Rollup(own, Running, more, rule); rank(after) > rank(before) {
			return fmt.Errorf("%v are %s, and with one more that runs %s, because %s", members, before, after, why)
		}
		return nil
	})
}

func TestOneMoreThatFailedMakesNothingBetter(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		members, own, rule := crowd(r), Verdict{State: pick(r, DeploymentStates[:]...)}, pick(r, Rule("all"), "any", "min:2")
		members[due(Running)]++ // so that there is one at all
		before, _ := Rollup(own, Running, members, rule)
		members[due(Failed)]++
		if after, why := Rollup(own, Running, members, rule); rank(after) < rank(before) {
			return fmt.Errorf("%v: %s became %s by a failure, because %s", members, before, after, why)
		}
		return nil
	})
}

func TestWhatIsSaidOfTheDeploymentNeverMakesItBetter(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		members, expected := crowd(r), pick(r, Running, Stopped, Gone)
		members[due(pick(r, InstanceStates[:]...))]++
		own := pick(r, DeploymentStates[:]...)
		alone, _ := Rollup(Verdict{State: Unknown}, expected, members, "all")
		got, _ := Rollup(Verdict{State: own}, expected, members, "all")
		if own == Gone {
			if got != Gone {
				return fmt.Errorf("it is gone, and %v make it %s", members, got)
			}
			return nil
		}
		if want := max(rank(alone), rank(own)); own != Unknown && rank(got) != want {
			return fmt.Errorf("%v are %s, of it is said %s, and it is %s", members, alone, own, got)
		}
		return nil
	})
}

func TestRollupNeverPanics(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		members := crowd(r)
		members[Member{Expected: pick(r, "", "nonsense", Degraded), State: pick(r, "", "nonsense", Degraded)}] = r.IntN(3)
		rule := pick(r, Rule("min:"), "min:-1", "min:x", "min:0", ":", "most", "min:99999999999999999999", "all ", "\x00")
		state, _ := Rollup(Verdict{State: pick(r, Unknown, "nonsense")}, pick(r, Running, "", "nonsense"), members, rule)
		if state == "" {
			return fmt.Errorf("%v by rule %q are nothing at all", members, rule)
		}
		return nil
	})
}

func TestRuleThatIsNoneRelaxesNothing(t *testing.T) {
	for _, rule := range []Rule{"most", "min:0", "min:x"} {
		if got, why := Rollup(Verdict{State: Unknown}, Running, Tally{due(Failed): 3}, rule); got == Running {
			t.Errorf("by %q three failed instances are %s, because %s", rule, got, why)
		}
	}
}
