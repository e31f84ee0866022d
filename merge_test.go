package windsock

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, time.June, 21, 12, 0, 0, 0, time.UTC)

// at is s seconds after noon.
func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

// provider, probe and monitor are what such a source says, s seconds after noon.
func provider(s int, state State) Observation {
	return Observation{Source: "provider:east", Origin: FromProvider, State: state, ObservedAt: at(s)}
}

// west is another provider.
func west(s int, state State) Observation {
	o := provider(s, state)
	o.Source = "provider:west"
	return o
}

func probe(s int, state State) Observation {
	return Observation{Source: "probe:http", Origin: FromProbe, State: state, ObservedAt: at(s)}
}

func monitor(name string, s int, state State) Observation {
	return Observation{Source: "monitor:" + name, Origin: FromMonitor, State: state, ObservedAt: at(s)}
}

// within is the promise to speak again within so many seconds.
func within(s int, o Observation) Observation {
	o.TTL = time.Duration(s) * time.Second
	return o
}

func requested(o Observation) Observation {
	o.Requested = true
	return o
}

// blind is a source that could not look, and is stale when it cannot for so many seconds.
func blind(promise int, o Observation) Observation {
	o.State, o.Reason, o.Promise = Unknown, "connection refused by our own proxy", time.Duration(promise)*time.Second
	return o
}

// hear returns the evidence after all that was said, as the store keeps it: one piece a
// source. What is said arrives when it was observed, or later when others came before.
func hear(said ...Observation) []Evidence {
	var evidence []Evidence
	var now time.Time
	for _, o := range said {
		if o.ObservedAt.After(now) {
			now = o.ObservedAt
		}
		evidence, _ = take(evidence, o, now)
	}
	return evidence
}

// take adds one statement that arrives at now.
func take(evidence []Evidence, o Observation, now time.Time) ([]Evidence, Effect) {
	i := slices.IndexFunc(evidence, func(e Evidence) bool { return e.Source == o.Source })
	if i < 0 {
		evidence, i = append(evidence, Evidence{}), len(evidence)
	}
	var effect Effect
	evidence[i], effect = evidence[i].Apply(o, now)
	return evidence, effect
}

// says is a list of statements.
type says []Observation

// mergeCases tells what was said, and which state that makes.
type mergeCases map[string]struct {
	said   says
	quorum int
	now    int // seconds after noon
	want   State
}

func (cases mergeCases) run(t *testing.T) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			evidence := hear(c.said...)
			if got := Merge(evidence, c.quorum, at(c.now)); got.State != c.want {
				t.Errorf("got %s of %s for %q, want %s; evidence: %+v", got.State, got.Source, got.Reason, c.want, evidence)
			}
		})
	}
}

func TestNobodyHasToldUsYet(t *testing.T) {
	mergeCases{
		"no evidence at all":                   {nil, 1, 10, Unknown},
		"a provider that never could look":     {says{provider(1, Unknown)}, 1, 10, Unknown},
		"a probe that never could look":        {says{probe(1, Unknown)}, 1, 10, Unknown},
		"a provider that does not know itself": {says{provider(1, Unknown), provider(2, Unknown)}, 1, 10, Unknown},
	}.run(t)
	if got := Merge(nil, 1, noon); !reflect.DeepEqual(got, Verdict{State: Unknown}) {
		t.Errorf("nothing adds up to %+v", got)
	}
}

func TestProviderKnowsWhetherItIsThere(t *testing.T) {
	for _, state := range []State{Starting, Stopping, Stopped, Suspended, Failed, Gone} {
		mergeCases{
			string(state) + " alone":                       {says{provider(1, state)}, 1, 10, state},
			string(state) + " decides over a newer start":  {says{provider(1, state), monitor("m", 5, Running)}, 1, 10, state},
			string(state) + " decides over a newer fail":   {says{provider(1, state), monitor("m", 5, Failed)}, 1, 10, state},
			string(state) + " decides over a newer stop":   {says{provider(1, state), monitor("m", 5, Stopped)}, 1, 10, state},
			string(state) + " decides over a passed probe": {says{provider(1, state), probe(5, Running)}, 1, 10, state},
			string(state) + " decides over a silent ttl":   {says{provider(1, state), within(2, monitor("m", 5, Running))}, 1, 10, state},
			string(state) + " outlasts a failed look":      {says{provider(1, state), provider(5, Unknown)}, 1, 10, state},
		}.run(t)
	}
	mergeCases{
		"running alone":                          {says{provider(1, Running)}, 1, 10, Running},
		"running does not clear a newer fail":    {says{provider(1, Running), monitor("m", 5, Failed)}, 1, 10, Failed},
		"running again and again is no news":     {says{provider(1, Running), monitor("m", 5, Failed), provider(6, Running)}, 1, 10, Failed},
		"running does not hide a newer stop":     {says{provider(1, Running), monitor("m", 5, Stopped), provider(6, Running)}, 1, 10, Stopped},
		"a blind provider leaves it to monitors": {says{provider(1, Unknown), monitor("m", 5, Failed)}, 1, 10, Failed},
		"a blind provider hides no start":        {says{monitor("m", 1, Running), provider(5, Unknown)}, 1, 10, Running},
		"what is gone and seen again runs":       {says{provider(1, Gone), provider(2, Running)}, 1, 10, Running},
		"of two providers, the one with news":    {says{provider(1, Running), west(2, Gone), provider(3, Running)}, 1, 10, Gone},
		"of two providers, the later one":        {says{provider(2, Running), west(1, Gone)}, 1, 10, Running},
		"of two providers at once, the worse":    {says{provider(1, Running), west(1, Gone)}, 1, 10, Gone},
		"the other provider's fail is no report": {says{west(1, Failed), provider(2, Running), west(3, Failed)}, 1, 10, Running},
	}.run(t)
}

