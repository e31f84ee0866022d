package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"windsock"
)

// verdict is what is said of an event as "waiting in_line".
func verdict(t *testing.T, s *Store, id string, seq int64) string {
	t.Helper()
	x := must[windsock.Explanation](t)(s.Explain(t.Context(), id, fmt.Sprint(seq)))
	if x.Seq != seq || x.MonitorID != id || x.EventID != windsock.EventID(s.logID, seq) || x.Text == "" || x.Tries == nil {
		t.Errorf("event %d: %+v", seq, x)
	}
	return fmt.Sprint(x.Verdict, " ", x.Reason)
}

// verdicts checks what is said of events, by their seq.
func verdicts(t *testing.T, s *Store, id string, want map[int64]string) {
	t.Helper()
	got := map[int64]string{}
	for seq := range want {
		got[seq] = verdict(t, s, id, seq)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// turn has an instance fail or come back, and returns the seq of that.
func turn(t *testing.T, s *Store, instance string, to windsock.State) int64 {
	t.Helper()
	return record(t, s, instanceSaid(instance, "nagios", to))[0].EventSeq
}

func TestExplainBeforeAndAfterARestart(t *testing.T) { eachDB(t, explainBeforeAndAfterARestart) }

func explainBeforeAndAfterARestart(t *testing.T, fresh maker) {
	c := &clock{now: noon}
	path := fresh(t)
	s := open(t, path, c)
	declare(t, s, "shop", "web-1", "web-2", "web-3")
	before := turn(t, s, "web-1", windsock.Running)
	id := listening(t, s, 1, windsock.MonitorSpec{Subjects: windsock.OnlyInstances, Detections: windsock.Detections{windsock.FailDetected}}).ID
	taken := turn(t, s, "web-1", windsock.Failed)
	unwanted := turn(t, s, "web-1", windsock.Running)
	refused := turn(t, s, "web-1", windsock.Failed)
	reached(t, s, id, refused)
	behind := turn(t, s, "web-2", windsock.Failed) // is not reached yet
	ahead := turn(t, s, "web-3", windsock.Failed)
	next := turn(t, s, "web-2", windsock.Running)
	last := turn(t, s, "web-2", windsock.Failed)
	web1 := windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}
	save(t, s, windsock.Progress{
		MonitorID: id, Cursor: refused, Ahead: map[windsock.Subject]int64{{Kind: windsock.KindInstance, ID: "web-3"}: ahead},
		Lanes: []windsock.Lane{{Subject: web1, FirstSeq: refused, Attempts: 2, LastError: "HTTP 500"}},
		Tries: []windsock.Try{tried(s, refused, "web-1", windsock.TryRefused), tried(s, refused, "web-1", windsock.TryRefused)},
	})
	want := map[int64]string{
		before:   "passed_over detections",
		taken:    "delivered ",
		unwanted: "passed_over detections",
		refused:  "waiting refused",
		behind:   "waiting in_line",
		ahead:    "delivered ",
		next:     "passed_over detections",
		last:     "waiting in_line",
	}
	check := func() {
		t.Helper()
		verdicts(t, s, id, want)
		if x := must[windsock.Explanation](t)(s.Explain(t.Context(), id, fmt.Sprint(refused))); x.Attempts != 2 || x.LastError != "HTTP 500" || len(x.Tries) != 2 || *x.Before != 0 {
			t.Errorf("the refused one: %+v", x)
		}
		if x := must[windsock.Explanation](t)(s.Explain(t.Context(), id, windsock.EventID(s.logID, last))); x.Before == nil || *x.Before != 2 {
			t.Errorf("the last one: %+v", x)
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, c)
	t.Cleanup(func() { s.Close() })
	check()

	save(t, s, windsock.Progress{MonitorID: id, Cursor: refused, Attempts: 1, LastError: "timeout"})
	if got := verdict(t, s, id, behind); got != "waiting backing_off" {
		t.Errorf("when the monitor is away: %s", got)
	}
	if _, err := s.PauseMonitor(t.Context(), id, windsock.PausedByOperator, ""); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, s, id, behind); got != "waiting paused" {
		t.Errorf("when it is paused: %s", got)
	}
}

func TestExplainWhatWasBeforeTheMonitor(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		before := turn(t, s, "web-1", windsock.Failed)
		id := listening(t, s, 1, windsock.MonitorSpec{}).ID
		after := turn(t, s, "web-1", windsock.Running)
		reached(t, s, id, s.Head())
		verdicts(t, s, id, map[int64]string{before: "passed_over registered", after: "delivered "})
		if got := verdict(t, s, listening(t, s, 2, windsock.MonitorSpec{Scope: "pool:west"}).ID, before); got != "passed_over scope" {
			t.Errorf("in another scope: %s", got)
		}
	})
}

