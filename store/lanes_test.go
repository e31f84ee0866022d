package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// registered returns a monitor that was added.
func registered(t *testing.T, s *Store) string {
	t.Helper()
	m, err := s.AddMonitor(t.Context(), windsock.MonitorSpec{Address: "127.0.0.1", Port: 9000}, windsock.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	return m.ID
}

func save(t *testing.T, s *Store, p windsock.Progress) {
	t.Helper()
	if err := s.SaveProgress(t.Context(), []windsock.Progress{p}); err != nil {
		t.Fatal(err)
	}
}

func progressOf(t *testing.T, s *Store, id string) windsock.Progress {
	t.Helper()
	one := must[windsock.Target](t)(s.Target(t.Context(), id))
	for _, other := range must[[]windsock.Target](t)(s.Targets(t.Context())) {
		if other.ID == id {
			if diff := cmp.Diff(one, other); diff != "" {
				t.Errorf("alone and among all (-alone +among):\n%s", diff)
			}
		}
	}
	return one.Progress
}

var (
	web = windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}
	db  = windsock.Subject{Kind: windsock.KindInstance, ID: "db-1"}
)

func TestProgressIsKeptWithItsLanes(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := registered(t, s)
		want := windsock.Progress{
			MonitorID: id, Cursor: 7, Ahead: map[windsock.Subject]int64{db: 9, {Kind: windsock.KindDeployment, ID: `sh"op`}: 12},
			Attempts: 2, NextTryAt: c.Now().Add(time.Minute), LastError: "timeout", SuccessAt: c.Now(), Failures: 30, FailingSince: c.Now().Add(-time.Hour),
			Lanes: []windsock.Lane{{Subject: web, FirstSeq: 5, Attempts: 3, NextTryAt: c.Now().Add(time.Hour), LastError: "HTTP 500"}},
		}
		save(t, s, want)
		if diff := cmp.Diff(want, progressOf(t, s, id)); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		if m := must[windsock.Monitor](t)(s.Monitor(t.Context(), id)); m.Delivery.Parked != 1 {
			t.Errorf("shown: %+v", m.Delivery)
		}

		save(t, s, windsock.Progress{MonitorID: id, Cursor: 12, Lanes: []windsock.Lane{{Subject: db, FirstSeq: 11}}, Cleared: []windsock.Subject{web}})
		want = windsock.Progress{MonitorID: id, Cursor: 12, Lanes: []windsock.Lane{{Subject: db, FirstSeq: 11}}}
		if diff := cmp.Diff(want, progressOf(t, s, id)); diff != "" {
			t.Errorf("kept then (-want +got):\n%s", diff)
		}
	})
}

func TestLanesGoWithTheirMonitor(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id, other := registered(t, s), ""
		m, err := s.AddMonitor(t.Context(), windsock.MonitorSpec{Address: "127.0.0.1", Port: 9001}, windsock.Keys{})
		if other = m.ID; err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{id, other} {
			save(t, s, windsock.Progress{MonitorID: of, Cursor: 7, Lanes: []windsock.Lane{{Subject: web, FirstSeq: 5}}})
		}
		if err := s.RemoveMonitor(t.Context(), id, "", 0); err != nil {
			t.Fatal(err)
		}
		save(t, s, windsock.Progress{MonitorID: id, Cursor: 8, Lanes: []windsock.Lane{{Subject: db, FirstSeq: 8}}})
		var left []string
		if err := s.read.Select(&left, `SELECT monitor_id FROM lanes`); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{other}, left); diff != "" {
			t.Errorf("lanes left (-want +got):\n%s", diff)
		}
	})
}

func TestPauseAndItsEventAreOne(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := registered(t, s)
		for _, step := range []struct {
			what   string
			do     func() (windsock.Monitor, error)
			paused windsock.Pause
			event  bool
		}{
			{"it answers 410", pausing(t, s, id, windsock.PausedByGone), windsock.PausedByGone, true},
			{"it answers 410 again", pausing(t, s, id, windsock.PausedByGone), windsock.PausedByGone, false},
			{"it fails for a day", pausing(t, s, id, windsock.PausedByFailures), windsock.PausedByGone, false},
			{"it takes the probe", resuming(t, s, id, windsock.Recovered), "", true},
			{"it takes another", resuming(t, s, id, windsock.Recovered), "", false},
			{"it fails for a day then", pausing(t, s, id, windsock.PausedByFailures), windsock.PausedByFailures, true},
			{"an operator pauses it, too", pausing(t, s, id, windsock.PausedByOperator), windsock.PausedByOperator, true},
			{"it takes a last probe", resuming(t, s, id, windsock.Recovered), windsock.PausedByOperator, false},
			{"an operator resumes it", resuming(t, s, id, windsock.Replay), "", true},
			{"an operator resumes it again", resuming(t, s, id, windsock.Replay), "", false},
			{"an operator has it skip", resuming(t, s, id, windsock.Skip), "", true},
		} {
			before := s.Head()
			m, err := step.do()
			if err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			events := must[[]windsock.Event](t)(s.Events(t.Context(), before, 10, windsock.EventFilter{Kind: windsock.KindMonitor, Subject: id}))
			if m.Delivery.PausedBy != step.paused || (len(events) == 1) != step.event {
				t.Errorf("%s: paused by %q, want %q; events %+v", step.what, m.Delivery.PausedBy, step.paused, events)
			}
		}
		if _, err := s.PauseMonitor(t.Context(), "nobody", windsock.PausedByOperator, ""); err == nil {
			t.Error("a monitor that is not there was paused")
		}
	})
}

