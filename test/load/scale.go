package main

import (
	"cmp"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"
)

// What the same detections cost when there is little, when the log is long, and when the
// fleet is large.
type sizes struct {
	name              string
	events, instances int
}

// scale fills a database of each size by copying rows that windsock wrote, so that it takes
// them for its own, and then measures in turns: so that what else goes on on this machine
// meets all of them.
func scale(dir, binary string) error {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = *conns
	var all []*scaled
	for _, s := range []sizes{{"little", 10_000, 1000}, {"a long log", *longLog, 1000}, {"a large fleet", 10_000, *large}} {
		folder := filepath.Join(dir, strings.ReplaceAll(s.name, " ", "_"))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		m := &scaled{sizes: s, schema: schema + "_" + filepath.Base(folder)}
		if err := m.prepare(folder, binary); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer m.end()
		all = append(all, m)
	}
	for range *rounds {
		for _, m := range all {
			if err := m.round(); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	base := all[0]
	for _, m := range all {
		fmt.Printf("%-14s %9d events %8d instances  %6.0f µs/detection (%.2f times)", m.name, m.events, m.instances, median(m.cost), median(ratios(m.cost, base.cost)))
		if *server != "" {
			fmt.Printf("  %6.0f µs in PostgreSQL (%.2f)  %5.1f rows read", median(m.served), median(ratios(m.served, base.served)), median(m.read))
		}
		fmt.Printf("  %5.0f detections/s  idle %.1f %% of a core  metrics %.0f ms, page of instances %.1f, of failed ones %.1f, of events %.1f\n",
			median(m.rate), median(m.idle), median(m.metrics), median(m.list), median(m.failed), median(m.page))
		fmt.Printf("%14s start %.1f s, %.0f MiB resident, %.2f GB on disk\n", "", m.start, rss(m.Process.Pid)/(1<<20), m.disk()/1e9)
	}
	return nil
}

// scaled is a windsock at work on a database of some size, and what was measured.
type scaled struct {
	sizes
	schema string // on a server
	db     string
	sql    *sql.DB
	*process
	turn  atomic.Int64
	start float64

	cost, served, read, rate, idle, metrics, list, failed, page []float64
}

func (m *scaled) prepare(dir, binary string) (err error) {
	m.db = filepath.Join(dir, "load.db")
	if *server == "" {
		m.sql, err = sql.Open("sqlite3", "file:"+m.db+"?_synchronous=OFF&_busy_timeout=10000")
	} else {
		m.db = onServer(m.schema)
		if m.sql, err = sql.Open("pgx", m.db); err == nil {
			_, err = m.sql.Exec("DROP SCHEMA IF EXISTS " + m.schema + " CASCADE; CREATE SCHEMA " + m.schema)
		}
	}
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "load.yaml")
	if err := os.WriteFile(config, declared(10, ""), 0o600); err != nil {
		return err
	}
	args := []string{"serve", "--listen", "ADDR", "--db", m.db, "--log-level", "error", "--keep-events", "1000000000"}
	if m.process, err = start(binary, append(args, "--config", config)...); err != nil {
		return err
	}
	for i := range 10 {
		if err := m.post(fmt.Sprintf("instance-%06d", i), "START DETECTED"); err != nil {
			return err
		}
	}
	m.process.stop()
	if err := m.fill(); err != nil {
		return err
	}
	began := time.Now()
	m.process, err = start(binary, args...)
	m.start = time.Since(began).Seconds()
	return err
}

func (m *scaled) end() {
	m.process.stop()
	if *server != "" {
		m.sql.Exec("DROP SCHEMA " + m.schema + " CASCADE")
	}
	m.sql.Close()
}

// How the ids of copies follow from their number.
const (
	deploymentAt = `'deployment-' || substr(CAST(100000 + %s AS TEXT), 2)`
	instanceAt   = `'instance-' || substr(CAST(1000000 + %s AS TEXT), 2)`
)

// fill copies the first deployment, with all it has, and its last event.
func (m *scaled) fill() error {
	of := fmt.Sprintf(deploymentAt, "k")
	like := func(column string) string {
		return fmt.Sprintf(instanceAt, "10 * k + CAST(substr(t."+column+", 10) AS BIGINT)")
	}
	for _, c := range []struct {
		table, where string
		with         map[string]string
	}{
		{"deployments", "TRUE", map[string]string{"id": of}},
		{"instances", "TRUE", map[string]string{"id": like("id"), "deployment_id": of}},
		{"evidence", "kind = 'instance'", map[string]string{"subject_id": like("subject_id")}},
	} {
		if err := m.copies(c.table, "SELECT * FROM "+c.table+" WHERE "+c.where, 1, m.instances/10-1, c.with); err != nil {
			return err
		}
	}
	var head int
	if err := m.sql.QueryRow("SELECT head FROM log").Scan(&head); err != nil {
		return err
	}
	const atOnce = 500_000
	at := fmt.Sprintf("(7 * k) %% %d", m.instances)
	for k := head + 1; k <= m.events; k += atOnce {
		err := m.copies("events", "SELECT * FROM events WHERE type = 'instance.state' AND seq <= "+fmt.Sprint(head)+" ORDER BY seq DESC LIMIT 1", k, min(k+atOnce-1, m.events), map[string]string{
			"seq": "k", "subject_id": fmt.Sprintf(instanceAt, at), "deployment_id": fmt.Sprintf(deploymentAt, "("+at+") / 10"),
		})
		if err != nil {
			return err
		}
	}
	done := fmt.Sprintf("UPDATE log SET head = %d", m.events)
	if *server != "" {
		done += "; ANALYZE" // as autovacuum would
	}
	_, err := m.sql.Exec(done)
	return err
}

// copies inserts the rows of a query once for each k, with other values in some columns.
func (m *scaled) copies(table, of string, from, to int, with map[string]string) error {
	if from > to {
		return nil
	}
	rows, err := m.sql.Query("SELECT * FROM " + table + " LIMIT 0")
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	rows.Close()
	if err != nil {
		return err
	}
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = cmp.Or(with[c], "t."+c)
	}
	_, err = m.sql.Exec(fmt.Sprintf(`WITH RECURSIVE n (k) AS (SELECT %d UNION ALL SELECT k + 1 FROM n WHERE k < %d)
		INSERT INTO %s (%s) SELECT %s FROM (%s) AS t CROSS JOIN n`, from, to, table, strings.Join(columns, ", "), strings.Join(values, ", "), of))
	return err
}

