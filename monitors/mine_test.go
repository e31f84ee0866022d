package monitors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// Who is told that it is another's by now sends nothing more, holds it against no monitor,
// and does not wait for what hangs.
func TestNothingIsSentThatIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		l.add("slow", named("b"), "")
		n.at("b", hang)
		var lost atomic.Bool
		p := start(t, l, n, func(d *Deliverer) { d.Mine = func() bool { return !lost.Load() } })
		l.append(change("web", windsock.Failed))
		pass(time.Second)
		want(t, "taken", n.took("a"), []int64{3})

		lost.Store(true)
		l.append(change("web", windsock.Running))
		pass(time.Second)
		want(t, "taken afterwards", n.took("a"), []int64{3})
		if d := p.delivery(t, "m"); d.Attempts != 0 || d.LastError != "" || d.Backlog != 1 {
			t.Errorf("delivery: %+v", d)
		}
		begun := time.Now()
		p.stop()
		want(t, "it ended after", time.Since(begun), time.Duration(0))
	})
}

// It is asked again when the connection is there, as that may have taken long.
func TestNothingIsSentOnAConnectionThatIsNotOurs(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	l.add("m", spec(r.URL), "")
	var asked atomic.Int32
	stopped := make(chan struct{})
	p := start(t, l, nil, ours, func(d *Deliverer) {
		d.Mine = func() bool {
			n := asked.Add(1)
			if n == 2 {
				close(stopped)
			}
			return n == 1
		}
	})
	l.append(change("web", windsock.Failed))
	<-stopped
	p.stop()
	if got := r.all(); len(got) > 0 {
		t.Errorf("it received %v", got)
	}
}
