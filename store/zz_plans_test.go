package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mattn/go-sqlite3"

	"windsock"
	"windsock/test/postgres"
)

// Every statement that the tests have the store send is explained once they are through: what
// reads a table as a whole gets dearer as that grows. So this file has to be the last of them.
// The statements are noted where SQLite's driver is told them. They are the same on PostgreSQL.

// allowed are the functions that may read all of a table, or of that one, and why.
var allowed = map[string]string{
	"(*end).":                          "copies a database",
	"(*Store).resume":                  "at the start, if no other process was there: deadlines move by the time that nobody was",
	"(*tx).shiftLeases":                "the same, for monitors",
	"noLonger[...]":                    "when the file is read: what it declares no longer",
	"(*Store).Targets monitors":        "all are wanted",
	"(*Store).prune monitors":          "the one that is furthest behind, at 500 events that are deleted",
	"(*Store).prune lanes":             "the same",
	"(*Store).forgetPassed passed":     "once a minute; a monitor has a few",
	"(*Store).forgetTries tries":       "the oldest, as many as are deleted at once",
	"(*Retention).pruneTries tries":    "once a minute; of each monitor so many are kept",
	"(*Store).Summary deployments":     "counts deployments, of which each has its instances counted",
	"(*Store).countMonitors monitors":  "counts them, for the page",
	"(*Store).Find instances":          "something is reported that instances have in their metadata, other than their host",
	"(*Store).Acts acts":               "the newest",
	"(*Retention).forgetActs acts":     "the oldest, as many as are deleted at once",
	"spans.Collect deployments":        "the same, when metrics are read",
	"hooks.Collect components":         "counts them, when metrics are read",
	"(*Store).Instances instances":     "a page of those that run, that do not drift, or are stale: from one id on until it is full",
	"(*Store).Deployments deployments": "the same, or of those in a provider or a pool",
	"(*Store).Events events":           "a page of what has no index: from one seq on until it is full",
	"concerning events":                "counts what a monitor has still to hear, of the part of the log that it is behind",
	"snapshot.timeline events":         "the first",
}

// bounded are the tables that stay small: what is in them is there once, for each process or for
// each provider, for seconds, or up to a number.
var bounded = []string{"log", "leases", "replicas", "providers", "questions", "spans", "goose_db_version", "tokens", "unmatched", "silences"}

// coarse are the columns that have few values: to be equal in them says little.
var coarse = []string{"kind", "taken", "one", "state", "from_provider", "from_file"}

