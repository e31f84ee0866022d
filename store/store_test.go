package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
	"windsock/test/postgres"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// A clock is set by the test and goes on by a millisecond each time it is read, so that
// no two things happen at once.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T, db string, c *clock) *Store {
	t.Helper()
	s, err := Open(t.Context(), db, Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// each runs a test on every kind of database.
func each(t *testing.T, test func(t *testing.T, s *Store, c *clock)) {
	eachDB(t, func(t *testing.T, fresh maker) { withStore(t, fresh, test) })
}

// onlySQLite runs a test of what only SQLite has.
func onlySQLite(t *testing.T, test func(t *testing.T, s *Store, c *clock)) {
	withStore(t, freshFile, test)
}

func withStore(t *testing.T, fresh maker, test func(t *testing.T, s *Store, c *clock)) {
	c := &clock{now: noon}
	s := open(t, fresh(t), c)
	t.Cleanup(func() { s.Close() })
	test(t, s, c)
}

// A maker makes an empty database, and returns its name.
type maker func(t testing.TB) string

func freshFile(t testing.TB) string { return filepath.Join(t.TempDir(), "a b?c%.db") }

// eachDB runs a test with makers of every kind of database.
func eachDB(t *testing.T, test func(t *testing.T, fresh maker)) {
	t.Run("sqlite", func(t *testing.T) { test(t, freshFile) })
	t.Run("postgres", func(t *testing.T) { test(t, postgres.Schema) })
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// declare puts a deployment with members of these ids.
func declare(t *testing.T, s *Store, deployment string, instances ...string) {
	t.Helper()
	if _, _, err := s.PutDeployment(t.Context(), windsock.DeploymentSpec{ID: deployment, Pool: "east", Flap: "off", Metadata: map[string]string{"team": "blue"}}, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range instances {
		if _, _, err := s.PutInstance(t.Context(), windsock.InstanceSpec{ID: id, DeploymentID: deployment}, windsock.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
}

func said(kind windsock.Kind, id, source string, state windsock.State) windsock.Observation {
	return windsock.Observation{
		Subject: windsock.Subject{Kind: kind, ID: id}, Source: source, Origin: windsock.FromMonitor, State: state, Reason: source + " says " + string(state),
	}
}

func instanceSaid(id, source string, state windsock.State) windsock.Observation {
	return said(windsock.KindInstance, id, source, state)
}

func record(t *testing.T, s *Store, obs ...windsock.Observation) []windsock.Outcome {
	t.Helper()
	return must[[]windsock.Outcome](t)(s.Record(t.Context(), obs))
}

// told lists the state events after a seq as "kind id previous>state".
func told(t *testing.T, s *Store, after int64) (list []string) {
	t.Helper()
	for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), after, 10000, windsock.EventFilter{})) {
		if e.Type == windsock.InstanceState || e.Type == windsock.DeploymentState {
			list = append(list, fmt.Sprintf("%s %s %s>%s", e.Kind, e.SubjectID, e.Previous, e.State))
		}
	}
	return list
}

func TestEveryConnectionHasItsOptions(t *testing.T) {
	onlySQLite(t, func(t *testing.T, s *Store, _ *clock) {
		want := map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "1"}
		for pragma, value := range want {
			var got string
			if err := s.write.Get(&got, "PRAGMA "+pragma); err != nil || got != value {
				t.Errorf("writer: %s is %q (%v), want %q", pragma, got, err, value)
			}
		}
		conns := make([]interface{ Close() error }, readers)
		for i := range conns {
			c, err := s.read.Connx(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns[i] = c
			var got string
			if err := c.GetContext(t.Context(), &got, "PRAGMA query_only"); err != nil || got != "1" {
				t.Errorf("reader %d: query_only is %q (%v)", i, got, err)
			}
		}
		for _, c := range conns {
			c.Close()
		}
	})
}

func TestRecordTellsWhatChanged(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		before := s.Head()
		for _, step := range []struct {
			obs     windsock.Observation
			changed bool
			told    string
		}{
			{instanceSaid("web-1", "a", windsock.Running), true, "instance web-1 unknown>running"},
			{instanceSaid("web-2", "a", windsock.Running), true, "instance web-2 unknown>running, deployment shop unknown>running"},
			{instanceSaid("web-2", "b", windsock.Running), false, ""},
			{instanceSaid("web-2", "a", windsock.Failed), true, "instance web-2 running>failed, deployment shop running>degraded"},
			{instanceSaid("web-2", "a", windsock.Failed), false, ""},
			{instanceSaid("web-1", "a", windsock.Stopped), true, "instance web-1 running>stopped, deployment shop degraded>failed"},
			{instanceSaid("web-2", "b", windsock.Running), false, ""}, // a still says failed
			{instanceSaid("web-2", "a", windsock.Running), true, "instance web-2 failed>running, deployment shop failed>degraded"},
			{instanceSaid("web-1", "a", windsock.Running), true, "instance web-1 stopped>running, deployment shop degraded>running"},
			{said(windsock.KindDeployment, "shop", "a", windsock.Failed), true, "deployment shop running>failed"},
			{said(windsock.KindDeployment, "shop", "a", windsock.Running), true, "deployment shop failed>running"},
		} {
			out := record(t, s, step.obs)[0]
			if out.Err != nil || out.Changed != step.changed || (out.EventSeq != 0) != step.changed {
				t.Errorf("%s: %+v, want changed %v", step.obs.Reason, out, step.changed)
			}
			if got := strings.Join(told(t, s, before), ", "); got != step.told {
				t.Errorf("%s of %s: told %q, want %q", step.obs.Reason, step.obs.Subject.ID, got, step.told)
			}
			if out.Changed {
				e := must[[]windsock.Event](t)(s.Events(t.Context(), out.EventSeq-1, 1, windsock.EventFilter{}))[0]
				if e.Seq != out.EventSeq || e.SubjectID != step.obs.Subject.ID || e.State != out.State || e.Source != step.obs.Source || e.Metadata["team"] != "blue" || e.Pool != "east" {
					t.Errorf("%s: event %+v", step.obs.Reason, e)
				}
			}
			before = s.Head()
		}
	})
}

func TestOneBadObservationHidesNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop")
		for _, id := range []string{"one", "two", "three"} {
			if _, _, err := s.PutInstance(t.Context(), windsock.InstanceSpec{ID: id, DeploymentID: "shop", ProviderID: map[string]string{"one": "p-1", "two": "twin", "three": "twin"}[id]}, windsock.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
		out := record(t, s,
			instanceSaid("nobody", "a", windsock.Failed), instanceSaid("p-1", "a", windsock.Failed),
			instanceSaid("twin", "a", windsock.Failed), instanceSaid("two", "a", windsock.Failed))
		if !errors.Is(out[0].Err, windsock.ErrNotFound) || !errors.Is(out[2].Err, windsock.ErrConflict) {
			t.Errorf("unknown: %v, ambiguous: %v", out[0].Err, out[2].Err)
		}
		if out[1].Err != nil || out[1].Subject.ID != "one" || !out[1].Changed || !out[3].Changed {
			t.Errorf("by the provider's id: %+v; beside bad ones: %+v", out[1], out[3])
		}
	})
}

func TestSourcesAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		for n := range maxSources {
			if out := record(t, s, instanceSaid("web-1", fmt.Sprint("source", n), windsock.Running)); out[0].Err != nil {
				t.Fatalf("source %d: %v", n, out[0].Err)
			}
		}
		if out := record(t, s, instanceSaid("web-1", "one too many", windsock.Failed)); !errors.Is(out[0].Err, windsock.ErrTooMany) {
			t.Errorf("one too many: %+v", out[0])
		}
		if out := record(t, s, instanceSaid("web-1", "source3", windsock.Failed)); !out[0].Changed {
			t.Errorf("one that was heard before is heard no more: %+v", out[0])
		}
	})
}

// A commit of many records must leave what as many commits of one would have left.
func TestGroupCommitIsInvisible(t *testing.T) { eachDB(t, groupCommitIsInvisible) }

