package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"windsock/test/program"
)

// Stopped for some seconds while everybody posts and a callback is under way, as by a
// suspend: every timer is late then. It goes on, and tells everything, once and in order.
func TestSuspended(t *testing.T) {
	t.Parallel()
	monitor := receive(t)
	s := start(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "w.db"))
	reporters := make([]*reporter, 8)
	for i := range reporters {
		reporters[i] = &reporter{instance: fmt.Sprint("web-", i), acked: map[int64]string{}, state: "unknown"}
		s.declare(t, "shop", reporters[i].instance)
	}
	monitor.register(t, s)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, r := range reporters {
			wg.Go(func() { r.run(ctx, t, s) })
		}
		monitor.next(func(answer func()) { s.Signal(syscall.SIGSTOP); answer() })
		<-time.After(3 * time.Second)
		told := len(monitor.all())
		s.Signal(syscall.SIGCONT)
		program.Eventually(t, "it goes on", func() bool { return len(monitor.all()) >= told+100 })
		cancel()
		wg.Wait()
	}
	program.Eventually(t, "every acknowledged change is told", func() bool { return missing(reporters, monitor) == 0 })
	order(t, monitor)
	repeated(t, monitor, nil)
}