func TestMonitorsKnowWhetherItWorks(t *testing.T) {
	mergeCases{
		"fail of one": {says{monitor("a", 1, Failed)}, 1, 10, Failed},
		"fail wins over a newer start of another":  {says{monitor("a", 1, Failed), monitor("b", 5, Running)}, 1, 10, Failed},
		"fail wins over a newer stop of another":   {says{monitor("a", 1, Failed), monitor("b", 5, Stopped)}, 1, 10, Failed},
		"a probe's fail is as good as a monitor's": {says{probe(1, Failed), monitor("b", 5, Running)}, 1, 10, Failed},
		"quorum zero is one":                       {says{monitor("a", 1, Failed), monitor("b", 5, Running)}, 0, 10, Failed},

		"two of two":                             {says{monitor("a", 1, Failed), monitor("b", 2, Failed), monitor("c", 3, Running)}, 2, 10, Failed},
		"a probe and a monitor are two":          {says{probe(1, Failed), monitor("b", 2, Failed)}, 2, 10, Failed},
		"three are more than two":                {says{probe(1, Failed), monitor("b", 2, Failed), monitor("c", 3, Failed)}, 2, 10, Failed},
		"one of two is not enough":               {says{monitor("a", 2, Failed), monitor("b", 1, Running)}, 2, 10, Running},
		"one that says it twice is one":          {says{monitor("b", 1, Running), monitor("a", 2, Failed), monitor("a", 3, Failed)}, 2, 10, Running},
		"one of two and a newer stop":            {says{monitor("b", 1, Running), monitor("a", 2, Failed), monitor("c", 3, Stopped)}, 2, 10, Stopped},
		"one of two, and nobody else":            {says{monitor("a", 1, Failed)}, 2, 10, Unknown},
		"one of two, and the provider runs it":   {says{provider(1, Running), monitor("a", 2, Failed)}, 2, 10, Running},
		"two of two, one of them before restart": {says{monitor("a", 1, Failed), provider(2, Running), monitor("b", 3, Failed)}, 2, 10, Running},
		"two of two, one of them silent":         {says{within(5, monitor("a", 1, Failed)), monitor("b", 2, Failed), monitor("c", 3, Running)}, 2, 10, Unknown},

		"newest is running":             {says{monitor("a", 1, Stopped), monitor("b", 2, Running)}, 1, 10, Running},
		"newest is stopped":             {says{monitor("a", 1, Running), monitor("b", 2, Stopped)}, 1, 10, Stopped},
		"newest is starting":            {says{monitor("a", 1, Stopped), monitor("b", 2, Starting)}, 1, 10, Starting},
		"newest is stopping":            {says{monitor("a", 1, Running), monitor("b", 2, Stopping)}, 1, 10, Stopping},
		"who says it again is newest":   {says{monitor("a", 1, Running), monitor("b", 2, Stopped), monitor("a", 3, Running)}, 1, 10, Running},
		"at the same moment, the worse": {says{monitor("a", 1, Stopped), monitor("b", 1, Running)}, 1, 10, Stopped},
		"newer than the provider's run": {says{provider(1, Running), monitor("a", 2, Stopped)}, 1, 10, Stopped},
		"a passed probe after a stop":   {says{monitor("a", 1, Stopped), probe(2, Running)}, 1, 10, Running},
	}.run(t)
}

func TestSuspect(t *testing.T) {
	for name, c := range map[string]struct {
		said   says
		quorum int
		want   bool
	}{
		"below the quorum":                      {says{monitor("a", 1, Running), monitor("b", 2, Failed)}, 2, true},
		"below the quorum, and nobody else":     {says{monitor("b", 2, Failed)}, 2, true},
		"at the quorum it is failed":            {says{monitor("a", 1, Failed), monitor("b", 2, Failed)}, 2, false},
		"nobody reports a failure":              {says{monitor("a", 1, Running)}, 2, false},
		"the reporter took it back":             {says{monitor("a", 1, Failed), monitor("a", 2, Running)}, 2, false},
		"it was restarted since":                {says{monitor("a", 1, Failed), provider(2, Running)}, 2, false},
		"the reporter fell silent":              {says{monitor("a", 1, Running), within(3, monitor("b", 2, Failed))}, 2, false},
		"the provider knows that it is stopped": {says{provider(1, Stopped), monitor("b", 2, Failed)}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(hear(c.said...), c.quorum, at(10)); got.Suspect != c.want {
				t.Errorf("suspect is %t, want %t: %+v", got.Suspect, c.want, got)
			}
		})
	}
}

func TestRestartVoidsOlderReports(t *testing.T) {
	mergeCases{
		"fail before the restart":                {says{provider(1, Running), monitor("m", 2, Failed), provider(3, Stopped), provider(4, Running)}, 1, 10, Running},
		"fail between stop and start":            {says{provider(1, Running), provider(2, Stopped), monitor("m", 3, Failed), provider(4, Running)}, 1, 10, Running},
		"stop before the restart":                {says{monitor("m", 2, Stopped), provider(3, Starting), provider(4, Running)}, 1, 10, Running},
		"fail after the restart":                 {says{provider(3, Stopped), provider(4, Running), monitor("m", 5, Failed)}, 1, 10, Failed},
		"fail at the moment of the restart":      {says{provider(4, Running), monitor("m", 4, Failed)}, 1, 10, Failed},
		"fail from before that arrives after it": {says{provider(4, Running), monitor("m", 3, Failed)}, 1, 10, Running},
		"a promise of before, broken since":      {says{within(6, monitor("m", 2, Running)), provider(3, Stopped), provider(4, Running)}, 1, 10, Running},
		"a failed look is no restart":            {says{provider(1, Running), monitor("m", 2, Failed), provider(3, Unknown), provider(4, Running)}, 1, 10, Failed},
		"a provider seen running twice is none":  {says{provider(1, Running), monitor("m", 2, Failed), provider(4, Running)}, 1, 10, Failed},
	}.run(t)
}

