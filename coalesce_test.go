package windsock

import "testing"

func TestCoalesce(t *testing.T) {
	state := func(from, to State) Event {
		return Event{Type: InstanceState, Kind: KindInstance, State: to, Previous: from, Word: Heard(to)}
	}
	for name, c := range map[string]struct {
		events   []Event
		previous State
		word     Word
	}{
		"the newest, with the state before the first": {[]Event{state(Running, Failed), state(Failed, Stopped)}, Running, StopDetected},
		"three":                           {[]Event{state(Running, Failed), state(Failed, Running), state(Running, Failed)}, Running, FailDetected},
		"as it was before the first, too": {[]Event{state(Running, Failed), state(Failed, Running)}, Running, StartDetected},
		"the newest has no word":          {[]Event{state(Running, Failed), state(Failed, Starting)}, Running, ""},
		"the newest is of its flags":      {[]Event{state(Running, Failed), {Type: InstanceFlags, Kind: KindInstance, State: Failed}}, Running, FailDetected},
		"the first is of its flags":       {[]Event{{Type: InstanceFlags, Kind: KindInstance, State: Failed}, state(Failed, Running)}, Failed, StartDetected},
		"its flags alone":                 {[]Event{{Type: InstanceFlags, Kind: KindInstance, State: Failed}, {Type: InstanceFlags, Kind: KindInstance, State: Failed}}, Failed, ""},
		"it was taken out of the model":   {[]Event{state(Running, Failed), {Type: InstanceRemoved, Kind: KindInstance, State: Failed}}, Running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.events[0]
			for _, next := range c.events[1:] {
				got = Coalesce(got, next)
			}
			last := c.events[len(c.events)-1]
			if got.Previous != c.previous || got.Word != c.word || got.State != last.State || got.Type != last.Type {
				t.Errorf("got %s, %q to %q, %q; want %q to %q, %q", got.Type, got.Previous, got.State, got.Word, c.previous, last.State, c.word)
			}
		})
	}
}

func TestWhatIsCoalesced(t *testing.T) {
	event := Event{Kind: KindInstance, SubjectID: "web", Seq: 10}
	again := &Window{Ranges: []Range{{5, 10}}, Told: 20}
	for name, c := range map[string]struct {
		backlog  Backlog
		progress Progress
		kind     Kind
		want     bool
	}{
		"every event":                          {Every, Progress{}, KindInstance, false},
		"the latest":                           {Latest, Progress{}, KindInstance, true},
		"every event, resumed with latest":     {Every, Progress{LatestTo: 10}, KindInstance, true},
		"every event, after that":              {Every, Progress{LatestTo: 9}, KindInstance, false},
		"the latest, but it is told again":     {Latest, Progress{Window: again}, KindInstance, false},
		"the latest, but it is a gap":          {Latest, Progress{}, KindLog, false},
		"the latest, of another that it hears": {Latest, Progress{}, KindMonitor, true},
	} {
		t.Run(name, func(t *testing.T) {
			target := Target{Progress: c.progress}
			target.Backlog = c.backlog
			e := event
			e.Kind = c.kind
			if got := target.Coalesces(&e); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