func groupCommitIsInvisible(t *testing.T, fresh maker) {
	for seed := range uint64(20) {
		run := func(grouped bool) (list []string) {
			c := &clock{now: noon}
			s := open(t, fresh(t), c)
			defer s.Close()
			declare(t, s, "shop", "web-0", "web-1", "web-2")
			declare(t, s, "bank", "db-0")
			before := s.Head()
			r := rand.New(rand.NewPCG(seed, 0))
			var ops []*op
			for range 40 {
				id := []string{"web-0", "web-1", "web-2", "db-0"}[r.IntN(4)]
				state := []windsock.State{windsock.Running, windsock.Failed, windsock.Stopped}[r.IntN(3)]
				ops = append(ops, &op{ctx: t.Context(), now: c.Now().Truncate(time.Microsecond), turn: make(chan bool, 1), obs: []windsock.Observation{instanceSaid(id, string(rune('a'+r.IntN(2))), state)}})
			}
			if grouped {
				s.commit(ops)
			} else {
				for _, o := range ops {
					s.commit([]*op{o})
				}
			}
			for i, o := range ops {
				if o.err != nil || len(o.out) != 1 {
					t.Fatalf("seed %d: op %d: %v %+v", seed, i, o.err, o.out)
				}
				list = append(list, fmt.Sprintf("outcome %+v", o.out[0]))
			}
			for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), before, 10000, windsock.EventFilter{})) {
				e.ID = ""
				list = append(list, fmt.Sprintf("%+v", e))
			}
			for _, i := range must[[]windsock.Instance](t)(s.Instances(t.Context(), windsock.Filter{Limit: 10})) {
				list = append(list, fmt.Sprintf("%+v", must[windsock.Instance](t)(s.Instance(t.Context(), i.ID))))
			}
			for _, d := range must[[]windsock.Deployment](t)(s.Deployments(t.Context(), windsock.Filter{Limit: 10})) {
				list = append(list, fmt.Sprintf("%+v", d))
			}
			return list
		}
		if diff := cmp.Diff(run(false), run(true)); diff != "" {
			t.Fatalf("seed %d: one by one (-) and at once (+):\n%s", seed, diff)
		}
	}
}

// Whatever is declared, moved, removed and reported, the counts that are kept are those
// of a recount, and the state of a deployment is what follows from them.
func TestTalliesEqualARecount(t *testing.T) { eachDB(t, talliesEqualARecount) }