func TestSilenceIsUnknown(t *testing.T) {
	start, fail := within(5, monitor("m", 1, Running)), within(5, monitor("m", 1, Failed))
	mergeCases{
		"start, within the promise":              {says{start}, 1, 5, Running},
		"start, at its end":                      {says{start}, 1, 6, Unknown},
		"start, long after":                      {says{start}, 1, 600, Unknown},
		"fail, within the promise":               {says{fail}, 1, 5, Failed},
		"fail, at its end":                       {says{fail}, 1, 6, Unknown},
		"stop":                                   {says{within(5, monitor("m", 1, Stopped))}, 1, 6, Unknown},
		"a start renewed in time":                {says{start, within(5, monitor("m", 5, Running))}, 1, 9, Running},
		"a start renewed late":                   {says{start, within(5, monitor("m", 8, Running))}, 1, 9, Running},
		"a start renewed without a promise":      {says{start, monitor("m", 5, Running)}, 1, 600, Running},
		"a renewal that comes late out of order": {says{within(5, monitor("m", 4, Running)), within(60, monitor("m", 1, Running))}, 1, 9, Unknown},
		"an older start does not speak for it":   {says{monitor("old", 0, Running), start}, 1, 6, Unknown},
		"a start since the last word is older":   {says{start, monitor("n", 4, Running)}, 1, 6, Unknown},
		"a start of another, fresh":              {says{start, monitor("n", 7, Running)}, 1, 8, Running},
		"a start at the very end is not fresh":   {says{start, monitor("n", 6, Running)}, 1, 8, Unknown},
		"a stop of another, fresh":               {says{fail, monitor("n", 7, Stopped)}, 1, 8, Stopped},
		"a fail of another still counts":         {says{monitor("n", 0, Failed), start}, 1, 6, Failed},
		"the provider sees it there, no more":    {says{provider(0, Running), start, provider(7, Running)}, 1, 8, Unknown},
		"the provider alone, without a promise":  {says{provider(0, Running)}, 1, 600, Running},
	}.run(t)
	got := Merge(hear(start), 1, at(8))
	want := Verdict{State: Unknown, Source: "monitor:m", Sources: []string{"monitor:m"}, Reason: "nothing more was heard from monitor:m", DetectedAt: at(6)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestProviderThatFallsSilent(t *testing.T) {
	mergeCases{
		"its stop does not turn into running":    {says{monitor("m", 1, Running), within(3, provider(2, Stopped))}, 1, 10, Unknown},
		"its failure does not turn into running": {says{monitor("m", 1, Running), within(3, provider(2, Failed))}, 1, 10, Unknown},
		"its running is not what others said":    {says{monitor("m", 1, Running), within(3, provider(2, Running))}, 1, 10, Unknown},
		"the restart it saw is not undone":       {says{monitor("m", 1, Failed), within(3, provider(2, Running))}, 1, 10, Unknown},
	}.run(t)
	if got := Merge(hear(within(3, provider(2, Stopped))), 1, at(10)); got.Reason != "nothing more was heard from provider:east" {
		t.Errorf("the reason is %q", got.Reason)
	}
}

// Each FAIL can be left behind in four ways.
func TestEveryFailHasAWayBack(t *testing.T) {
	fails := map[string]says{
		"of a monitor": {provider(1, Running), monitor("m", 2, Failed)},
		"of a probe":   {provider(1, Running), probe(2, Failed)},
		"of both":      {provider(1, Running), probe(2, Failed), monitor("m", 2, Failed)},
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			if got := Merge(hear(fail...), 1, at(3)); got.State != Failed {
				t.Fatalf("it is not failed in the first place: %+v", got)
			}
			started := slices.Clone(fail)
			silent := slices.Clone(fail)
			for i, o := range fail[1:] {
				o.State, o.ObservedAt = Running, at(4)
				started = append(started, o)
				silent[i+1].TTL = 5 * time.Second
			}
			restarted := append(slices.Clone(fail), provider(4, Stopped), provider(5, Running))
			mergeCases{
				"start from the same source": {started, 1, 20, Running},
				"a restart":                  {restarted, 1, 20, Running},
				"silence":                    {silent, 1, 20, Unknown},
				"evidence that was cleared":  {fail[:1], 1, 20, Running},
			}.run(t)
		})
	}
	mergeCases{
		"a start of another is none":       {says{monitor("m", 2, Failed), monitor("n", 4, Running)}, 1, 20, Failed},
		"a stop of another is none":        {says{monitor("m", 2, Failed), monitor("n", 4, Stopped)}, 1, 20, Failed},
		"a start of before is none":        {says{monitor("m", 2, Failed), monitor("m", 1, Running)}, 1, 20, Failed},
		"a stop from the same source does": {says{monitor("m", 2, Failed), monitor("m", 4, Stopped)}, 1, 20, Stopped},
		"the provider's own fail: running": {says{provider(2, Failed), provider(4, Running)}, 1, 20, Running},
	}.run(t)
}

