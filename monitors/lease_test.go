package monitors

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
)

// expire ends a lease, as the log says.
func (l *memLog) expire(id string) {
	l.mu.Lock()
	delete(l.targets, id)
	delete(l.progress, id)
	l.mu.Unlock()
	l.append(windsock.Event{Kind: windsock.KindMonitor, Type: windsock.MonitorExpired, SubjectID: id})
}

func TestAMonitorIsToldThatItsLeaseEnds(t *testing.T) {
	l := newLog()
	in := func(m windsock.MonitorSpec, scope windsock.Scope) windsock.MonitorSpec {
		m.Scope = scope
		return m
	}
	own, other, all := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	l.add("own", in(spec(own.URL), "pool:east"), "")
	l.add("other", in(spec(other.URL), "pool:east"), "")
	watcher := spec(all.URL)
	watcher.Detections = windsock.Detections{"all"}
	l.add("all", watcher, "")
	start(t, l, nil, ours)
	end := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	expiring := windsock.Event{Type: windsock.MonitorExpiring, Kind: windsock.KindMonitor, SubjectID: "own", Provider: "static", Pool: "east"}
	expiring.Scope, expiring.ExpiresAt = "pool:east", end
	l.append(expiring, change("web", windsock.Failed))
	for _, r := range []*receiver{own, all} {
		for _, got := range r.await(t, 2) {
			var body map[string]any
			if err := json.Unmarshal(got.body, &body); err != nil {
				t.Fatal(err)
			}
			if body["type"] != "monitor.expiring" {
				continue
			}
			want(t, "path", got.URL.Path, "/api/monitor/own")
			want(t, "body", []any{body["monitor_id"], body["expires_at"]}, []any{"own", "2026-11-30T12:00:00Z"})
		}
	}
	want(t, "path that the other was called at", other.await(t, 1)[0].URL.Path, "/api/deployment/instance/web")

	l.expire("own")
	want(t, "last path of the one that watches", all.await(t, 3)[2].URL.Path, "/api/monitor/own")
	want(t, "callbacks to the others", []int{len(own.all()), len(other.all())}, []int{2, 1})
}

func TestALeaseEndsInTheMiddleOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		p := start(t, l, n)
		var ended atomic.Pointer[time.Time]
		n.at("a", func(req *http.Request) (*http.Response, error) {
			defer func() { now := time.Now(); ended.Store(&now) }()
			return hang(req)
		})
		l.append(changes(600)...)
		pass(time.Second)
		l.expire("m")
		expired := time.Now()
		pass(time.Hour)
		want(t, "time from the end of its lease to that of its requests", ended.Load().Sub(expired), 0)
		want(t, "tries", len(n.tried("a")), 7) // one of each subject
		if _, ok := p.Delivery("m"); ok {
			t.Error("it is still there")
		}
		l.set(func() {
			if p, ok := l.progress["m"]; ok {
				t.Errorf("saved for it: %+v", p)
			}
		})
	})
}
