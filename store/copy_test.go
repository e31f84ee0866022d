package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
	"windsock/test/postgres"
)

// lived has something in every table.
func lived(t *testing.T, db string) (monitor string) {
	t.Helper()
	c := &clock{now: noon}
	s := open(t, db, c)
	defer s.Close()
	declare(t, s, "shop", "web-1", "web-2")
	monitor = listening(t, s, 9001, windsock.MonitorSpec{}).ID
	var last int64
	for k := range 6 {
		o := instanceSaid("web-1", "nagios", alternate(k))
		o.Reason = "Grüße\x00, 'quoted' \\ and\nbroken"
		last = record(t, s, o)[0].EventSeq
		c.advance(time.Minute)
	}
	save(t, s, windsock.Progress{
		MonitorID: monitor, Cursor: last - 1,
		Lanes: []windsock.Lane{{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "web-1"}, FirstSeq: last - 1, Attempts: 3}},
		Tries: []windsock.Try{{Seq: last, LastSeq: last, Events: 1, Result: windsock.TryRefused, BegunAt: c.Now()}},
	})
	if err := s.SaveProvider(t.Context(), windsock.ProviderStatus{ID: "east", Kind: "openstack", CompleteAt: c.Now(), Every: windsock.Duration(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	return monitor
}

func copied(t *testing.T, from, to string) (list []Copied) {
	t.Helper()
	if err := Copy(t.Context(), from, to, func(c Copied) { list = append(list, c) }); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b Copied) int { return strings.Compare(a.Table, b.Table) })
	return list
}

// What was copied from one kind of database to the other, and back, is what it was: the
// cursors and the ids of events, too.
func TestCopyThereAndBack(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		other := map[string]maker{"sqlite": postgres.Schema, "postgres": freshFile}[filepath.Base(t.Name())]
		first, second, third := fresh(t), other(t), fresh(t)
		monitor := lived(t, first)
		there, back := copied(t, first, second), copied(t, second, third)
		if diff := cmp.Diff(there, back); diff != "" {
			t.Errorf("there (-) and back (+):\n%s", diff)
		}
		for _, table := range []string{"deployments", "events", "evidence", "instances", "lanes", "log", "monitors", "passed", "providers", "spans", "tries"} {
			if !slices.ContainsFunc(there, func(c Copied) bool { return c.Table == table && c.Rows > 0 }) {
				t.Errorf("there is nothing in %s", table)
			}
		}
		type kept struct {
			Log    string
			Target windsock.Target
			Events []windsock.Event
			Tries  windsock.Tries
		}
		look := func(db string) kept {
			s := open(t, db, &clock{now: noon.Add(time.Hour)})
			defer s.Close()
			k := kept{
				s.LogID(), must[windsock.Target](t)(s.Target(t.Context(), monitor)),
				must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{})),
				must[windsock.Tries](t)(s.Tries(t.Context(), monitor, windsock.TryFilter{Limit: 10})),
			}
			if out := record(t, s, instanceSaid("web-1", "nagios", windsock.Suspended))[0]; out.EventSeq <= k.Events[len(k.Events)-1].Seq {
				t.Errorf("it goes on with %+v", out)
			}
			save(t, s, windsock.Progress{MonitorID: monitor, Cursor: k.Target.Cursor, Tries: []windsock.Try{{Events: 1, Result: windsock.TryTaken}}})
			if tries := must[windsock.Tries](t)(s.Tries(t.Context(), monitor, windsock.TryFilter{Limit: 1})); tries.List[0].ID <= k.Tries.List[0].ID {
				t.Errorf("the next try is %d after %d", tries.List[0].ID, k.Tries.List[0].ID)
			}
			return k
		}
		want := look(second) // which cannot hold a NUL, if it is PostgreSQL
		if diff := cmp.Diff(want, look(third)); diff != "" {
			t.Error(diff)
		}
		if got := look(first); got.Log != want.Log || got.Target.Cursor != want.Target.Cursor || len(got.Events) != len(want.Events) {
			t.Errorf("copied: %+v, want %+v", want, got)
		}
	})
}