func TestApply(t *testing.T) {
	start := monitor("m", 10, Running)
	fail := monitor("m", 10, Failed)
	why := func(reason string, o Observation) Observation { o.Reason = reason; return o }
	raw := func(word string, o Observation) Observation { o.Raw = word; return o }
	arrival := func(o Observation) Observation { o.ObservedAt = time.Time{}; return o }
	for name, c := range map[string]struct {
		before says
		o      Observation
		want   Effect
		state  State
		since  int // seconds after noon; 0: it never said anything
	}{
		"the first statement":                     {nil, start, Changed, Running, 10},
		"a later fail":                            {says{start}, monitor("m", 11, Failed), Changed, Failed, 11},
		"an older fail":                           {says{start}, monitor("m", 9, Failed), Ignored, Running, 10},
		"a fail of the same moment":               {says{start}, monitor("m", 10, Failed), Ignored, Running, 10},
		"the same again":                          {says{start}, start, Ignored, Running, 10},
		"a later start":                           {says{start}, monitor("m", 11, Running), Renewed, Running, 10},
		"an older start":                          {says{start}, monitor("m", 9, Running), Ignored, Running, 10},
		"a later start, in other words":           {says{why("200 OK in 3 ms", start)}, why("200 OK in 4 ms", monitor("m", 11, Running)), Renewed, Running, 10},
		"a later fail, in the same words":         {says{why("timeout", fail)}, why("timeout", monitor("m", 11, Failed)), Renewed, Failed, 10},
		"a later fail, in other words":            {says{why("timeout", fail)}, why("refused", monitor("m", 11, Failed)), Changed, Failed, 10},
		"the same state by another provider word": {says{raw("ACTIVE", provider(10, Running))}, raw("PASSWORD", provider(11, Running)), Changed, Running, 10},
		"a stop that turns out to be asked for":   {says{monitor("m", 10, Stopped)}, requested(monitor("m", 11, Stopped)), Changed, Stopped, 10},
		"a renewed promise":                       {says{within(5, start)}, within(5, monitor("m", 11, Running)), Renewed, Running, 10},
		"a look that failed":                      {says{probe(10, Running)}, probe(11, Unknown), Changed, Running, 10},
		"a look that failed again":                {says{probe(10, Running), probe(11, Unknown)}, probe(12, Unknown), Renewed, Running, 10},
		"a look that failed before the last one":  {says{probe(10, Running)}, probe(9, Unknown), Ignored, Running, 10},
		"the first look, failed":                  {nil, probe(10, Unknown), Changed, Unknown, 0},
		"a look that works again":                 {says{probe(10, Running), probe(11, Unknown)}, probe(12, Running), Changed, Running, 10},
		"a look that works after none ever did":   {says{probe(10, Unknown)}, probe(12, Running), Changed, Running, 12},
		"without a time, in order of arrival":     {says{start}, arrival(fail), Changed, Failed, 100},
		"from the future, it is of now":           {says{start}, monitor("m", 5000, Failed), Changed, Failed, 100},
	} {
		t.Run(name, func(t *testing.T) {
			var before Evidence
			if e := hear(c.before...); len(e) > 0 {
				before = e[0]
			}
			got, effect := before.Apply(c.o, at(100))
			if effect != c.want || got.State != c.state {
				t.Errorf("got %s by effect %d, want %s by %d", got.State, effect, c.state, c.want)
			}
			if effect == Ignored && !reflect.DeepEqual(got, before) {
				t.Errorf("ignored, and yet\n%+v\nbecame\n%+v", before, got)
			}
			if c.since != 0 && !got.Since.Equal(at(c.since)) {
				t.Errorf("it says so since %s, want %s", got.Since, at(c.since))
			}
		})
	}
}

