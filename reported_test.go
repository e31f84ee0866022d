package windsock

import (
	"cmp"
	"math/rand/v2"
	"testing"
)

// alert is what an alert says that began, or ended, s seconds after noon.
func alert(s int, state State) Observation {
	return Observation{Source: "alertmanager:1", Origin: FromMonitor, State: state, Since: at(s)}
}

func TestWhatIsSaidAgainAndAgain(t *testing.T) {
	firing, resolved := Failed, Running
	for name, tt := range map[string]struct {
		said []Observation
		want State
	}{
		"it fires":                    {[]Observation{alert(0, firing)}, Failed},
		"it fires, and says so again": {[]Observation{alert(0, firing), alert(0, firing)}, Failed},
		"it is resolved":              {[]Observation{alert(0, firing), alert(9, resolved)}, Running},
		"it ended before it was last said to fire":    {[]Observation{alert(0, firing), alert(0, firing), alert(1, resolved)}, Running},
		"resolved before firing":                      {[]Observation{alert(9, resolved), alert(0, firing)}, Running},
		"it fires anew":                               {[]Observation{alert(0, firing), alert(9, resolved), alert(10, firing)}, Failed},
		"an end that is late, once it fires anew":     {[]Observation{alert(0, firing), alert(10, firing), alert(9, resolved)}, Failed},
		"it ended as it began":                        {[]Observation{alert(5, firing), alert(5, resolved)}, Running},
		"and fires no more":                           {[]Observation{alert(5, resolved), alert(5, firing)}, Running},
		"a clock that is fast hides no end":           {[]Observation{alert(9000, firing), alert(9001, resolved)}, Running},
		"what lifts a failure is nothing by itself":   {[]Observation{{Source: "a", State: Running, Lifts: true}}, ""},
		"what lifts a failure ends it":                {[]Observation{{Source: "a", State: Failed}, {Source: "a", State: Running, Lifts: true}}, Running},
		"what lifts a failure leaves a wanted stop":   {[]Observation{{Source: "a", State: Stopped, Requested: true}, {Source: "a", State: Running, Lifts: true}}, Stopped},
		"what lifts a failure ends a stop by fencing": {[]Observation{{Source: "a", State: Stopped}, {Source: "a", State: Running, Lifts: true}}, Running},
	} {
		t.Run(name, func(t *testing.T) {
			var e Evidence
			for i, o := range tt.said {
				e, _ = e.Apply(o, at(100+i))
			}
			if e.State != tt.want {
				t.Errorf("after %+v: %s, want %s", tt.said, e.State, tt.want)
			}
		})
	}
}

// What an alert last was does not depend on the order in which that arrives.
func TestAlertsInAnyOrder(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		var said []Observation
		end := 0
		for range 1 + r.IntN(4) {
			begin := end + 1 + r.IntN(3)
			said = append(said, alert(begin, Failed))
			if end = begin + r.IntN(3); r.IntN(4) > 0 {
				said = append(said, alert(end, Running))
			}
		}
		want := said[len(said)-1].State
		said = append(said, said[r.IntN(len(said))])
		r.Shuffle(len(said), func(i, j int) { said[i], said[j] = said[j], said[i] })
		var e Evidence
		for i, o := range said {
			e, _ = e.Apply(o, at(100+i))
		}
		if e.State != want {
			t.Fatalf("seed %d: after %+v: %s, want %s", seed, said, e.State, want)
		}
	}
}

// An alert that is sent again keeps its promise, and counts after a restart of what it is
// about, which voids what was said before.
func TestAnAlertThatIsSentAgain(t *testing.T) {
	o := within(60, alert(0, Failed))
	e, _ := Evidence{}.Apply(o, at(10))
	again, effect := e.Apply(o, at(50))
	if effect != Renewed || !again.ExpiresAt.Equal(at(110)) || !again.Since.Equal(at(0)) {
		t.Errorf("sent again: %v, %+v", effect, again)
	}
	restarted := Evidence{Source: "provider:east", Origin: FromProvider, State: Running, Since: at(30), ObservedAt: at(30)}
	if v := Merge([]Evidence{e, restarted}, 1, at(55)); v.State != Running {
		t.Errorf("what fired before the restart counts: %+v", v)
	}
	if v := Merge([]Evidence{again, restarted}, 1, at(55)); v.State != Failed {
		t.Errorf("what fires after the restart does not count: %+v", v)
	}
	if v := Merge([]Evidence{again}, 1, at(111)); v.State != Unknown {
		t.Errorf("an end that was lost: %+v", v)
	}
}

func TestWhoMakesRoom(t *testing.T) {
	kept := []Evidence{
		{Source: "am:1", State: Failed, ReceivedAt: at(1)},
		{Source: "am:2", State: Running, ReceivedAt: at(3)},
		{Source: "am:3", State: Running, ReceivedAt: at(2)},
		{Source: "other:1", State: Running, ReceivedAt: at(0)},
		{Source: "am", State: Running, ReceivedAt: at(0)},
		{Source: "monitor:1", State: Running, ReceivedAt: at(0)},
		{Source: "provider:1", State: Running, ReceivedAt: at(0), Origin: FromProvider},
	}
	for i := range kept {
		kept[i].Origin = cmp.Or(kept[i].Origin, FromMonitor)
	}
	for source, want := range map[string]string{"am:9": "am:3", "am": "", "none:1": "", "monitor:2": "", "provider:2": "", "other:2": "other:1"} {
		if got := Dispensable(kept, source, at(10)); got != want {
			t.Errorf("for %s: %q, want %q", source, got, want)
		}
	}
	kept[0].ExpiresAt = at(5)
	if got := Dispensable(kept, "am:9", at(10)); got != "am:1" {
		t.Errorf("of those that expired: %q", got)
	}
}
