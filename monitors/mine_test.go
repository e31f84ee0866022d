package monitors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// Who is told that it is another's by now sends nothing more, holds it against no monitor,
// saves nothing, and does not wait for what hangs.
func TestNothingIsSentThatIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, c := newLog(), newNetwork(), new(crew)
		l.add("m", named("a"), "")
		l.add("slow", named("b"), "")
		n.at("b", hang)
		p := start(t, l, n, c.joined)
		c.begin(windsock.DelivererUnits...)
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		want(t, "taken", n.took("a"), []int64{3})
		saved := l.progressOf("m")

		c.lost.Store(true)
		l.append(change("web", windsock.Running))
		pass(time.Second)
		want(t, "taken afterwards", n.took("a"), []int64{3})
		if d := p.delivery(t, "m"); d.Attempts != 0 || d.LastError != "" || d.Backlog != 1 {
			t.Errorf("delivery: %+v", d)
		}
		begun := time.Now()
		c.end(windsock.DelivererUnits...)
		want(t, "it ended after", time.Since(begun), time.Duration(0))
		p.stop()
		want(t, "saved", l.progressOf("m"), saved)
	})
}

// It is asked again when the connection is there, as that may have taken long. That nothing
// was sent is not the monitor's fault.
func TestNothingIsSentOnAConnectionThatIsNotOurs(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	l.add("m", spec(r.URL), "")
	var asked atomic.Int64
	tried := make(chan struct{})
	p := start(t, l, nil, ours, func(d *Deliverer) {
		d.Era = func() int64 { // before the try, before the request, for the connection, and when that is written to
			n := asked.Add(1)
			if n == 8 {
				close(tried)
			}
			if n < 4 {
				return 1
			}
			return -n
		}
	})
	l.append(change("web", windsock.Failed))
	<-tried
	if d := p.delivery(t, "m"); d.Attempts != 0 {
		t.Errorf("delivery: %+v", d)
	}
	p.stop()
	if got := r.all(); len(got) > 0 {
		t.Errorf("it received %v", got)
	}
}

// Nor is it when all is ours again by the time that the request has failed.
func TestWhatIsWithheldForAMomentIsSentAtOnce(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	l.add("m", spec(r.URL), "")
	var asked atomic.Int64
	start(t, l, nil, ours, func(d *Deliverer) {
		d.Era = func() int64 { // it is not when the connection is first written to
			if asked.Add(1) == 4 {
				return 0
			}
			return 1
		}
	})
	l.append(change("web", windsock.Failed))
	if got := r.await(t, 1)[0].Header.Get(windsock.AttemptHeader); got != "1" {
		t.Errorf("it came with try %s", got)
	}
}