func TestApplyKeepsWhatWasSaid(t *testing.T) {
	o := Observation{
		Source: "monitor:m", Origin: FromMonitor, State: Stopped, Reason: "asked to", Raw: "SHUTOFF",
		ObservedAt: at(1), TTL: time.Minute, Requested: true,
	}
	got, _ := Evidence{}.Apply(o, at(2))
	want := Evidence{
		Source: "monitor:m", Origin: FromMonitor, State: Stopped, Reason: "asked to", Raw: "SHUTOFF", Requested: true,
		Since: at(1), ObservedAt: at(1), ReceivedAt: at(2), ExpiresAt: at(62), // a minute from receipt: the way here does not count
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestFastClockHidesNothing(t *testing.T) {
	var e Evidence
	for i, state := range []State{Failed, Running, Failed, Running} {
		var effect Effect
		e, effect = e.Apply(monitor("m", 3600+i, state), at(i)) // its clock is an hour fast
		if effect != Changed || e.State != state {
			t.Fatalf("statement %d, %s: got %s by effect %d", i, state, e.State, effect)
		}
		if e.ObservedAt.After(at(i)) {
			t.Fatalf("statement %d is kept as of %s, received at %s", i, e.ObservedAt, at(i))
		}
	}
	// Somebody sets that clock right. What is said next counts.
	if e, effect := e.Apply(monitor("m", 4, Failed), at(4)); effect != Changed || e.State != Failed {
		t.Errorf("got %s by effect %d", e.State, effect)
	}
}

func TestArrivalAtTheSameMomentKeepsItsOrder(t *testing.T) {
	var e Evidence
	for i, state := range []State{Running, Failed, Running, Failed} {
		o := monitor("m", 0, state)
		o.ObservedAt = time.Time{}
		before := e.ObservedAt
		var effect Effect
		if e, effect = e.Apply(o, noon); effect != Changed || e.State != state {
			t.Fatalf("statement %d, %s: got %s by effect %d", i, state, e.State, effect)
		}
		if !e.ObservedAt.After(before) {
			t.Fatalf("statement %d is kept as of %s, the one before as of %s", i, e.ObservedAt, before)
		}
	}
}

func TestOurClockSetBackHidesNothingThatComesWithoutATime(t *testing.T) {
	o := probe(0, Failed)
	o.ObservedAt = time.Time{}
	e, effect := hear(probe(3600, Running))[0].Apply(o, noon)
	if effect != Changed || e.State != Failed {
		t.Errorf("got %s by effect %d", e.State, effect)
	}
}

func TestCouldNotLook(t *testing.T) {
	for _, state := range []State{Running, Failed, Stopped} {
		t.Run(string(state)+" stays", func(t *testing.T) {
			evidence := hear(probe(1, state), blind(30, probe(10, Unknown)))
			for s, stale := range map[int]bool{10: false, 39: false, 40: true, 4000: true} {
				if got := Merge(evidence, 1, at(s)); got.State != state || got.Stale != stale {
					t.Errorf("%d s after noon: %s, stale %t; want %s, %t", s, got.State, got.Stale, state, stale)
				}
			}
			if e := evidence[0]; !e.BlindSince.Equal(at(10)) || e.BlindFor == "" {
				t.Errorf("blind since %s for %q", e.BlindSince, e.BlindFor)
			}
		})
	}

	tells := func(name string, e []Evidence, want Verdict) {
		t.Run(name, func(t *testing.T) {
			if got := Merge(e, 1, at(100)); got.State != want.State || got.Stale != want.Stale || got.Reason != want.Reason {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	why := "connection refused by our own proxy"
	tells("a first look that failed is known by its reason",
		hear(blind(0, probe(1, Unknown))), Verdict{State: Unknown, Reason: why})
	other := monitor("m", 1, Unknown)
	other.Reason = "a name that does not resolve"
	tells("of two that failed, the same reason in any order",
		hear(other, blind(0, probe(1, Unknown))), Verdict{State: Unknown, Reason: why})
	tells("and in the other",
		hear(blind(0, probe(1, Unknown)), other), Verdict{State: Unknown, Reason: why})
	tells("and is stale, too",
		hear(blind(30, probe(1, Unknown))), Verdict{State: Unknown, Reason: why, Stale: true})
	tells("without a promise it is never stale",
		hear(probe(1, Running), blind(0, probe(2, Unknown))), Verdict{State: Running})
	tells("looks that go on failing do not put it off",
		hear(probe(1, Running), blind(30, probe(2, Unknown)), blind(30, probe(31, Unknown)), blind(30, probe(99, Unknown))), Verdict{State: Running, Stale: true})
	tells("a look that works ends it",
		hear(probe(1, Running), blind(30, probe(2, Unknown)), probe(90, Running)), Verdict{State: Running})
	tells("a look that works starts anew",
		hear(probe(1, Running), blind(30, probe(2, Unknown)), probe(90, Running), blind(30, probe(95, Unknown))), Verdict{State: Running})
	tells("one blind source makes stale what others say",
		hear(blind(30, probe(2, Unknown)), monitor("m", 90, Running)), Verdict{State: Running, Stale: true})
	tells("a provider's, too",
		hear(provider(1, Stopped), blind(30, provider(2, Unknown))), Verdict{State: Stopped, Stale: true})
	tells("a promise to speak again holds for the blind as well",
		hear(within(50, monitor("m", 1, Running)), monitor("m", 2, Unknown)), Verdict{State: Unknown, Reason: "nothing more was heard from monitor:m"})
}

// What a probe sees is written as p (passed), f (failed) and ? (could not look).
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		need int
		seen string
		want State
	}{
		{2, "p", Unknown},
		{2, "pp", Running},
		{2, "f", Unknown},
		{2, "ff", Failed},
		{2, "pf", Unknown},
		{2, "pfp", Unknown},
		{2, "pfpfpf", Unknown},
		{2, "pff", Failed},
		{2, "?", Unknown},
		{2, "????", Unknown},

		{2, "ppf", Running},
		{2, "ppff", Failed},
		{2, "ppfpf", Running},
		{2, "ppfpff", Failed},
		{2, "ppffp", Failed},
		{2, "ppffpf", Failed},
		{2, "ppffpp", Running},
		{2, "ppffpfp", Failed},
		{2, "ppffpfpp", Running},

		{2, "pp?", Running},
		{2, "pp????", Running},
		{2, "ppf?", Running},
		{2, "ppf?f", Failed}, // it could not look in between, and has not seen it pass
		{2, "ppf?pf", Running},
		{2, "p?p", Running},
		{2, "ff?p", Failed},
		{2, "ff?p?p", Running},
		{2, "?p", Unknown},
		{2, "?pp", Running},

		{3, "pp", Unknown},
		{3, "ppp", Running},
		{3, "pppff", Running},
		{3, "pppffpff", Running},
		{3, "pppfff", Failed},
		{3, "pppfffpp", Failed},
		{3, "pppfffppp", Running},

		{1, "p", Running},
		{1, "pf", Failed},
		{1, "pfp", Running},
		{0, "f", Failed},
		{0, "fp", Running},
		{-1, "fp", Running},
	} {
		t.Run(fmt.Sprintf("%d in a row/%s", c.need, c.seen), func(t *testing.T) {
			evidence := look(nil, c.need, c.seen)
			if got := Merge(evidence, 1, at(60)); got.State != c.want {
				t.Errorf("got %s, want %s: %+v", got.State, c.want, evidence)
			}
		})
	}
}

// look returns the evidence of a probe after what it has seen, a look a second.
func look(evidence []Evidence, need int, seen string) []Evidence {
	for i, c := range seen {
		o := probe(0, map[rune]State{'p': Running, 'f': Failed, '?': Unknown}[c])
		o.ObservedAt, o.Need = time.Time{}, need
		evidence, _ = take(evidence, o, at(i))
	}
	return evidence
}

func TestThresholdsMayDiffer(t *testing.T) {
	evidence := look(look(nil, 3, "fff"), 1, "p")
	if got := Merge(evidence, 1, at(60)); got.State != Running {
		t.Errorf("one pass is enough: got %+v", got)
	}
}

func TestConfirmationByASingleLook(t *testing.T) {
	absent := provider(5, Gone) // from a listing: it takes two
	absent.Need = 2
	mergeCases{
		"absent from one listing":               {says{provider(1, Running), absent}, 1, 10, Running},
		"absent from two":                       {says{provider(1, Running), absent, later5(absent)}, 1, 10, Gone},
		"absent, and a single look confirms it": {says{provider(1, Running), absent, provider(6, Gone)}, 1, 10, Gone},
		"absent, seen, absent":                  {says{provider(1, Running), absent, provider(6, Running), later5(absent)}, 1, 10, Running},
		"absent, not listed to the end, absent": {says{provider(1, Running), absent, provider(6, Unknown), later5(absent)}, 1, 10, Gone},
	}.run(t)
}

// later5 is the same, five seconds later.
func later5(o Observation) Observation {
	o.ObservedAt = o.ObservedAt.Add(5 * time.Second)
	return o
}

func TestPendingIsNoNews(t *testing.T) {
	before := Merge(look(nil, 2, "pp"), 1, at(60))
	pending := look(nil, 2, "ppf")
	pass, fail := probe(9, Running), probe(9, Failed)
	pass.Need, fail.Need = 2, 3
	for name, o := range map[string]Observation{"a pass that ends the run": pass, "one more that is not enough": fail} {
		if _, effect := take(slices.Clone(pending), o, at(9)); effect != Changed {
			t.Errorf("%s is not kept: effect %d", name, effect)
		}
	}
	after := Merge(pending, 1, at(60))
	if !reflect.DeepEqual(before, after) {
		t.Errorf("one failed look of two turned\n%+v\ninto\n%+v", before, after)
	}
	if e := pending[0]; e.Pending != Failed || e.Samples != 1 {
		t.Errorf("pending is %q, %d times", e.Pending, e.Samples)
	}
	if e := look(nil, 2, "ppfp")[0]; e.Pending != "" || e.Samples != 0 {
		t.Errorf("a pass ends the run, but %q is pending, %d times", e.Pending, e.Samples)
	}
	if e := look(nil, 2, "ppff")[0]; e.Pending != "" || e.Samples != 0 || !e.Since.Equal(at(3)) {
		t.Errorf("two are enough, but %q is pending, %d times; failed since %s", e.Pending, e.Samples, e.Since)
	}
	if e := look(nil, 3, "?ppf")[0]; !e.BlindSince.IsZero() {
		t.Errorf("it can look again, but is blind since %s", e.BlindSince)
	}
}

// Statements of which it takes several have no time of their own: it is the run of them
// that counts, as it arrives.
func TestSeveralStatementsCountAsTheyArrive(t *testing.T) {
	look := func(sec int, s State) Observation {
		o := probe(sec, s)
		o.Need = 2
		return o
	}
	mergeCases{
		"an old time is no excuse":    {says{look(1, Running), look(2, Running), look(0, Failed), look(0, Failed)}, 1, 20, Failed},
		"a pass between ends the run": {says{look(1, Running), look(2, Running), look(10, Failed), look(5, Running), look(11, Failed)}, 1, 20, Running},
	}.run(t)
}

func TestRequestedStop(t *testing.T) {
	for name, c := range map[string]struct {
		said  says
		state State
		want  bool
	}{
		"stop that was asked for":            {says{requested(monitor("m", 1, Stopped))}, Stopped, true},
		"stop of its own":                    {says{monitor("m", 1, Stopped)}, Stopped, false},
		"a provider's, asked for":            {says{requested(provider(1, Stopping))}, Stopping, true},
		"a newer stop, not asked for":        {says{requested(monitor("m", 1, Stopped)), monitor("n", 2, Stopped)}, Stopped, false},
		"started since":                      {says{requested(monitor("m", 1, Stopped)), monitor("m", 2, Running)}, Running, false},
		"asked for, but it failed":           {says{requested(monitor("m", 1, Stopped)), monitor("n", 2, Failed)}, Failed, false},
		"asked for, and then nothing more":   {says{within(5, requested(monitor("m", 1, Stopped)))}, Unknown, false},
		"asked for, and no look works since": {says{requested(provider(1, Stopped)), provider(2, Unknown)}, Stopped, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(hear(c.said...), 1, at(10)); got.State != c.state || got.Requested != c.want {
				t.Errorf("got %s, requested %t; want %s, %t", got.State, got.Requested, c.state, c.want)
			}
		})
	}
}

func TestVerdictSaysWhoAndWhy(t *testing.T) {
	why := func(reason string, o Observation) Observation { o.Reason = reason; return o }
	for name, c := range map[string]struct {
		said   says
		quorum int
		want   Verdict
	}{
		"the newest decides, all who agree are named": {
			says{why("old", monitor("z", 1, Failed)), why("new", monitor("b", 2, Failed)), monitor("c", 3, Running)}, 1,
			Verdict{State: Failed, Source: "monitor:b", Sources: []string{"monitor:b", "monitor:z"}, Reason: "new", DetectedAt: at(2)},
		},
		"at the same moment, the name decides": {
			says{why("B", monitor("b", 1, Failed)), why("A", monitor("a", 1, Failed))}, 1,
			Verdict{State: Failed, Source: "monitor:b", Sources: []string{"monitor:a", "monitor:b"}, Reason: "B", DetectedAt: at(1)},
		},
		"a provider that runs it, since it began to": {
			says{why("up", provider(1, Running)), provider(5, Running)}, 1,
			Verdict{State: Running, Source: "provider:east", Sources: []string{"provider:east"}, Reason: "up", DetectedAt: at(1)},
		},
		"a probe that agrees with the provider": {
			says{provider(1, Running), probe(5, Running)}, 1,
			Verdict{State: Running, Source: "probe:http", Sources: []string{"probe:http", "provider:east"}, DetectedAt: at(5)},
		},
		"one who is blind still says what he said": {
			says{monitor("b", 1, Running), probe(1, Running), probe(5, Unknown)}, 1,
			Verdict{State: Running, Source: "probe:http", Sources: []string{"monitor:b", "probe:http"}, DetectedAt: at(1)},
		},
		"one who never could look says nothing": {
			says{probe(1, Unknown), within(2, monitor("b", 1, Running))}, 1,
			Verdict{State: Unknown, Source: "monitor:b", Sources: []string{"monitor:b"}, Reason: "nothing more was heard from monitor:b", DetectedAt: at(3)},
		},
		"a suspect is not the one that decides": {
			says{why("fine", monitor("a", 1, Running)), why("bad", monitor("b", 2, Failed))}, 2,
			Verdict{State: Running, Source: "monitor:a", Sources: []string{"monitor:a"}, Reason: "fine", DetectedAt: at(1), Suspect: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(hear(c.said...), c.quorum, at(10)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestVoidReportsAreNotNamed(t *testing.T) {
	for name, c := range map[string]struct {
		said says
		want []string
	}{
		"a fail of before the restart": {says{monitor("old", 1, Failed), provider(2, Running), monitor("new", 3, Failed)}, []string{"monitor:new"}},
		"a start of before it":         {says{monitor("old", 1, Running), provider(2, Stopped), provider(3, Running)}, []string{"provider:east"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(hear(c.said...), 1, at(10)); !slices.Equal(got.Sources, c.want) {
				t.Errorf("got %q, want %q", got.Sources, c.want)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		said says
		now  int
		want int // seconds after noon; 0: none
	}{
		"no promise":                        {says{monitor("m", 1, Running)}, 5, 0},
		"one promise":                       {says{within(10, monitor("m", 1, Running))}, 5, 11},
		"the earlier of two":                {says{within(20, monitor("a", 1, Running)), within(10, monitor("b", 1, Running))}, 5, 11},
		"the later one when one has passed": {says{within(20, monitor("a", 1, Running)), within(10, monitor("b", 1, Running))}, 11, 21},
		"none when all have passed":         {says{within(10, monitor("m", 1, Running))}, 11, 0},
		"when it will be stale":             {says{probe(1, Running), blind(10, probe(2, Unknown))}, 5, 12},
		"none when it is stale":             {says{probe(1, Running), blind(10, probe(2, Unknown))}, 12, 0},
	} {
		t.Run(name, func(t *testing.T) {
			want := time.Time{}
			if c.want != 0 {
				want = at(c.want)
			}
			if got := Merge(hear(c.said...), 1, at(c.now)).Deadline; !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// span is how many seconds a talk lasts.
const span = 12

// talk is what these sources say within span seconds after noon, each of them in
// order and at distinct moments. They make promises, fall silent and go blind.
func talk(r *rand.Rand, sources ...string) says {
	var said says
	for _, source := range sources {
		for s := range span {
			if r.IntN(4) > 0 {
				continue
			}
			o := monitor(source, s, pick(r, Running, Running, Failed, Failed, Stopped, Starting, Stopping, Unknown))
			switch source {
			case "provider":
				o = provider(s, pick(r, append(InstanceStates[:], Running, Running)...))
			case "west":
				o = west(s, pick(r, Unknown, Running, Failed, Gone))
			case "probe":
				o = probe(s, pick(r, Running, Failed, Unknown))
			default:
				o = within(pick(r, 0, 0, 1, 3, 8, 2*span), o)
			}
			o.Requested = r.IntN(4) == 0
			o.Reason = pick(r, "", "so", "thus")
			o.Promise = time.Duration(pick(r, 0, 0, 2, 5, 2*span)) * time.Second
			said = append(said, o)
		}
	}
	slices.SortStableFunc(said, func(a, b Observation) int { return a.ObservedAt.Compare(b.ObservedAt) })
	return said
}

// anybody is every kind of source, and thirdParties those that only know whether it works.
var (
	anybody      = []string{"provider", "west", "probe", "a", "b"}
	thirdParties = anybody[2:]
)

func TestMergeDoesNotDependOnTheOrderOfEvidence(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		evidence, quorum, now := hear(talk(r, anybody...)...), r.IntN(4), at(r.IntN(3*span))
		want := Merge(evidence, quorum, now)
		r.Shuffle(len(evidence), func(i, j int) { evidence[i], evidence[j] = evidence[j], evidence[i] })
		if got := Merge(evidence, quorum, now); !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got\n%+v, and in another order\n%+v, of %+v", want, got, evidence)
		}
		return nil
	})
}

func TestMergeLeavesTheEvidenceAlone(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		evidence := hear(talk(r, anybody...)...)
		before := slices.Clone(evidence)
		Merge(evidence, 1, at(r.IntN(3*span)))
		if !reflect.DeepEqual(evidence, before) {
			return fmt.Errorf("it changed\n%+v into\n%+v", before, evidence)
		}
		return nil
	})
}

// What a provider says is left out here: since when it says running decides what is
// void, and that depends on whether it was heard to say something else in between.
func TestReportsMayArriveInAnyOrder(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		said, quorum, now := talk(r, thirdParties...), r.IntN(4), at(span+r.IntN(span))
		verdict := func() Verdict {
			var evidence []Evidence
			for _, o := range said {
				evidence, _ = take(evidence, o, at(span))
			}
			v := Merge(evidence, quorum, now)
			return Verdict{State: v.State, Source: v.Source, Sources: v.Sources, DetectedAt: v.DetectedAt, Requested: v.Requested, Suspect: v.Suspect}
		}
		want := verdict()
		r.Shuffle(len(said), func(i, j int) { said[i], said[j] = said[j], said[i] })
		if got := verdict(); !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got\n%+v, and in another order\n%+v, of %+v", want, got, said)
		}
		return nil
	})
}

func TestTwiceIsOnce(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		said := talk(r, anybody...)
		var evidence []Evidence
		for i, o := range said {
			now := o.ObservedAt
			evidence, _ = take(evidence, o, now)
			once := slices.Clone(evidence)
			again := said[r.IntN(i+1)] // this one or an earlier one
			var effect Effect
			evidence, effect = take(evidence, again, now.Add(time.Second))
			if !reflect.DeepEqual(evidence, once) || effect == Changed {
				return fmt.Errorf("%+v, again, by effect %d, turned\n%+v into\n%+v", again, effect, once, evidence)
			}
		}
		return nil
	})
}

func TestBrokenPromisesMakeUnknown(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		said := talk(r, thirdParties...)
		for i := range said {
			said[i].TTL = time.Duration(1+r.IntN(span)) * time.Second
		}
		evidence, now := hear(said...), at(3*span)
		if v := Merge(evidence, r.IntN(4), now); v.State != Unknown {
			return fmt.Errorf("all are silent, and still it is %s: %+v", v.State, evidence)
		}
		return nil
	})
}

func TestSilenceNeverTurnsIntoRunning(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error { return silenceNeverRuns(r, talk(r, anybody...)) })
}

func TestAProvidersSilenceNeverTurnsIntoRunning(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		said := talk(r, anybody...)
		for i := range said {
			said[i].TTL = time.Duration(r.IntN(span)) * time.Second
		}
		return silenceNeverRuns(r, said)
	})
}