func talliesEqualARecount(t *testing.T, fresh maker) {
	for seed := range uint64(15) {
		c := &clock{now: noon}
		s := open(t, fresh(t), c)
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(list ...string) string { return list[r.IntN(len(list))] }
		for step := range 120 {
			id, of := pick("i1", "i2", "i3", "i4", "i5"), pick("d1", "d2")
			var err error
			switch r.IntN(10) {
			case 0:
				spec := windsock.DeploymentSpec{ID: of, Quorum: 1 + r.IntN(2), Rule: windsock.Rule(pick("all", "any", "min:2")), Expected: windsock.State(pick("running", "running", "stopped"))}
				_, _, err = s.PutDeployment(t.Context(), spec, windsock.Cond{})
			case 1, 2:
				_, _, err = s.PutInstance(t.Context(), windsock.InstanceSpec{ID: id, DeploymentID: of, Expected: windsock.State(pick("running", "running", "stopped"))}, windsock.Cond{})
			case 3:
				err = s.DeleteInstance(t.Context(), id, windsock.Cond{})
			case 4:
				if r.IntN(4) == 0 {
					err = s.DeleteDeployment(t.Context(), of, windsock.Cond{})
				}
			case 5:
				err = s.ClearEvidence(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id}, pick("a", "b"))
			default:
				o := instanceSaid(id, pick("a", "b"), windsock.State(pick("running", "failed", "stopped")))
				o.Requested, o.TTL = r.IntN(4) == 0, time.Duration(r.IntN(3))*time.Minute
				_, err = s.Record(t.Context(), []windsock.Observation{o})
			}
			var invalid *windsock.FieldError
			if err != nil && !errors.Is(err, windsock.ErrNotFound) && !errors.As(err, &invalid) {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if r.IntN(10) == 0 {
				c.advance(time.Minute)
				if err := s.settle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			recount(t, s, c, fmt.Sprintf("seed %d step %d", seed, step))
		}
		s.Close()
	}
}

func recount(t *testing.T, s *Store, c *clock, when string) {
	t.Helper()
	type row struct {
		D string `db:"deployment_id"`
		E string `db:"expected"`
		S string `db:"state"`
		N int    `db:"n"`
	}
	var kept, counted []row
	var tallies []deploymentRow
	r := reader{t.Context(), s.read}
	if err := errors.Join(
		r.query(&tallies, `SELECT id, tally FROM deployments`),
		r.query(&counted, `SELECT deployment_id, counts_as AS expected, state, count(*) AS n FROM instances GROUP BY 1, 2, 3`),
	); err != nil {
		t.Fatal(err)
	}
	for _, d := range tallies {
		for m, n := range tallyOf(d.Tally) {
			kept = append(kept, row{d.ID, string(m.Expected), string(m.State), n})
		}
	}
	for _, rows := range [][]row{kept, counted} {
		slices.SortFunc(rows, func(a, b row) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if diff := cmp.Diff(counted, kept); diff != "" {
		t.Fatalf("%s: counted (-) and kept (+):\n%s", when, diff)
	}
	err := s.do(context.Background(), func(tx *tx) error {
		var ids []string
		tx.all(&ids, `SELECT id FROM deployments`)
		w := tx.work()
		w.loadDeployments(ids)
		tx.at(&op{now: tx.now.Add(-time.Second)}) // before any deadline that is not settled yet
		for _, d := range w.deployments {
			v := windsock.Merge(d.evidence, d.Quorum, tx.now)
			if state, _ := windsock.Rollup(v, windsock.State(d.Expected), d.tally, windsock.Rule(d.Rule)); string(state) != d.State {
				t.Errorf("%s: deployment %s is kept as %s, its members %v make it %s", when, d.ID, d.State, d.tally, state)
			}
		}
		return tx.err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEventNamesTheFailing(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1", "web-2", "web-3")
		record(t, s, instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-2", "a", windsock.Running), instanceSaid("web-3", "a", windsock.Running))
		before := s.Head()
		record(t, s, instanceSaid("web-3", "a", windsock.Failed))
		record(t, s, instanceSaid("web-3", "a", windsock.Running))
		record(t, s, instanceSaid("web-1", "a", windsock.Failed), instanceSaid("web-2", "a", windsock.Stopped))
		record(t, s, instanceSaid("web-3", "a", windsock.Failed))
		var got []string
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), before, 100, windsock.EventFilter{Kind: windsock.KindDeployment})) {
			got = append(got, fmt.Sprintf("%s %s %v %s", e.Word, e.State, e.Instances, e.Source))
		}
		want := []string{
			"FAIL DETECTED degraded [web-3] rollup", "START DETECTED running [] rollup",
			"FAIL DETECTED degraded [web-1 web-2] rollup", "FAIL DETECTED failed [web-1 web-2 web-3] rollup",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Who takes back his own report is the source of the recovery, also when others have the
// last word on it; but not of what he did not say.
func TestTheOneWhoSpokeIsTheSource(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		probe := windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, Source: "probe", Origin: windsock.FromProbe, State: windsock.Running}
		early := instanceSaid("web-1", "a", windsock.Running)
		record(t, s, instanceSaid("web-1", "a", windsock.Failed), said(windsock.KindDeployment, "shop", "b", windsock.Failed))
		i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1"))
		early.ObservedAt = i.Evidence[0].ObservedAt.Add(time.Microsecond)
		record(t, s, probe)
		before := s.Head()
		record(t, s, early)
		record(t, s, said(windsock.KindDeployment, "shop", "b", windsock.Running))
		record(t, s, said(windsock.KindDeployment, "shop", "b", windsock.Failed), instanceSaid("web-1", "a", windsock.Failed))
		record(t, s, said(windsock.KindDeployment, "shop", "b", windsock.Running))
		var got []string
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), before, 100, windsock.EventFilter{})) {
			got = append(got, fmt.Sprintf("%s %s by %s", e.SubjectID, e.State, e.Source))
		}
		want := []string{"web-1 running by a", "shop running by b", "web-1 failed by a", "shop failed by b"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPromisesRunOutOnceAndToUnknown(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		start, fail := instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-2", "a", windsock.Failed)
		start.TTL, fail.TTL = time.Minute, 2*time.Minute
		record(t, s, start, fail)
		before := s.Head()
		for range 4 {
			c.advance(time.Minute)
			if err := s.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"instance web-1 running>unknown", "instance web-2 failed>unknown", "deployment shop degraded>unknown"}
		if diff := cmp.Diff(want, told(t, s, before)); diff != "" {
			t.Error(diff)
		}
		i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1"))
		if i.State != windsock.Unknown || !strings.Contains(i.Reason, "nothing more was heard from a") {
			t.Errorf("%s because %q", i.State, i.Reason)
		}
	})
}

// The clock finds what is due by itself, also what was declared due while it waited, and
// what is due since a start before.
func TestClockSettlesWhatIsDue(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1", "web-2")
		late, soon := instanceSaid("web-1", "a", windsock.Running), instanceSaid("web-2", "a", windsock.Running)
		late.TTL, soon.TTL = time.Hour, time.Minute
		record(t, s, late)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		record(t, s, soon)
		before := s.Head()
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{time.Minute, "instance web-2 running>unknown"}, {time.Hour, "instance web-1 running>unknown"}} {
			c.advance(step.wait)
			for deadline := time.Now().Add(30 * time.Second); !slices.Contains(told(t, s, before), step.want); {
				if time.Now().After(deadline) {
					t.Fatalf("%s later: told %v, want %s", step.wait, told(t, s, before), step.want)
				}
				s.Wait(t.Context(), before)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestBlindProbeTurnsStaleAndBack(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1")
		probe := func(state windsock.State, reason string) windsock.Observation {
			return windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, Source: "probe", Origin: windsock.FromProbe, State: state, Reason: reason, Promise: 30 * time.Second}
		}
		record(t, s, probe(windsock.Running, "ok"))
		before := s.Head()
		for range 10 {
			record(t, s, probe(windsock.Unknown, "no such host"))
			c.advance(10 * time.Second)
			if err := s.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1"))
		if i.State != windsock.Running || !i.Stale || i.Evidence[0].BlindFor != "no such host" {
			t.Errorf("blind for 100 s: %+v", i)
		}
		record(t, s, probe(windsock.Running, "ok"))
		if i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")); i.Stale || i.State != windsock.Running {
			t.Errorf("it sees again: %+v", i)
		}
		var types []windsock.EventType
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), before, 100, windsock.EventFilter{})) {
			types = append(types, e.Type)
		}
		if diff := cmp.Diff([]windsock.EventType{windsock.InstanceFlags, windsock.InstanceFlags}, types); diff != "" {
			t.Error(diff)
		}
	})
}