// number is the one value of a query; 0 when there is none.
func (m *scaled) number(query string) (n float64) {
	m.sql.QueryRow(query).Scan(&n)
	return n
}

func (m *scaled) head() float64 { return m.number("SELECT head FROM log") }

// serverCPU is the processor time of the connections that windsock has to a server on this machine.
func (m *scaled) serverCPU() (seconds float64) {
	if *server == "" {
		return 0
	}
	rows, err := m.sql.Query("SELECT pid FROM pg_stat_activity WHERE application_name = '" + m.schema + "'")
	if err != nil {
		return 0
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		rows.Scan(&pid)
		seconds += cpuSeconds(pid)
	}
	return seconds
}

func (m *scaled) rowsRead() float64 {
	if *server == "" {
		return 0
	}
	return m.number("SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE schemaname = '" + m.schema + "'")
}

func (m *scaled) disk() float64 {
	if *server == "" {
		return size(m.db)
	}
	return m.number("SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables WHERE schemaname = '" + m.schema + "'")
}

func (m *scaled) post(instance, word string) error {
	_, err := call(m.process, "/api/monitors/deployment/instance/"+instance, "result", `{"version":"1","source":"load","state":%q}`, word)
	return err
}

// round posts, is idle, and reads.
func (m *scaled) round() error {
	events, cpu, theirs, read := m.head(), cpuSeconds(m.Process.Pid), m.serverCPU(), m.rowsRead()
	var n atomic.Int64
	errs := make(chan error, *conns)
	var wg sync.WaitGroup
	began := time.Now()
	for range *conns {
		wg.Go(func() {
			for time.Since(began) < *span {
				// Each instance fails and starts again, the first of a deployment, all over the fleet.
				at := int(m.turn.Add(1)) * 7919 % (m.instances / 10) * 10
				for k := range 2 {
					if err := m.post(fmt.Sprintf("instance-%06d", at), word(k)); err != nil {
						errs <- err
						return
					}
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	took, posts := time.Since(began).Seconds(), float64(n.Load())
	if told := m.head() - events; told < 1.5*posts || told > 2*posts {
		return fmt.Errorf("%.0f events of %.0f detections: they are to change the instance and its deployment", told, posts)
	}
	m.rate = append(m.rate, posts/took)
	m.cost = append(m.cost, (cpuSeconds(m.Process.Pid)-cpu)/posts*1e6)
	m.served = append(m.served, (m.serverCPU()-theirs)/posts*1e6)
	m.read = append(m.read, (m.rowsRead()-read)/posts)

	began, cpu = time.Now(), cpuSeconds(m.Process.Pid)
	time.Sleep(*span)
	m.idle = append(m.idle, 100*(cpuSeconds(m.Process.Pid)-cpu)/time.Since(began).Seconds())
	for _, g := range []struct {
		path string
		took *[]float64
	}{
		{"/metrics", &m.metrics}, {fmt.Sprintf("/api/instances?limit=1000&after=instance-%06d", m.instances/2), &m.list},
		{"/api/instances?limit=1000&state=stopped", &m.failed}, {fmt.Sprintf("/api/events?limit=1000&after=%.0f", m.head()/2), &m.page},
	} {
		began := time.Now()
		resp, err := http.Get("http://" + m.addr + g.path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s, %v", g.path, resp.Status, err)
		}
		*g.took = append(*g.took, time.Since(began).Seconds()*1000)
	}
	return nil
}