// silenceNeverRuns lets time pass after the last word and reports what came to run by it.
func silenceNeverRuns(r *rand.Rand, said says) error {
	evidence, quorum := hear(said...), r.IntN(4)
	before := Merge(evidence, quorum, at(span))
	for s := span + 1; s < 4*span; s++ {
		after := Merge(evidence, quorum, at(s))
		if after.State == Running && before.State != Running {
			return fmt.Errorf("%s became running by waiting to second %d: %+v", before.State, s, evidence)
		}
		before = after
	}
	return nil
}

func TestWhoCouldNotLookChangesNothing(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		said, quorum, now := talk(r, anybody...), r.IntN(4), at(span)
		evidence := hear(said...)
		before := Merge(evidence, quorum, now)
		for _, source := range anybody {
			o := monitor(source, 0, Unknown)
			switch source {
			case "provider":
				o = provider(0, Unknown)
			case "west":
				o = west(0, Unknown)
			case "probe":
				o = probe(0, Unknown)
			}
			o.ObservedAt = pick(r, time.Time{}, at(span), at(3), at(5*span))
			o.Reason, o.Raw = "503", "UNKNOWN"
			o.Promise = time.Duration(r.IntN(3)) * time.Second
			evidence, _ = take(evidence, o, now)
		}
		after := Merge(evidence, quorum, now)
		after.Deadline = before.Deadline // when it will be stale is news, but for nobody yet
		if before.Source == "" {
			after.Reason = before.Reason // why nobody knows
		}
		if !reflect.DeepEqual(before, after) {
			return fmt.Errorf("got\n%+v, and with all eyes shut\n%+v, of %+v", before, after, evidence)
		}
		return nil
	})
}