// What a probe sees again costs no write, yet has the last word over an older report.
func TestUnchangedProbeWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		probe := windsock.Observation{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, Source: "probe", Origin: windsock.FromProbe, State: windsock.Running}
		record(t, s, probe)
		for range 10 {
			o := &op{ctx: t.Context(), now: s.now(), obs: []windsock.Observation{probe}}
			if written, err := s.transact([]*op{o}); written || err != nil || o.err != nil {
				t.Errorf("an unchanged look: written is %v (%v, %v)", written, err, o.err)
			}
		}
		record(t, s, instanceSaid("web-1", "a", windsock.Stopped))
		if out := record(t, s, probe)[0]; !out.Changed || out.State != windsock.Running {
			t.Errorf("a look after a STOP: %+v, want running: it is the newer statement", out)
		}
	})
}

func TestRestartSaysNothing(t *testing.T) { eachDB(t, restartSaysNothing) }

func restartSaysNothing(t *testing.T, fresh maker) {
	path, c := fresh(t), &clock{now: noon}
	s := open(t, path, c)
	declare(t, s, "shop", "web-1", "web-2")
	o := instanceSaid("web-1", "a", windsock.Running)
	o.TTL = 10 * time.Minute
	record(t, s, o, instanceSaid("web-2", "a", windsock.Failed))
	head := s.Head()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Hour) // a down time six times the promise
	s = open(t, path, c)
	defer s.Close()
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Head() != head {
		t.Errorf("a restart told %v", told(t, s, head))
	}
	if i := must[windsock.Instance](t)(s.Instance(t.Context(), "web-2")); i.State != windsock.Failed {
		t.Errorf("web-2 is %s after the restart, was failed", i.State)
	}
	c.advance(11 * time.Minute) // and now it had its time
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := told(t, s, head); len(got) == 0 || got[0] != "instance web-1 running>unknown" {
		t.Errorf("after the promise ran out: told %v", got)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		path, c := fresh(t), &clock{now: noon}
		s := open(t, path, c)
		s.write.MustExec(`INSERT INTO goose_db_version (version_id, is_applied) SELECT 9999, is_applied FROM goose_db_version WHERE version_id = 0`)
		s.Close()
		_, err := Open(t.Context(), path, Options{})
		if err == nil || !strings.Contains(err.Error(), "9999") || !strings.Contains(err.Error(), Redacted(path)) {
			t.Errorf("Open: %v, want a refusal that names the version and the database", err)
		}
	})
}

func TestWhatIsNoDatabaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, dir, filepath.Join(dir, "no", "such", "folder.db")} {
		if _, err := Open(t.Context(), p, Options{}); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("Open(%s): %v, want an error that names it", p, err)
		}
	}
}

