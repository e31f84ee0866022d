package windsock

import "testing"

func TestTheWorstThatWasSeenCounts(t *testing.T) {
	see := func(states ...State) (looks []Look) {
		for _, s := range states {
			l := Look{State: s}
			if s == "" {
				l.Error = "no answer"
			}
			looks = append(looks, l)
		}
		return looks
	}
	for name, c := range map[string]struct {
		looks []Look
		want  State
	}{
		"nobody looks":                              {nil, ""},
		"nobody can look":                           {see("", ""), ""},
		"who cannot look says nothing":              {see("", Running), Running},
		"who cannot tell is overruled by good":      {see(Unknown, Running), Running},
		"who cannot tell is overruled, either way":  {see(Running, Unknown), Running},
		"nobody can tell":                           {see(Unknown, ""), Unknown},
		"it is there and does not work":             {see(Running, Failed), Failed},
		"it does not work, and not for being there": {see(Failed, Running), Failed},
		"it is gone and something answers":          {see(Gone, Running), Gone},
	} {
		if got := Seen(c.looks); got != c.want {
			t.Errorf("%s: of %+v is seen %q, want %q", name, c.looks, got, c.want)
		}
	}
}
