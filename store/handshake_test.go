package store

import (
	"errors"
	"testing"
	"time"

	"windsock"
)

// asked registers a monitor that is to be asked, or adds it again.
func asked(t *testing.T, s *Store, change func(*windsock.MonitorSpec)) windsock.Monitor {
	t.Helper()
	spec := windsock.MonitorSpec{Address: "127.0.0.1", Port: 9000, Verify: true, TTL: windsock.Duration(time.Hour)}
	if change != nil {
		change(&spec)
	}
	return must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, windsock.Keys{})).Monitor
}

func grant(t *testing.T, s *Store, id string, g windsock.Grant) {
	t.Helper()
	if err := s.VerifyMonitor(t.Context(), id, g); err != nil {
		t.Fatal(err)
	}
}

var granted = windsock.Grant{Scheme: "http", Origin: "windsock.example.com", Rate: 120}

func TestAMonitorIsPendingUntilItGrants(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		m := asked(t, s, nil)
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: m.Cursor, Attempts: 3, NextTryAt: c.Now().Add(time.Hour), LastError: "HTTP 405"})
		shown := must[windsock.Monitor](t)(s.Monitor(t.Context(), m.ID))
		expect(t, "pending", []any{shown.Pending(), shown.Delivery.State, shown.Delivery.LastError}, []any{true, "pending", "HTTP 405"})

		other := granted
		other.Scheme = "https"
		grant(t, s, m.ID, other)
		expect(t, "granted for what is not called", happened(t, s, m.Cursor), nil)

		grant(t, s, m.ID, granted)
		grant(t, s, m.ID, windsock.Grant{Scheme: "http", Origin: "late.example.com"})
		expect(t, "granted twice", happened(t, s, m.Cursor), []string{"monitor.verified"})
		target := must[windsock.Target](t)(s.Target(t.Context(), m.ID))
		expect(t, "granted", []any{target.Pending(), target.Origin, target.AllowedRate, target.VerifiedAt.After(m.CreatedAt)}, []any{false, granted.Origin, 120, true})
		expect(t, "delivery", target.Delivery, windsock.Delivery{State: "idle"})
		expect(t, "cursor", target.Cursor, m.Cursor)
		if err := s.VerifyMonitor(t.Context(), "00000000-0000-0000-0000-000000000000", granted); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}

func TestAGrantHoldsWhileItIsForTheSame(t *testing.T) { eachDB(t, aGrantHoldsWhileItIsForTheSame) }

func aGrantHoldsWhileItIsForTheSame(t *testing.T, fresh maker) {
	path, c := fresh(t), &clock{now: noon}
	s := open(t, path, c)
	defer func() { s.Close() }()
	m := asked(t, s, nil)
	grant(t, s, m.ID, granted)
	for what, step := range map[string]func(*windsock.MonitorSpec){
		"a renewal":    nil,
		"other wishes": func(s *windsock.MonitorSpec) { s.Parallel, s.Detections = 3, windsock.Detections{"all"} },
		"no lease":     func(s *windsock.MonitorSpec) { s.TTL = 0 },
	} {
		again := asked(t, s, step)
		expect(t, "verified after "+what, []any{again.ID, again.Pending(), again.AllowedRate}, []any{m.ID, false, 120})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, c)
	target := must[windsock.Target](t)(s.Target(t.Context(), m.ID))
	expect(t, "after a restart", []any{target.Pending(), target.Origin, target.AllowedRate}, []any{false, granted.Origin, 120})

	https := func(s *windsock.MonitorSpec) { s.Scheme = "https" }
	again := asked(t, s, https)
	expect(t, "by another scheme", []any{again.Pending(), again.AllowedRate}, []any{true, 0})
	head := s.Head()
	again = asked(t, s, func(s *windsock.MonitorSpec) { s.Scheme, s.Verify = "https", false })
	expect(t, "not to be asked any more", []any{again.Pending(), again.Delivery.State}, []any{false, "idle"})
	expect(t, "which the log says", happened(t, s, head), []string{"monitor.added"})
	grant(t, s, m.ID, windsock.Grant{Scheme: "https", Origin: "late.example.com", Rate: 1})
	again = must[windsock.Monitor](t)(s.Monitor(t.Context(), m.ID))
	expect(t, "after a late answer", []any{again.VerifiedAt.IsZero(), again.AllowedRate}, []any{true, 0})
	again = asked(t, s, https)
	expect(t, "to be asked again", again.Pending(), true)
}