// Many writers at once: none is refused, and every answer is true.
func TestManyWriters(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		const writers, each = 50, 40
		for n := range writers {
			declare(t, s, fmt.Sprint("d", n%5), fmt.Sprint("i", n))
		}
		before := s.Head()
		var wg sync.WaitGroup
		for n := range writers {
			wg.Go(func() {
				for k := range each {
					state := []windsock.State{windsock.Failed, windsock.Running}[k%2]
					out, err := s.Record(t.Context(), []windsock.Observation{instanceSaid(fmt.Sprint("i", n), "a", state)})
					if err != nil || out[0].Err != nil || !out[0].Changed || out[0].State != state {
						t.Errorf("writer %d, report %d: %+v %v", n, k, out, err)
						return
					}
				}
			})
		}
		wg.Wait()
		last := map[string]int64{}
		count := 0
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), before, 1<<20, windsock.EventFilter{Kind: windsock.KindInstance})) {
			if e.Seq <= last[e.SubjectID] {
				t.Errorf("event %d of %s after %d", e.Seq, e.SubjectID, last[e.SubjectID])
			}
			last[e.SubjectID] = e.Seq
			count++
		}
		if count != writers*each {
			t.Errorf("%d events, want %d", count, writers*each)
		}
	})
}

func TestAFailingWriteConcernsNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		declare(t, s, "shop", "web-1")
		before := s.Head()
		newOp := func(do func(*tx) error, obs ...windsock.Observation) *op {
			return &op{ctx: t.Context(), now: c.Now(), do: do, obs: obs, turn: make(chan bool, 1)}
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		ops := []*op{
			newOp(nil, instanceSaid("web-1", "a", windsock.Failed)),
			newOp(func(t *tx) error {
				t.log(&windsock.Event{Type: windsock.MonitorAdded, Kind: windsock.KindMonitor, SubjectID: "kept by mistake"})
				return errors.New("changed my mind")
			}),
			newOp(func(t *tx) error { t.exec(`INSERT INTO nosuch VALUES (1)`); return t.err }),
			newOp(func(*tx) error { panic("oops") }),
			{ctx: left, now: c.Now(), obs: []windsock.Observation{instanceSaid("web-1", "b", windsock.Failed)}, turn: make(chan bool, 1)},
			newOp(nil, instanceSaid("web-1", "a", windsock.Running)),
		}
		s.commit(ops)
		for i, want := range []string{"", "changed my mind", "nosuch", "oops", "canceled", ""} {
			switch err := ops[i].err; {
			case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("op %d: %v, want %q", i, err, want)
			}
		}
		events := must[[]windsock.Event](t)(s.Events(t.Context(), before, 100, windsock.EventFilter{}))
		for i, e := range events {
			if e.Seq != before+int64(i)+1 || e.SubjectID == "kept by mistake" {
				t.Errorf("event %+v at place %d after %d", e, i, before)
			}
		}
		if len(events) != 4 { // failed, running, and the deployment with it
			t.Errorf("%d events", len(events))
		}
	})
}

// No room: nothing is acknowledged that is not kept, and it goes on when there is room.
func TestNoRoomOnTheDisk(t *testing.T) {
	onlySQLite(t, func(t *testing.T, s *Store, _ *clock) {
		declare(t, s, "shop", "web-1")
		limit := func(pages int) {
			if _, err := s.write.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
				t.Fatal(err)
			}
		}
		limit(1) // no page more than there are
		kept, refused := 0, 0
		state := windsock.Running
		for range 300 {
			state = map[windsock.State]windsock.State{windsock.Running: windsock.Failed, windsock.Failed: windsock.Running}[state]
			o := instanceSaid("web-1", "a", state)
			o.Reason = strings.Repeat("x", 500)
			switch out, err := s.Record(t.Context(), []windsock.Observation{o}); {
			case errors.Is(err, windsock.ErrUnavailable):
				refused++
			case err != nil:
				t.Fatal(err)
			case out[0].Changed:
				kept++
			}
		}
		if refused == 0 || kept == 0 {
			t.Fatalf("%d kept, %d refused: the limit was not met", kept, refused)
		}
		if n := len(must[[]windsock.Event](t)(s.Events(t.Context(), 0, 1000, windsock.EventFilter{Scope: "instance:web-1", Type: windsock.InstanceState}))); n != kept {
			t.Errorf("%d changes acknowledged, %d in the log", kept, n)
		}
		limit(1 << 20)
		was := must[windsock.Instance](t)(s.Instance(t.Context(), "web-1")).State
		next := map[windsock.State]windsock.State{windsock.Running: windsock.Failed, windsock.Failed: windsock.Running}[was]
		if out := record(t, s, instanceSaid("web-1", "a", next))[0]; !out.Changed {
			t.Errorf("with room again: %+v", out)
		}
	})
}