func pausing(t *testing.T, s *Store, id string, by windsock.Pause) func() (windsock.Monitor, error) {
	return func() (windsock.Monitor, error) { return s.PauseMonitor(t.Context(), id, by, "since") }
}

func resuming(t *testing.T, s *Store, id string, from windsock.Resume) func() (windsock.Monitor, error) {
	return func() (windsock.Monitor, error) { return s.ResumeMonitor(t.Context(), id, from) }
}

// What was not saved yet when an operator skipped what waits must not bring it back.
func TestProgressOfAnEarlierRoundIsPassedOver(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := registered(t, s)
		save(t, s, windsock.Progress{MonitorID: id, Cursor: 1, Attempts: 3, Failures: 3, Lanes: []windsock.Lane{{Subject: web, FirstSeq: 1}}})
		if _, err := s.ResumeMonitor(t.Context(), id, windsock.Skip); err != nil {
			t.Fatal(err)
		}
		want := windsock.Progress{MonitorID: id, Round: 1, Cursor: s.Head()}
		if diff := cmp.Diff(want, progressOf(t, s, id)); diff != "" {
			t.Errorf("after the skip (-want +got):\n%s", diff)
		}
		save(t, s, windsock.Progress{MonitorID: id, Cursor: s.Head() + 5, Attempts: 4, Lanes: []windsock.Lane{{Subject: db, FirstSeq: 1}}})
		if diff := cmp.Diff(want, progressOf(t, s, id)); diff != "" {
			t.Errorf("after a late save (-want +got):\n%s", diff)
		}
		save(t, s, windsock.Progress{MonitorID: id, Round: 1, Cursor: s.Head() + 5})
		if got := progressOf(t, s, id).Cursor; got != s.Head()+5 {
			t.Errorf("after a save of its own round the cursor is %d", got)
		}
	})
}

func TestResumedWithTheLatest(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		id := registered(t, s)
		for _, paused := range []bool{true, false} {
			if paused {
				if _, err := s.PauseMonitor(t.Context(), id, windsock.PausedByOperator, ""); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.ResumeMonitor(t.Context(), id, windsock.Coalesced); err != nil {
				t.Fatal(err)
			}
			want := windsock.Progress{MonitorID: id, Cursor: 1, LatestTo: s.Head()}
			if diff := cmp.Diff(want, progressOf(t, s, id)); diff != "" {
				t.Errorf("paused %t (-want +got):\n%s", paused, diff)
			}
		}
	})
}

func TestBacklogIsKept(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		for _, backlog := range []windsock.Backlog{windsock.Latest, windsock.Every} {
			m := listening(t, s, 1, windsock.MonitorSpec{Backlog: backlog})
			if m.Backlog != backlog || must[windsock.Monitor](t)(s.Monitor(t.Context(), m.ID)).Backlog != backlog {
				t.Errorf("got %q, want %q", m.Backlog, backlog)
			}
		}
	})
}

func TestEventsOfOneSubject(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "web-1", "web-1", "web-2") // a deployment and an instance of one name
		record(t, s, instanceSaid("web-1", "a", windsock.Failed), instanceSaid("web-2", "a", windsock.Failed))
		record(t, s, instanceSaid("web-1", "a", windsock.Running))
		var types []windsock.EventType
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{Scope: "pool:east", Kind: windsock.KindInstance, Subject: "web-1"})) {
			types = append(types, e.Type)
		}
		if diff := cmp.Diff([]windsock.EventType{windsock.InstanceDeclared, windsock.InstanceState, windsock.InstanceState}, types); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		of := must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{Kind: windsock.KindDeployment, Subject: "web-1"}))
		if len(of) < 2 || of[0].Type != windsock.DeploymentDeclared || of[1].SubjectID != "web-1" || of[1].Kind != windsock.KindDeployment {
			t.Errorf("of the deployment: %+v", of)
		}
	})
}

func TestAnythingAnEventIsAboutMayBeRefused(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := registered(t, s)
		for _, kind := range []windsock.Kind{windsock.KindDeployment, windsock.KindInstance, windsock.KindComponent, windsock.KindProvider, windsock.KindMonitor, windsock.KindLog} {
			save(t, s, windsock.Progress{MonitorID: id, Cursor: 7, Lanes: []windsock.Lane{{Subject: windsock.Subject{Kind: kind, ID: "it"}, FirstSeq: 5}}})
		}
	})
}