func TestExplainWhatWasSkipped(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2", "web-3")
		id := listening(t, s, 1, windsock.MonitorSpec{}).ID
		refused := turn(t, s, "web-1", windsock.Failed)
		told := turn(t, s, "web-2", windsock.Failed)
		behind := turn(t, s, "web-1", windsock.Running)
		skipped := turn(t, s, "web-2", windsock.Running)
		ahead := turn(t, s, "web-3", windsock.Failed)
		save(t, s, windsock.Progress{
			MonitorID: id, Cursor: behind, Ahead: map[windsock.Subject]int64{{Kind: windsock.KindInstance, ID: "web-3"}: ahead},
			Lanes: []windsock.Lane{{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, FirstSeq: refused, Attempts: 1}},
		})
		if _, err := s.ResumeMonitor(t.Context(), id, windsock.Skip); err != nil {
			t.Fatal(err)
		}
		later := turn(t, s, "web-1", windsock.Failed)
		verdicts(t, s, id, map[int64]string{
			refused: "passed_over skipped", told: "delivered ", behind: "passed_over skipped", skipped: "passed_over skipped",
			ahead: "delivered ", later: "waiting in_line",
		})
	})
}

func TestExplainWhatWasLost(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		away, slow := listening(t, s, 1, windsock.MonitorSpec{}).ID, listening(t, s, 2, windsock.MonitorSpec{}).ID
		flap(t, s, 100)
		reached(t, s, slow, s.Head())
		held := s.Head() + 1
		flap(t, s, 100)
		lost := s.Head() - 60
		pass(t, keep(s, 60)) // what is lost to the one is held by the other
		verdicts(t, s, away, map[int64]string{held: "passed_over lost", lost: "passed_over lost", lost + 1: "waiting in_line"})
		if _, err := s.Explain(t.Context(), away, fmt.Sprint(held-1)); !errors.Is(err, windsock.ErrPruned) {
			t.Errorf("what is gone: %v", err)
		}
		reached(t, s, away, s.Head())
		reached(t, s, slow, s.Head())
		pass(t, keep(s, 10))
		var left int
		if err := s.read.Get(&left, `SELECT count(*) FROM passed`); err != nil || left != 0 {
			t.Errorf("%d are left of what was noted of events that are gone, %v", left, err)
		}
	})
}

func TestExplainWhatOtherWishesDecided(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		spec := windsock.MonitorSpec{Detections: windsock.Detections{windsock.FailDetected}}
		id := listening(t, s, 1, spec).ID
		kept, started := turn(t, s, "web-1", windsock.Failed), turn(t, s, "web-1", windsock.Running)
		failed := turn(t, s, "web-1", windsock.Failed)
		saveTries(t, s, id, tried(s, kept, "web-1", windsock.TryTaken))
		reached(t, s, id, s.Head())
		listening(t, s, 1, spec) // again, with the same wishes
		verdicts(t, s, id, map[int64]string{kept: "delivered ", started: "passed_over detections", failed: "delivered "})
		waiting := turn(t, s, "web-1", windsock.Running)
		spec.Detections = windsock.Detections{windsock.StartDetected}
		listening(t, s, 1, spec)
		verdicts(t, s, id, map[int64]string{kept: "delivered ", started: "unknown wishes", failed: "unknown wishes", waiting: "waiting in_line"})
		turn(t, s, "web-1", windsock.Failed)
		after := turn(t, s, "web-1", windsock.Running)
		reached(t, s, id, s.Head())
		verdicts(t, s, id, map[int64]string{after - 1: "passed_over detections", after: "delivered "})
	})
}

func TestExplainWhatIsNot(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		id := registered(t, s)
		for name, err := range map[string]error{
			"":                                windsock.Invalid("event", ""),
			"yesterday":                       windsock.Invalid("event", ""),
			fmt.Sprint(s.Head() + 1):          windsock.ErrNotFound,
			windsock.EventID("other", 1):      windsock.ErrNotFound,
			windsock.EventID(s.logID, 999999): windsock.ErrNotFound,
		} {
			_, got := s.Explain(t.Context(), id, name)
			if fault := (*windsock.FieldError)(nil); !errors.Is(got, err) && (!errors.As(got, &fault) || !errors.As(err, &fault)) {
				t.Errorf("%q: %v, want %v", name, got, err)
			}
		}
		if _, err := s.Explain(t.Context(), "nobody", "1"); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("to nobody: %v", err)
		}
	})
}

// What would take long to count is not.
func TestExplainCountsNoMoreThanItMay(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		id := registered(t, s)
		target := must[windsock.Target](t)(s.Target(t.Context(), id))
		for distance, counted := range map[int64]bool{countStep: true, countStep + 1: false} {
			n, err := s.before(t.Context(), &target, &windsock.Event{Seq: target.Cursor + distance})
			if err != nil || (n != nil) != counted {
				t.Errorf("%d events away: %v, %v", distance, n, err)
			}
		}
	})
}