func TestNoStatementReadsAWholeTable(t *testing.T) {
	list := map[string]string{} // the texts, and who sends them
	noted.Range(func(text, by any) bool {
		if words := strings.Fields(text.(string)); slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, words[0]) {
			list[text.(string)] = by.(string)
		}
		return true
	})
	if len(list) < 200 {
		t.Skipf("only %d statements were sent: the other tests have to run before", len(list))
	}
	met := map[string]bool{}
	complain := func(t *testing.T, by, text string, scans []scan) {
		for _, s := range scans {
			if slices.Contains(bounded, s.table) {
				continue
			}
			kind, _, _ := strings.Cut(by, ".")
			keys := []string{by + " " + s.table, by, kind + "."}
			if i := slices.IndexFunc(keys, func(k string) bool { return allowed[k] != "" }); i >= 0 {
				met[keys[i]] = true
				continue
			}
			t.Errorf("%s reads all of %s: %s\n\t%s", by, s.table, s.how, strings.Join(strings.Fields(text), " "))
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		s := quiet(t, freshFile(t))
		partial := partialIndexes(t, s, `SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'`)
		for _, text := range slices.Sorted(maps.Keys(list)) {
			var lines []struct {
				ID, Parent, Notused int
				Detail              string
			}
			if err := s.write.Select(&lines, "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			var scans []scan
			for _, l := range lines {
				scans = append(scans, sqliteScan(text, l.Detail, partial)...)
			}
			complain(t, list[text], text, scans)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		s := quiet(t, postgres.Schema(t))
		populate(t, s)
		partial := partialIndexes(t, s, `SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indpred IS NOT NULL AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`)
		conn, err := s.write.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, set := range []string{`plan_cache_mode = force_generic_plan`, `enable_seqscan = off`} {
			if _, err := conn.ExecContext(t.Context(), `SET `+set); err != nil {
				t.Fatal(err)
			}
		}
		explain := func(by, name, text string, params int) {
			call := `EXPLAIN (FORMAT JSON) EXECUTE "` + strings.ReplaceAll(name, `"`, `""`) + `"`
			if params > 0 {
				call += "(NULL" + strings.Repeat(", NULL", params-1) + ")"
			}
			var data string
			if err := conn.GetContext(t.Context(), &data, call); err != nil {
				t.Errorf("%s: %v", text, err)
				return
			}
			var plans []struct{ Plan step }
			if err := json.Unmarshal([]byte(data), &plans); err != nil {
				t.Fatal(err)
			}
			complain(t, by, text, plans[0].Plan.scans(partial, false))
		}
		for i, text := range slices.Sorted(maps.Keys(list)) {
			if strings.Contains(text, "sqlite_master") || strings.Contains(text, "metadata ->> ?") { // which PostgreSQL is asked otherwise
				continue
			}
			name := fmt.Sprint("noted", i)
			if _, err := conn.ExecContext(t.Context(), "PREPARE "+name+" AS "+text); err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			explain(list[text], name, text, strings.Count(text, "?"))
		}
		var sets []struct {
			Name   string `db:"name"`
			Params int    `db:"params"`
		}
		if err := conn.SelectContext(t.Context(), &sets, `SELECT name, cardinality(parameter_types) AS params FROM pg_prepared_statements WHERE statement LIKE '%unnest%'`); err != nil {
			t.Fatal(err)
		}
		if len(sets) < 3 {
			t.Errorf("only %d statements write sets", len(sets))
		}
		for _, s := range sets {
			explain("a set", s.Name, s.Name, s.Params)
		}
		for key := range allowed {
			if !met[key] {
				t.Errorf("%s needs no allowance", key)
			}
		}
	})
}

// A scan is a part of a plan that reads a table, or most of it.
type scan struct{ table, how string }

var (
	sqliteLine = regexp.MustCompile(`^(SCAN|SEARCH) (\S+)(?: USING (?:COVERING )?(?:INTEGER PRIMARY KEY|PRIMARY KEY|INDEX (\S+)))?(?: \((.*)\))?$`)
	equalTo    = regexp.MustCompile(`(\w+)\)? ?= ?`)
)

// sqliteScan reads a line of SQLite's EXPLAIN QUERY PLAN.
func sqliteScan(text, line string, partial map[string]bool) []scan {
	m := sqliteLine.FindStringSubmatch(line)
	if m == nil || partial[m[3]] || m[1] == "SEARCH" && (m[4] == "" || !onlyCoarse(m[4])) {
		return nil
	}
	table := m[2]
	if strings.Contains(text, "RECURSIVE "+table) {
		return nil
	}
	if as := regexp.MustCompile(`(?:FROM|JOIN) (\w+) (?:AS )?` + table + `\b`).FindStringSubmatch(text); as != nil {
		table = as[1]
	}
	if !regexp.MustCompile(`(?:FROM|JOIN|UPDATE|INTO) ` + table + `\b`).MatchString(text) {
		return nil // what a part of the statement made
	}
	return []scan{{table, line}}
}

// onlyCoarse reports whether a condition has columns be equal to something, but none that has
// many values. A range alone is no scan: it is where a page begins, or what is due.
func onlyCoarse(cond string) bool {
	equal := equalTo.FindAllStringSubmatch(cond, -1)
	return len(equal) > 0 && !slices.ContainsFunc(equal, func(m []string) bool { return !slices.Contains(coarse, m[1]) })
}

// A step is one of PostgreSQL's plan.
type step struct {
	Type   string `json:"Node Type"`
	Table  string `json:"Relation Name"`
	Index  string `json:"Index Name"`
	Cond   string `json:"Index Cond"`
	Filter string
	Plans  []step
}

func (n step) scans(partial map[string]bool, limited bool) (list []scan) {
	limited = limited && n.Filter == "" || n.Type == "Limit"
	table := n.Table
	for _, p := range n.Plans {
		if p.Type == "Bitmap Index Scan" {
			p.Table, p.Filter = table, n.Filter
		}
		list = append(list, p.scans(partial, limited)...)
	}
	how := fmt.Sprintf("%s %s %s, filter %s", n.Type, n.Index, n.Cond, n.Filter)
	equal := equalTo.MatchString(n.Cond)
	switch {
	case n.Type == "Seq Scan":
		return append(list, scan{table, how})
	case n.Index == "" || partial[n.Index] || n.Type == "Bitmap Heap Scan":
	case n.Cond == "" && !limited, onlyCoarse(n.Cond), n.Cond != "" && !equal && n.Filter != "":
		return append(list, scan{table, how})
	}
	return list
}

func partialIndexes(t *testing.T, s *Store, query string) map[string]bool {
	t.Helper()
	partial := map[string]bool{}
	for _, name := range must[[]string](t)(func() (names []string, err error) { return names, s.read.Select(&names, query) }()) {
		partial[name] = true
	}
	return partial
}

// populate has a server know from statistics that its tables are large, and the connection that
// writes have prepared what writes sets.
func populate(t *testing.T, s *Store) {
	t.Helper()
	declare(t, s, "shop", "a", "b", "c")
	for _, state := range []windsock.State{windsock.Running, windsock.Failed} {
		record(t, s, instanceSaid("a", "x", state), instanceSaid("b", "x", state), instanceSaid("c", "x", state))
	}
	err := s.do(t.Context(), func(t *tx) error {
		const n = ` FROM generate_series(1, 5000) n`
		t.exec(`INSERT INTO deployments (id, name, provider, provider_id, pool, expected, rule, quorum, metadata, from_file, state, created_at, updated_at)
			SELECT 'd' || n, '', 'p' || n % 3, CASE WHEN n % 2 = 0 THEN 'x' || n ELSE '' END, 'pool' || n % 9, 'running', 'all', 1, '{}', 0, 'running', n, n` + n)
		t.exec(`INSERT INTO instances (id, deployment_id, name, assembly, provider_id, address, expected, metadata, probe, from_file, counts_as, state, created_at, updated_at)
			SELECT 'i' || n, 'd' || n / 10 + 1, '', '', CASE WHEN n % 2 = 0 THEN 'x' || n ELSE '' END, '', 'running', '{}', '', 0, 'running', CASE n % 50 WHEN 0 THEN 'failed' ELSE 'running' END, n, n` + n)
		t.exec(`INSERT INTO evidence (kind, subject_id, source, origin, state, since, observed_at, received_at, expires_at, reason, raw, requested, pending, samples, blind_since, blind_for, stale_at)
			SELECT CASE n % 3 WHEN 0 THEN 'deployment' ELSE 'instance' END, CASE n % 3 WHEN 0 THEN 'd' ELSE 'i' END || n, 'provider:p' || n % 3, 'provider', 'running', n, n, n, 0, '', '', 0, '', 0, 0, '', 0` + n)
		t.exec(`INSERT INTO events (seq, at, type, kind, subject_id, deployment_id, provider, pool, word, state, previous, expected, source, reason, detected_at, data)
			SELECT 1000 + n, n, 'instance.state', 'instance', 'i' || n, 'd' || n / 10 + 1, 'p' || n % 3, 'pool' || n % 9, '', 'failed', 'running', 'running', 'x', '', n, '{}'` + n)
		t.exec(`INSERT INTO monitors (id, name, scheme, address, port, path, scope, detections, subjects, echo, secret, cursor, created_at, updated_at)
			SELECT 'm' || n, '', 'http', 'a' || n, 1, '', 'global', '[]', 'both', 0, '', n, n, n` + n)
		t.exec(`INSERT INTO tries (monitor_id, taken, result, at, seq, last_seq, events, kind, subject_id, deployment_id, data)
			SELECT 'm' || n / 100 + 1, n % 2, 'taken', n, n, n, 1, 'instance', 'i' || n, 'd', '{}'` + n)
		t.exec(`INSERT INTO lanes (monitor_id, kind, subject_id, first_seq, attempts, next_try_at, last_error) SELECT 'm' || n / 100 + 1, 'instance', 'i' || n, n, 1, n, ''` + n)
		t.exec(`INSERT INTO passed (monitor_id, first_seq, last_seq, kind, subject_id, ahead, why) SELECT 'm' || n, n, n, '', '', '', 'registered'` + n)
		t.exec(`INSERT INTO deployables (id, name, created_at, summary, source, files) SELECT 't' || n, '', n, '{}', '', '{}'` + n)
		t.exec(`INSERT INTO deployed (deployment_id, deployable, parameters, hidden, outputs) SELECT 'd' || n, 't' || n, '{}', '[]', '{}'` + n)
		t.exec(`INSERT INTO servers (deployment_id, name, instance_id) SELECT 'd' || n / 10 + 1, 's' || n, 'i' || n` + n)
		t.exec(`INSERT INTO components (uid, deployment_id, name, kind, instance, instance_id, handle, hook, wanted, timeout, retries, silent, planned, action, state, since, unmet)
			SELECT CAST('u' || n AS BYTEA), 'd' || n / 10 + 1, 'c' || n, 'software', 's' || n, 'i' || n, '', 'script', 1, 1, 0, 0, 1, 'CREATE', 'complete', n, 0` + n)
		t.exec(`INSERT INTO component_edges (before, after) SELECT id, id + 1 FROM components WHERE id < 5000`)
		t.exec(`INSERT INTO component_needs (component_id, deployment_id, server) SELECT id, deployment_id, instance FROM components`)
		t.exec(`INSERT INTO component_signals (component_id, n, at, run, sender, status, reason, late) SELECT id, 1, 1, 1, '', 'SUCCESS', '', 0 FROM components`)
		t.exec(`INSERT INTO component_outputs (component_id, name, value) SELECT id, 'x', '1' FROM components`)
		t.exec(`INSERT INTO component_plans (component_id, actions, outputs, refers, spec) SELECT id, '{}', '{}', '{}', '' FROM components`)
		t.exec(`INSERT INTO dependencies (child, parent) SELECT 'd' || n, 'd' || n / 2` + n)
		t.exec(`INSERT INTO instance_tokens (instance_id, hash) SELECT id, '' FROM instances`)
		t.head += 6000
		var tables []string // and not those of all other tests
		t.all(&tables, `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`)
		for _, table := range tables {
			t.exec(`ANALYZE ` + table)
		}
		return t.err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func init() {
	sql.Register("noting", noting{})
	sqlite = "noting"
}

// noting is SQLite's driver, whose connections note what they are told.
type noting struct{ sqlite3.SQLiteDriver }

func (d noting) Open(dsn string) (driver.Conn, error) {
	c, err := d.SQLiteDriver.Open(dsn)
	if err != nil {
		return nil, err
	}
	return noter{c.(*sqlite3.SQLiteConn)}, nil
}

type noter struct{ *sqlite3.SQLiteConn }

func (c noter) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	note(query)
	return c.SQLiteConn.ExecContext(ctx, query, args)
}

func (c noter) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	note(query)
	return c.SQLiteConn.QueryContext(ctx, query, args)
}

func (c noter) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	note(query)
	return c.SQLiteConn.PrepareContext(ctx, query)
}

// noted are the statements of the store, and the functions that sent them.
var noted sync.Map

// messengers send what others say.
var messengers = []string{
	"(*tx).exec", "(*tx).put", "(*tx).run", "(*tx).get", "(*tx).rows", "(*tx).all", "(*tx).query",
	"reader.query", "snapshot.query", "(*query).page", "(*query).each", "noter.", "note",
}

// note keeps a statement, unless it is a test's own, or a migration's.
func note(query string) {
	if _, known := noted.Load(query); known {
		return
	}
	pcs := make([]uintptr, 40)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name, ours := strings.CutPrefix(f.Function, "windsock/store.")
		if !ours || slices.ContainsFunc(messengers, func(m string) bool { return strings.HasPrefix(name, m) }) {
			continue
		}
		if !strings.HasSuffix(f.File, "_test.go") && name != "migrate" {
			name, _, _ = strings.Cut(name, ".func")
			noted.Store(query, name)
		}
		return
	}
}
