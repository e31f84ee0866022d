package windsock

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// told is a change, some seconds after the beginning.
type told struct {
	at              int
	state, expected State
}

// account adds up from one second to another.
func account(from, to int, first told, changes ...told) Availability {
	begin := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	t := NewTimeline(at(from), at(to), first.state, first.expected)
	for _, c := range changes {
		t.Change(at(c.at), c.state, c.expected)
	}
	return t.End()
}

func TestAvailability(t *testing.T) {
	up := func(at int) told { return told{at, Running, Running} }
	is := func(at int, s State) told { return told{at, s, Running} }
	for name, c := range map[string]struct {
		changes []told // the first is what it was at 0; they are added up to 100
		want    string // the JSON, without what is the same in all
	}{
		"it ran":                         {[]told{up(0)}, `"seconds":{"running":100},"planned_seconds":0,"uptime":1,"failures":0,"longest_outage_seconds":0`},
		"it failed and came back":        {[]told{up(0), is(40, Failed), up(50)}, `"seconds":{"failed":10,"running":90},"planned_seconds":0,"uptime":0.9,"failures":1,"longest_outage_seconds":10,"mttr_seconds":10,"mtbf_seconds":90`},
		"it is still down":               {[]told{up(0), is(75, Failed)}, `"seconds":{"failed":25,"running":75},"planned_seconds":0,"uptime":0.75,"failures":1,"longest_outage_seconds":25,"mtbf_seconds":75`},
		"it was down before":             {[]told{is(0, Failed), up(20)}, `"seconds":{"failed":20,"running":80},"planned_seconds":0,"uptime":0.8,"failures":0,"longest_outage_seconds":20`},
		"degraded is an outage":          {[]told{up(0), is(50, Degraded), is(60, Failed), up(70)}, `"seconds":{"degraded":10,"failed":10,"running":80},"planned_seconds":0,"uptime":0.8,"failures":1,"longest_outage_seconds":20,"mttr_seconds":20,"mtbf_seconds":80`},
		"to start takes part in it":      {[]told{up(0), is(50, Stopped), is(60, Starting), up(75)}, `"seconds":{"running":75,"starting":15,"stopped":10},"planned_seconds":0,"uptime":0.75,"failures":1,"longest_outage_seconds":25,"mttr_seconds":25,"mtbf_seconds":75`},
		"to start at first does not":     {[]told{is(0, Starting), up(50)}, `"seconds":{"running":50,"starting":50},"planned_seconds":0,"uptime":0.5,"failures":0,"longest_outage_seconds":0`},
		"what nobody knows counts not":   {[]told{is(0, Unknown), up(60), is(80, Unknown)}, `"seconds":{"running":20,"unknown":80},"planned_seconds":0,"uptime":1,"failures":0,"longest_outage_seconds":0`},
		"an outage nobody saw the end":   {[]told{up(0), is(10, Failed), is(20, Unknown), up(60)}, `"seconds":{"failed":10,"running":50,"unknown":40},"planned_seconds":0,"uptime":0.8333333333333334,"failures":1,"longest_outage_seconds":10,"mtbf_seconds":50`},
		"nothing is known":               {[]told{is(0, Unknown)}, `"seconds":{"unknown":100},"planned_seconds":0,"failures":0,"longest_outage_seconds":0`},
		"a stop that is planned":         {[]told{up(0), {50, Running, Stopped}, {60, Stopped, Stopped}, {80, Stopped, Running}, up(90)}, `"seconds":{"running":70,"stopped":30},"planned_seconds":30,"uptime":0.8571428571428571,"failures":1,"longest_outage_seconds":10,"mttr_seconds":10,"mtbf_seconds":60`},
		"a plan ends an outage":          {[]told{up(0), is(50, Failed), {60, Failed, Gone}}, `"seconds":{"failed":50,"running":50},"planned_seconds":40,"uptime":0.8333333333333334,"failures":1,"longest_outage_seconds":10,"mtbf_seconds":50`},
		"after the end is after the end": {[]told{up(0), is(100, Failed), is(200, Gone)}, `"seconds":{"running":100},"planned_seconds":0,"uptime":1,"failures":0,"longest_outage_seconds":0`},
		"a clock that was set back":      {[]told{up(0), is(60, Failed), up(40), is(90, Failed)}, `"seconds":{"failed":10,"running":90},"planned_seconds":0,"uptime":0.9,"failures":2,"longest_outage_seconds":10,"mttr_seconds":0,"mtbf_seconds":45`},
	} {
		got, err := json.Marshal(account(0, 100, c.changes[0], c.changes[1:]...))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(strings.TrimSuffix(string(got), "}"), `"truncated":false,`); rest != c.want {
			t.Errorf("%s: %v\ngives %s\nwant  %s", name, c.changes, rest, c.want)
		}
	}
}

// Whatever happens, the seconds are all of the time, two parts add up to the whole, and
// what is told before the beginning or after the end makes no difference.
func TestAvailabilityAddsUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	states := DeploymentStates[:]
	for n := range 2000 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		what := func(at int) told {
			expected := Running
			if r.IntN(4) == 0 {
				expected = Stopped
			}
			return told{at, states[r.IntN(len(states))], expected}
		}
		first, at := what(0), 0
		var changes []told
		for range r.IntN(12) {
			at += r.IntN(20)
			changes = append(changes, what(at))
		}
		end := 1 + r.IntN(150)
		cut := r.IntN(end + 1)
		atCut, rest := first, changes
		for len(rest) > 0 && rest[0].at < cut {
			atCut, rest = rest[0], rest[1:]
		}
		whole, before, after := account(0, end, first, changes...), account(0, cut, first, changes...), account(cut, end, atCut, rest...)
		var sum Seconds
		for s, d := range whole.Seconds {
			sum += d
			if before.Seconds[s]+after.Seconds[s] != d {
				t.Errorf("%s is %v, in two parts %v and %v", s, d, before.Seconds[s], after.Seconds[s])
			}
		}
		if sum != Seconds(whole.To.Sub(whole.From)) || whole.Planned != before.Planned+after.Planned || whole.Planned > sum || whole.Outage > sum {
			t.Errorf("%+v does not add up", whole)
		}
		if whole.Outage < max(before.Outage, after.Outage) {
			t.Errorf("outage %v, in two parts %v and %v", whole.Outage, before.Outage, after.Outage)
		}
		if u := whole.Uptime; u != nil && (*u < 0 || *u > 1) {
			t.Errorf("uptime %v", *u)
		}
		if more := account(0, end, first, append([]told{{-5, first.state, first.expected}}, changes...)...); fmt.Sprint(more.Seconds) != fmt.Sprint(whole.Seconds) {
			t.Errorf("with an older change %v, without %v", more.Seconds, whole.Seconds)
		}
		if t.Failed() {
			t.Fatalf("seed %d, run %d: %v then %v, cut at %d of %d", seed, n, first, changes, cut, end)
		}
	}
}