// Monitors that were there before anything was noted of them are explained as far as that
// is known.
func TestExplainToMonitorsOfBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	db := must[*sqlx.DB](t)(connect(writerDSN(path), 1))
	files := must[fs.FS](t)(fs.Sub(migrations, "migrations/sqlite"))
	p := must[*goose.Provider](t)(goose.NewProvider(goose.DialectSQLite3, db.DB, files))
	must[[]*goose.MigrationResult](t)(p.UpTo(t.Context(), 6))
	db.MustExec(`INSERT INTO log (one, id, head, alive_at) VALUES (1, 'old', 4, 1)`)
	for seq, e := range []windsock.Event{
		{Type: windsock.DeploymentState, Kind: windsock.KindDeployment, SubjectID: "shop", Word: windsock.FailDetected},
		{Type: windsock.MonitorAdded, Kind: windsock.KindMonitor, SubjectID: "same"},
		{Type: windsock.MonitorAdded, Kind: windsock.KindMonitor, SubjectID: "changed"},
		{Type: windsock.DeploymentState, Kind: windsock.KindDeployment, SubjectID: "shop", Word: windsock.StartDetected},
	} {
		db.MustExec(`INSERT INTO events VALUES (?, ?, ?, ?, ?, '', '', '', ?, '', '', '', '', '', 0, '{}')`,
			seq+1, 1000*(seq+1), string(e.Type), string(e.Kind), e.SubjectID, string(e.Word))
	}
	const monitor = `INSERT INTO monitors (id, name, scheme, address, port, path, scope, detections, subjects, echo, secret, cursor, created_at, updated_at)
		VALUES (?, '', 'http', '10.0.0.1', ?, '', 'global', '[]', 'both', 0, '', 4, ?, ?)`
	db.MustExec(monitor, "same", 1, 2000, 2000)
	db.MustExec(`UPDATE monitors SET format = 'batch'`)
	db.MustExec(monitor, "changed", 2, 500, 3000) // what says that it was added is no longer in the log
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, &clock{now: noon})
	t.Cleanup(func() { s.Close() })
	verdicts(t, s, "same", map[int64]string{1: "passed_over registered", 4: "delivered "})
	verdicts(t, s, "changed", map[int64]string{1: "unknown wishes", 4: "unknown wishes"})
	for id, want := range map[string]windsock.Format{"same": windsock.Batch, "changed": windsock.Seed} {
		if got := must[windsock.Target](t)(s.Target(t.Context(), id)); got.Format != want {
			t.Errorf("%s is told as %q, want %q", id, got.Format, want)
		}
	}
}

// What an operator had a monitor skip, and then told again after all, was not skipped.
func TestWhatIsToldAgainWasNotSkipped(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{Scope: "instance:web-1"})
		first := s.Head() + 1
		flap(t, s, 40)
		if _, err := s.ResumeMonitor(t.Context(), m.ID, windsock.Skip); err != nil {
			t.Fatal(err)
		}
		part := windsock.Range{First: first + 10, Last: first + 20}
		replay(t, s, m.ID, windsock.ReplaySpec{Range: part})
		whys := func() map[windsock.Reason]bool {
			t.Helper()
			found := map[windsock.Reason]bool{}
			for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), part.First-1, 10, windsock.EventFilter{Scope: m.Scope})) {
				if e.Seq <= part.Last && m.Wants(&e) {
					x := must[windsock.Explanation](t)(s.Explain(t.Context(), m.ID, e.ID))
					found[windsock.Reason(x.Verdict)+"/"+x.Reason] = true
				}
			}
			return found
		}
		if got := whys(); len(got) != 1 || !got["waiting/in_line"] {
			t.Errorf("of what is to be told again it says %v", got)
		}
		save(t, s, windsock.Progress{MonitorID: m.ID, Round: progressOf(t, s, m.ID).Round, Cursor: s.Head()})
		if got := whys(); len(got) != 1 || !got["delivered/"] {
			t.Errorf("of what was told again it says %v", got)
		}
		for _, seq := range []int64{part.First - 2, part.First - 1, part.Last + 1, part.Last + 2} {
			e := must[[]windsock.Event](t)(s.Events(t.Context(), seq-1, 1, windsock.EventFilter{}))[0]
			if x := must[windsock.Explanation](t)(s.Explain(t.Context(), m.ID, e.ID)); e.Kind == windsock.KindInstance && x.Reason != windsock.ReasonSkipped {
				t.Errorf("of what was skipped it says %+v", x)
			}
		}
	})
}

// A batch has not in it what lies between its first and its last and was not wanted.
func TestABatchSaysNothingOfWhatWasNotInIt(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		m := listening(t, s, 1, windsock.MonitorSpec{Subjects: windsock.OnlyInstances, Format: windsock.Batch})
		first := s.Head() + 1
		flap(t, s, 40)
		save(t, s, windsock.Progress{MonitorID: m.ID, Cursor: s.Head(), Tries: []windsock.Try{{
			BegunAt: noon, Seq: first, LastSeq: s.Head(), Events: 20, Result: windsock.TryTaken, TryData: windsock.TryData{Attempt: 1},
		}}})
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), first-1, 100, windsock.EventFilter{})) {
			x := must[windsock.Explanation](t)(s.Explain(t.Context(), m.ID, e.ID))
			if want := map[windsock.Kind]windsock.Fate{windsock.KindInstance: windsock.Delivered, windsock.KindDeployment: windsock.PassedOver}[e.Kind]; x.Verdict != want {
				t.Errorf("of the %s it says %+v", e.Kind, x)
			}
		}
	})
}
