package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"windsock/test/program"
)

// Fifty write whatever can be written, for a minute: nobody is told that the database is
// locked, or anything else of 5xx.
func TestFiftyWriters(t *testing.T) {
	t.Parallel()
	span := time.Minute
	if testing.Short() {
		span = 3 * time.Second
	}
	s := start(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "w.db"))
	s.declare(t, "shop")
	until := time.Now().Add(span)
	var n atomic.Int64
	var wg sync.WaitGroup
	for w := range 50 {
		id := fmt.Sprint("web-", w)
		s.declare(t, "shop", id)
		wg.Go(func() {
			for k := 0; time.Now().Before(until) && !t.Failed(); k++ {
				for _, c := range []struct {
					method, path string
					body         any
				}{
					{"POST", "/api/monitors/deployment/instance/" + id, m{"state": []string{"FAIL DETECTED", "START DETECTED"}[k%2]}},
					{"POST", "/api/monitors/deployment/shop", m{"state": "START DETECTED", "source": id, "ttl": "1s"}},
					{"PATCH", "/api/instances/" + id, m{"metadata": m{"k": fmt.Sprint(k)}}},
					{"PUT", fmt.Sprintf("/api/instances/%s-%d", id, k%10), m{"deployment_id": "shop", "expected_state": "stopped"}},
					{"POST", "/api/monitors/add", m{"address": "127.0.0.1", "port": 1000 + w, "path": fmt.Sprint("/", k%3), "scope": "pool:none"}},
					{"GET", "/api/deployments/shop/instances?limit=20", nil},
					{"GET", "/readyz", nil},
				} {
					status, err := s.Call(t.Context(), c.method, c.path, c.body, nil)
					n.Add(1)
					// The deployment hears of more sources than are kept: 409 is a fine answer.
					if err != nil || status >= 400 && status != 409 {
						t.Errorf("%s %s: %d %v", c.method, c.path, status, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests", n.Load())
}

// No room on the disk: posts are refused with 503 and none that was acknowledged is lost;
// not ready; both pass when there is room.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2500k"); err != nil {
		t.Skipf("a small disk takes the right to mount one: %v", err)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	s := start(t, "127.0.0.1:0", filepath.Join(dir, "w.db"))
	s.declare(t, "shop", "web-1")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 800<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	acked := map[int64]bool{}
	refused := 0
	for k := 0; refused < 20 && k < 100_000; k++ {
		var o outcome
		status, err := s.Call(t.Context(), "POST", "/api/monitors/deployment/instance/web-1", m{"state": []string{"FAIL DETECTED", "START DETECTED"}[len(acked)%2], "source": "test"}, &o)
		switch {
		case status == 503:
			refused++
		case err != nil || status != 200:
			t.Fatalf("post %d: %d %v", k, status, err)
		case o.Changed:
			acked[o.EventSeq] = true
		}
	}
	if refused == 0 {
		t.Fatal("the disk never was full")
	}
	if status, _ := s.Call(t.Context(), "GET", "/readyz", nil, nil); status != 503 {
		t.Errorf("readyz with a full disk: %d, want 503", status)
	}
	s.Must(t, "GET", "/livez", nil, nil, 200)

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	program.Eventually(t, "ready again", func() bool {
		status, _ := s.Call(t.Context(), "GET", "/readyz", nil, nil)
		return status == 200
	})
	if o, err := s.report(t.Context(), "web-1", []string{"FAIL DETECTED", "START DETECTED"}[len(acked)%2]); err != nil || !o.Changed {
		t.Errorf("with room again: %+v %v", o, err)
	}
	s.Kill()
	s = start(t, "127.0.0.1:0", filepath.Join(dir, "w.db"))
	for after := int64(0); ; {
		var page struct {
			Events []struct {
				Seq int64 `json:"seq"`
			} `json:"events"`
		}
		s.Must(t, "GET", fmt.Sprintf("/api/events?limit=1000&after=%d", after), nil, &page, 200)
		if len(page.Events) == 0 {
			break
		}
		for _, e := range page.Events {
			delete(acked, e.Seq)
			after = e.Seq
		}
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged changes are lost", len(acked))
	}
}
