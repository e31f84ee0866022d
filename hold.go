package windsock

import "time"

// What makes a subject unstable: so many edges within so long. It is stable again after
// a while without one, in which whoever looks at it has looked three times.
const (
	FlapEdges  = 5
	FlapWindow = 10 * time.Minute
	FlapQuiet  = 2 * time.Minute
)

// Flapping is what is known of a subject's edges: the moments when what is heard of it
// changed.
type Flapping struct {
	Edges []time.Time // the latest, oldest first; fewer than FlapEdges
	Until time.Time   // it is unstable until then, if no edge comes; zero: it is stable
}

// Unstable reports whether callbacks wait until it is seen where it comes to rest.
func (f Flapping) Unstable(now time.Time) bool { return now.Before(f.Until) }

// Edge notes one that came now. Whoever saw it looks three times in looks, if that is
// known.
func (f Flapping) Edge(now time.Time, looks time.Duration) Flapping {
	if !f.Unstable(now) {
		f.Until = time.Time{}
	}
	var recent []time.Time
	for _, at := range f.Edges {
		if now.Sub(at) < FlapWindow {
			recent = append(recent, at)
		}
	}
	f.Edges = append(recent, now)
	if len(f.Edges) >= FlapEdges || !f.Until.IsZero() {
		f.Edges, f.Until = nil, now.Add(max(FlapQuiet, looks))
	}
	return f
}

// Hold says why the callbacks of a subject wait.
type Hold int

// A maintenance and a silence hold every word. While what it depends on may be why a subject
// fails, that it does is held, and then that it runs again. Of a subject that flaps those
// are held that may be taken back at once.
const (
	NoHold Hold = iota
	Unstable
	Dependent
	Silenced
	Maintenance
)

// Holds reports whether this word waits. The one with which a subject turns out to be
// unstable does not, if it says that it fails: for as long as that lasts, what was heard
// of it last should not be that it runs. Held says that something waits already.
func (h Hold) Holds(w Word, first, held bool) bool {
	switch h {
	case Maintenance, Silenced:
		return w != ""
	case Dependent:
		return w == FailDetected || w == StartDetected && held
	case Unstable:
		return w == StartDetected || w == FailDetected && !first
	}
	return false
}