// A component whose token was handed out before can still signal.
func TestCopyKeepsSignalTokens(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		other := map[string]maker{"sqlite": postgres.Schema, "postgres": freshFile}[filepath.Base(t.Name())]
		key := func(db string) string {
			s := must[*Store](t)(Open(t.Context(), db, Options{Planner: planner{}}))
			defer s.Close()
			return string(s.Key)
		}
		first, second, third := fresh(t), other(t), fresh(t)
		want := key(first)
		copied(t, first, second)
		copied(t, second, third)
		if len(want) != keySize || key(second) != want || key(third) != want {
			t.Error("there is another key")
		}
	})
}

func TestCopyRefuses(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		full, other := fresh(t), fresh(t)
		lived(t, full)
		lived(t, other)
		never := func(c Copied) { t.Errorf("copied %+v", c) }
		if err := Copy(t.Context(), full, other, never); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("to one that is not empty: %v", err)
		}
		if err := Copy(t.Context(), filepath.Join(t.TempDir(), "none.db"), fresh(t), never); err == nil {
			t.Error("from one that is not there: no error")
		}
		for version, want := range map[int64]string{9999: "newer windsock", 1: "windsock migrate"} {
			from, to := fresh(t), fresh(t)
			s := open(t, from, &clock{now: noon})
			s.write.MustExec(`DELETE FROM goose_db_version WHERE version_id > 0`)
			s.write.MustExec(fmt.Sprintf(`INSERT INTO goose_db_version (version_id, is_applied) SELECT %d, is_applied FROM goose_db_version WHERE version_id = 0`, version))
			s.Close()
			if err := Copy(t.Context(), from, to, never); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("from version %d: %v, want %q", version, err, want)
			}
		}
	})
}

// A copy that fails leaves the target as it was.
func TestACopyThatFailsLeavesNothing(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		from, to := fresh(t), fresh(t)
		lived(t, from)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		err := Copy(ctx, from, to, func(Copied) {
			if n++; n == 5 {
				cancel()
			}
		})
		if err == nil || n != 5 {
			t.Fatalf("%d tables, %v", n, err)
		}
		copied(t, from, to)
	})
}

func TestMigrateSaysWhatItDid(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		db := fresh(t)
		first := must[[]string](t)(Migrate(t.Context(), db))
		if len(first) == 0 || strings.ContainsAny(first[0], "/.") {
			t.Errorf("applied %q", first)
		}
		if again := must[[]string](t)(Migrate(t.Context(), db)); len(again) != 0 {
			t.Errorf("applied again: %q", again)
		}
	})
}

// Both kinds of database have the same tables, columns and indexes, and so the same number.
func TestTheSchemasAreTheSame(t *testing.T) {
	a, b := open(t, freshFile(t), &clock{now: noon}), open(t, postgres.Schema(t), &clock{now: noon})
	defer a.Close()
	defer b.Close()
	schema := func(s *Store, columns, indexes string) (lines []string) {
		var more, version []string
		r := reader{t.Context(), s.read}
		for dest, query := range map[*[]string]string{&lines: columns, &more: indexes, &version: `SELECT CAST(max(version_id) AS TEXT) FROM goose_db_version`} {
			if err := r.query(dest, query); err != nil {
				t.Fatal(err)
			}
		}
		lines = slices.Concat(lines, more, version)
		slices.Sort(lines)
		return lines
	}
	lite := schema(a, `SELECT t.name || '.' || c.name || ' ' || CASE c.type WHEN 'INTEGER' THEN 'bigint' WHEN 'BLOB' THEN 'bytea' ELSE lower(c.type) END || ' ' || coalesce(c.dflt_value, '')
			FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'goose%' AND t.name NOT LIKE 'sqlite%'`,
		`SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`)
	pg := schema(b, `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || replace(coalesce(column_default, ''), '::text', '')
			FROM information_schema.columns WHERE table_schema = current_schema() AND table_name NOT LIKE 'goose%'`,
		`SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey' AND indexname NOT LIKE '%_key'`)
	if diff := cmp.Diff(lite, pg); diff != "" {
		t.Errorf("SQLite (-) and PostgreSQL (+):\n%s", diff)
	}
}
