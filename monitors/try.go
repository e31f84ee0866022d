package monitors

import (
	"fmt"
	"time"

	"windsock"
)

// What is kept of the tries must not cost what the callbacks themselves do. So it is
// written with the progress. All that failed are kept, and of those that were taken some in
// a row, and then one in a while: all, where it is calm, and a sample of a storm. What is
// not kept is counted.
const (
	maxTaken  = 100  // tries that were taken, of all monitors, that wait for a save, which comes each 50 ms,
	maxFailed = 1000 // and tries that were not
)

var (
	ofMonitor = allowance{20, time.Second}           // of those that one monitor took,
	ofAll     = allowance{500, 2 * time.Millisecond} // and all of them
)

// An allowance is of so many in a row, and then of one in a time.
type allowance struct {
	row  int
	each time.Duration
}

// credit is what is left of an allowance.
type credit struct{ full time.Time } // when it is, or was, whole again

// take takes one, if there is one.
func (c *credit) take(a allowance, now time.Time) bool {
	if c.full.Before(now) {
		c.full = now
	}
	if c.full.Sub(now) > time.Duration(a.row-1)*a.each {
		return false
	}
	c.full = c.full.Add(a.each)
	return true
}

// A record is what is to be saved of the tries of one monitor. The monitor's mu is held.
type record struct {
	tries   []windsock.Try
	omitted int
	credit  credit
}

// take returns what is to be saved now.
func (r *record) take() (tries []windsock.Try, omitted int) {
	tries, omitted = r.tries, r.omitted
	r.tries, r.omitted = nil, 0
	return tries, omitted
}

// putBack takes back what could not be saved.
func (r *record) putBack(tries []windsock.Try, omitted int) {
	r.tries = append(tries, r.tries...)
	r.omitted += omitted
}

var results = [...]windsock.Result{taken: windsock.TryTaken, refused: windsock.TryRefused, away: windsock.TryAway, gone: windsock.TryGone}

// try returns the try of a batch that has ended, or nil if it need not be kept: one that
// was taken is only when there is spare room.
func (b *batch) try(got *answer, spare bool, begun time.Time) *windsock.Try {
	if got.meaning == taken && len(got.failed) == 0 && !spare {
		return nil
	}
	first, last := b.items[0].notice, b.items[len(b.items)-1].notice
	try := &windsock.Try{
		BegunAt: plain(begun), Seq: first.Seq, LastSeq: last.Seq, Events: len(b.items),
		Result: results[got.meaning],
		TryData: windsock.TryData{
			Attempt: b.attempt, URL: redact(got.to, b.target),
			Status: got.reply.status, Class: classOf(got.reply), Error: cut(got.failure, maxLogged), Answer: clean(string(got.reply.body), b.target),
			Duration: windsock.Duration(time.Since(begun).Truncate(time.Microsecond)), Wire: got.reply.wire(),
		},
	}
	if first == last {
		try.Kind, try.SubjectID, try.DeploymentID = first.Kind, first.SubjectID, first.DeploymentID
	}
	if n := len(got.failed); n > 0 {
		try.Result, try.Class, try.Error = windsock.TryRefused, "refused", fmt.Sprintf("%d of %d events were not taken", n, len(b.items))
	}
	return try
}

// keep has a try saved with the progress of its monitor, or counted if there is none or
// too many wait for that. m.mu is held.
func (s *saver) keep(m *monitor, try *windsock.Try) {
	if try == nil || !s.room(try.Result) {
		m.record.omitted++
		return
	}
	m.record.tries = append(m.record.tries, *try)
}

// room takes room for a try, if there is some.
func (s *saver) room(r windsock.Result) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r != windsock.TryTaken && s.failed < maxFailed:
		s.failed++
	case r == windsock.TryTaken && s.taken < maxTaken && s.credit.take(ofAll, time.Now()):
		s.taken++
	default:
		return false
	}
	return true
}

// release gives back the room of tries that wait no more.
func (s *saver) release(p *windsock.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range p.Tries {
		if p.Tries[i].Result == windsock.TryTaken {
			s.taken--
		} else {
			s.failed--
		}
	}
}
