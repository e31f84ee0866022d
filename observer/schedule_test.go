package observer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"windsock"
)

func TestPhasesAreSpread(t *testing.T) {
	const interval, parts, each = 10 * time.Second, 20, 500
	for _, names := range []string{"web-%d", "%d", "shop.east/%06d@node"} {
		count := [parts]int{}
		for i := range parts * each {
			count[phase(fmt.Sprintf(names, i), interval)*parts/interval]++
		}
		for i, n := range count {
			if n < each*3/4 || n > each*5/4 {
				t.Errorf("%s: %d of %d looks fall into part %d of %d, want about %d", names, n, parts*each, i, parts, each)
			}
		}
	}
}

// A phase written down here must never change, or an upgrade shifts every look.
func TestPhaseIsForEver(t *testing.T) {
	if got, want := phase("web-1", 10*time.Second), 4330794123*time.Nanosecond; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestUntilPhase(t *testing.T) {
	const interval = 10 * time.Second
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := noon.Add(phase("web-1", interval)) // noon is a multiple of ten seconds
	for name, tt := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"just there":   {at, interval},
		"just missed":  {at.Add(1), interval - 1},
		"almost there": {at.Add(-1), 1},
		"tomorrow":     {at.Add(24*time.Hour - time.Second), time.Second},
	} {
		if got := untilPhase("web-1", interval, tt.now); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestAgain(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct{ due, now, want time.Duration }{
		"took no time":             {100 * s, 100 * s, 110 * s},
		"took some":                {100 * s, 105 * s, 110 * s},
		"took all the time":        {100 * s, 110 * s, 110 * s},
		"and a little more":        {100 * s, 110*s + 1, 110 * s},
		"waited for three rounds":  {100 * s, 135 * s, 130 * s},
		"waited to the very point": {100 * s, 120 * s, 120 * s},
	} {
		if got := again(tt.due, 10*s, tt.now); got != tt.want {
			t.Errorf("%s: due again at %v, want %v", name, got, tt.want)
		}
	}
}

// Whatever is set, dropped and taken in whatever order: what is taken is due, was not
// dropped, is under way only once, and nothing due is left while there is room.
func TestScheduleKeepsItsPromises(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		s := newSchedule(now, 3, 2)
		here, looking := map[string]bool{}, map[*target]bool{}
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, args...))
		}
		for range 300 {
			id := fmt.Sprint(r.IntN(12))
			switch r.IntN(4) {
			case 0:
				p := every(time.Duration(1+r.IntN(2))*time.Second, id)
				if r.IntN(2) == 0 {
					p.Type = windsock.ProbeExec
				}
				s.set(windsock.ProbeTarget{InstanceID: id, Probe: p}, &part{ctx: t.Context()}, r.IntN(2) == 0, now)
				here[id] = true
			case 1:
				s.drop(id)
				delete(here, id)
			case 2:
				now = now.Add(time.Duration(r.Int64N(int64(2 * time.Second))))
			case 3:
				for looked := range looking {
					s.done(looked, r.IntN(2) == 0, "", now)
					delete(looking, looked)
					break
				}
			}
			for {
				got, late, _ := s.take(now)
				if got == nil {
					break
				}
				if !here[got.id] || looking[got] || late < 0 {
					fail("took %+v, late %v; known: %v, under way already: %v", got, late, here[got.id], looking[got])
				}
				looking[got] = true
			}
			if s.watched() != len(here) {
				fail("%d are watched, want %d", s.watched(), len(here))
			}
			blind := 0
			for _, t := range s.targets {
				if t.blind {
					blind++
				}
			}
			if blind != s.blind {
				fail("%d are blind, counted %d", blind, s.blind)
			}
			for i := range s.lanes {
				for _, left := range s.lanes[i].queue {
					if s.lanes[i].room > 0 && left.due <= now.Sub(s.began) {
						fail("%+v is due and was not handed out", left)
					}
				}
			}
		}
	}
}

// The budget of the whole service is 1 KiB for an instance; the store and the heap's
// slack want theirs, too.
func TestMemoryOfATarget(t *testing.T) {
	const n, most = 20_000, 512
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s, of := newSchedule(time.Now(), 1, 1), &part{ctx: t.Context()}
	for i := range n {
		id := fmt.Sprintf("deployment-%d.instance-%d", i%100, i)
		s.set(windsock.ProbeTarget{InstanceID: id, Probe: every(10*time.Second, fmt.Sprintf("10.0.%d.%d:8080", i/250, i%250))}, of, false, time.Now())
	}
	each := (heap() - before) / n
	t.Logf("%d bytes", each)
	if each > most {
		t.Errorf("%d bytes for each target, want at most %d", each, most)
	}
	runtime.KeepAlive(s)
}
