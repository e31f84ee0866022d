package windsock

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		ttl, look time.Duration // when the clock looks
		want      Lease         // then
	}{
		"the last tenth is announced":    {time.Hour, 54 * time.Minute, Lease{time.Hour, at(time.Hour), at(time.Hour)}},
		"of a long one, the last day":    {100 * day, 99 * day, Lease{100 * day, at(100 * day), at(100 * day)}},
		"a little late":                  {time.Hour, 55 * time.Minute, Lease{time.Hour, at(61 * time.Minute), at(61 * time.Minute)}},
		"so late that it would be over":  {time.Hour, 5 * time.Hour, Lease{time.Hour, at(306 * time.Minute), at(306 * time.Minute)}},
		"a year late":                    {time.Minute, 365 * day, Lease{time.Minute, at(365*day + 6*time.Second), at(365*day + 6*time.Second)}},
		"by a clock that was set back":   {time.Hour, -time.Hour, Lease{time.Hour, at(time.Hour), at(time.Hour)}},
		"the shortest has its notice":    {MinLease, 54 * time.Second, Lease{MinLease, at(time.Minute), at(time.Minute)}},
		"the notice is not of a day yet": {9 * day, 9*day - 21*time.Hour - 36*time.Minute, Lease{9 * day, at(9 * day), at(9 * day)}},
	} {
		t.Run(name, func(t *testing.T) {
			next, over := NewLease(c.ttl, noon).Pass(at(c.look))
			if over || next != c.want {
				t.Fatalf("of %s, at %s: %+v, over: %t; want %+v", c.ttl, c.look, next, over, c.want)
			}
			if last, over := next.Pass(next.ExpiresAt); !over || last != (Lease{}) {
				t.Errorf("at its end: %+v, over: %t", last, over)
			}
		})
	}
	if l := NewLease(0, noon); l != (Lease{}) {
		t.Errorf("without an end: %+v", l)
	}
	if l := NewLease(time.Hour, noon); !l.NextAt.Equal(at(54 * time.Minute)) {
		t.Errorf("it is announced at %s", l.NextAt)
	}
}

func TestLeaseBounds(t *testing.T) {
	for ttl, good := range map[time.Duration]bool{0: true, time.Minute: true, MaxTTL: true, time.Minute - 1: false, time.Nanosecond: false, -time.Hour: false} {
		spec := MonitorSpec{Address: "a.example", Port: 1, TTL: Duration(ttl)}
		if err := spec.Complete(); (err == nil) != good {
			t.Errorf("%s: %v, want it taken: %t", ttl, err, good)
		}
	}
}