func TestNothingChangesBeforeTheDeadline(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		evidence, quorum, now := hear(talk(r, anybody...)...), r.IntN(4), at(span)
		before := Merge(evidence, quorum, now)
		last := at(10 * span)
		if !before.Deadline.IsZero() {
			if !before.Deadline.After(now) {
				return fmt.Errorf("the deadline has passed already: %+v", before)
			}
			last = before.Deadline.Add(-time.Microsecond)
		}
		moments := []time.Time{last, now.Add(time.Duration(r.Int64N(int64(last.Sub(now)) + 1)))}
		for _, moment := range moments {
			if after := Merge(evidence, quorum, moment); !reflect.DeepEqual(before, after) {
				return fmt.Errorf("got\n%+v, and at %s\n%+v, of %+v", before, moment, after, evidence)
			}
		}
		return nil
	})
}

// The deadlines lead through all that time does: nothing else ever changes a verdict.
func TestDeadlinesComeToAnEnd(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		evidence, now := hear(talk(r, anybody...)...), at(span)
		for range 2*len(evidence) + 1 {
			v := Merge(evidence, 1, now)
			if v.Deadline.IsZero() {
				for _, e := range evidence {
					if e.ExpiresAt.After(now) || e.StaleAt.After(now) {
						return fmt.Errorf("no deadline at %s, but %+v", now, e)
					}
				}
				return nil
			}
			now = v.Deadline
		}
		return fmt.Errorf("still a deadline at %s: %+v", now, evidence)
	})
}
