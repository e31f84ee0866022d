package observer

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"sync"
	"time"

	"windsock"
)

// phase is where in its interval an instance is looked at. It follows from the id
// alone, so that looks are spread evenly and a restart moves none of them.
func phase(id string, interval time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(id)) // not maphash, whose seed is another one in each process
	return time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(interval))
}

// untilPhase is how long after now the clock next stands at the phase: more than 0 and
// at most the interval.
func untilPhase(id string, interval time.Duration, now time.Time) time.Duration {
	since := time.Duration(now.UnixNano()) - phase(id, interval)
	return interval - since%interval
}

// again is when a look that was due at due, and has ended now, is due again. When it
// took or waited so long that the next was due meanwhile, that one is due at once, and
// those between are left out.
func again(due, interval, now time.Duration) time.Duration {
	return due + max(1, (now-due)/interval)*interval
}

// soon is within which time a newly declared instance is first looked at.
const soon = time.Second

// shortest is the interval of a probe that has none. No such probe can be declared, but
// one bad row must not stop the looks at all others.
const shortest = windsock.Duration(time.Millisecond)

// target is one instance that is looked at.
type target struct {
	id       string
	part     *part
	provider string
	probe    windsock.Probe
	due      time.Duration // since the schedule began, so that a step of the clock moves nothing
	place    int           // in its lane's queue
	round    uint32        // of the load that last found it
	fresh    bool          // newly declared: the first look is not in phase
	blind    bool          // the last look could not judge
	gone     bool          // removed or declared anew while a look was under way
}

// schedule knows what is to be looked at, and when. Times are those of the monotonic
// clock; only the phase is taken from the wall.
type schedule struct {
	began time.Time

	mu       sync.Mutex
	targets  map[string]*target
	underWay map[*target]struct{}
	lanes    [2]lane
	round    uint32
	blind    int // targets
	why      string
}

// lane holds targets of one sort and bounds how many looks at them are under way.
type lane struct {
	queue queue
	room  int // for so many more looks
}

// newSchedule returns an empty schedule with room for so many looks at a time at
// whatever is looked at over the network, and by running a program.
func newSchedule(now time.Time, network, programs int) *schedule {
	return &schedule{
		began:    now,
		targets:  map[string]*target{},
		underWay: map[*target]struct{}{},
		lanes:    [2]lane{{room: network}, {room: programs}},
	}
}

// lane returns the lane of such probes. Programs have their own: a fork is dear, and
// plugins that hang keep nobody else waiting.
func (s *schedule) lane(p *windsock.Probe) *lane {
	if p.Type == windsock.ProbeExec {
		return &s.lanes[1]
	}
	return &s.lanes[0]
}

// set schedules looks at an instance: in phase or, if that was declared just now, once
// soon and then in phase. One that is scheduled with this probe stays as it is.
func (s *schedule) set(d windsock.ProbeTarget, of *part, declared bool, now time.Time) {
	d.Probe.Interval = max(d.Probe.Interval, shortest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.ctx.Err() != nil {
		return // it has ended
	}
	if t := s.targets[d.InstanceID]; t != nil {
		if reflect.DeepEqual(t.probe, d.Probe) {
			t.provider = d.Provider
			t.round = s.round
			return
		}
		s.remove(t)
	}
	interval := time.Duration(d.Probe.Interval)
	wait := untilPhase(d.InstanceID, interval, now)
	if declared {
		wait %= min(soon, interval)
	}
	t := &target{id: d.InstanceID, part: of, provider: d.Provider, probe: d.Probe, due: now.Sub(s.began) + wait, round: s.round, fresh: declared}
	s.targets[t.id] = t
	heap.Push(&s.lane(&t.probe).queue, t)
}

// drop takes an instance off the schedule, if it is there.
func (s *schedule) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.targets[id]; t != nil {
		s.remove(t)
	}
}

// dropPart takes the instances of a part off the schedule.
func (s *schedule) dropPart(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		if t.part == p {
			s.remove(t)
		}
	}
}

func (s *schedule) remove(t *target) {
	delete(s.targets, t.id)
	s.see(t, false)
	t.gone = true
	if _, ok := s.underWay[t]; !ok {
		heap.Remove(&s.lane(&t.probe).queue, t.place)
	}
}

// startRound begins a load of everything there is to look at; endRound drops what has
// not been set since.
func (s *schedule) startRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
}

func (s *schedule) endRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		if t.round != s.round {
			s.remove(t)
		}
	}
}

// take hands out a target that is due and that there is room to look at, and says how
// late that is. If there is none it returns nil, and how long there will be none unless
// done or set change that.
func (s *schedule) take(now time.Time) (t *target, late, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, wait := now.Sub(s.began), time.Hour
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.room == 0 || len(l.queue) == 0 {
			continue
		}
		if due := l.queue[0].due; due > at {
			wait = min(wait, due-at)
			continue
		}
		t := heap.Pop(&l.queue).(*target)
		l.room--
		s.underWay[t] = struct{}{}
		return t, at - t.due, 0
	}
	return nil, 0, wait
}

// done gives a target back after the look. Why is the reason that it could not judge.
func (s *schedule) done(t *target, blind bool, why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.underWay, t)
	l := s.lane(&t.probe)
	l.room++
	if t.gone {
		return
	}
	s.see(t, blind)
	if blind {
		s.why = t.id + ": " + why
	}
	interval := time.Duration(t.probe.Interval)
	if t.fresh {
		t.fresh = false
		t.due = now.Sub(s.began) + untilPhase(t.id, interval, now)
	} else {
		t.due = again(t.due, interval, now.Sub(s.began))
	}
	heap.Push(&l.queue, t)
}

// see counts the blind.
func (s *schedule) see(t *target, blind bool) {
	if blind && !t.blind {
		s.blind++
	}
	if !blind && t.blind {
		s.blind--
	}
	t.blind = blind
}

// stands reports whether what a look at t saw still is of interest.
func (s *schedule) stands(t *target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !t.gone
}

// watched is how many instances are looked at.
func (s *schedule) watched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.targets)
}

// status says how the looking goes. Complete is the moment up to which every look that
// was due has been made; while nothing is watched nothing is complete.
func (s *schedule) status(now time.Time) windsock.ProviderStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := windsock.ProviderStatus{ID: "static", Kind: "static", Watched: len(s.targets), Blind: s.blind}
	if s.blind > 0 {
		st.LastError = s.why
	}
	if len(s.targets) == 0 {
		return st
	}
	at := now.Sub(s.began)
	behind := time.Duration(0)
	for i := range s.lanes {
		if q := s.lanes[i].queue; len(q) > 0 {
			behind = max(behind, at-q[0].due)
		}
	}
	for t := range s.underWay {
		if !t.gone {
			behind = max(behind, at-t.due)
		}
	}
	st.CompleteAt = now.Add(-behind).Truncate(time.Microsecond).UTC()
	return st
}

// queue is a heap by due time.
type queue []*target

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	t := x.(*target)
	t.place = len(*q)
	*q = append(*q, t)
}

func (q *queue) Pop() any {
	old := *q
	n := len(old) - 1
	t := old[n]
	old[n] = nil
	*q = old[:n]
	return t
}
