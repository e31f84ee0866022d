package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
)

// What it takes to have PostgreSQL behave as the rest of the package expects a database
// to. Here is the connection; dialect.go has where the two databases are used differently.

// pgReaders is the number of connections that read. With the one that writes and the one
// that listens it makes ten of the hundred that a server has by default.
const pgReaders = 8

// How long the server works on a statement at most, and waits for the next of a
// transaction: a process that was suspended holds up the others no longer. A server that
// says nothing for pgSilence beyond that is not there any more.
const (
	pgWriteBound = 10 * time.Second
	pgReadBound  = 30 * time.Second
	pgSilence    = 5 * time.Second
)

// isURL reports whether a database is named by the URL of a PostgreSQL.
func isURL(db string) bool {
	return strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://")
}

// Redacted is how a database may be shown: a URL without its password and its parameters,
// among which there may be one, too.
func Redacted(db string) string {
	if !isURL(db) {
		return db
	}
	u, err := url.Parse(db)
	if err != nil {
		return "postgres://…"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// pgConfig reads a URL. Whoever reads from a standby would not find what he just wrote, so
// of several hosts it is the primary that is connected to.
func pgConfig(url string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	c.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}).DialContext
	setDefault(c, "application_name", "windsock")
	setDefault(c, "jit", "off") // it takes longer than our queries do
	return c, nil
}

// setDefault sets a parameter of the session, unless the URL does.
func setDefault(c *pgx.ConnConfig, name, value string) {
	if _, given := c.RuntimeParams[name]; !given {
		c.RuntimeParams[name] = value
	}
}

// pgOpen returns a pool of connections whose statements are bounded.
func pgOpen(c *pgx.ConnConfig, conns int, bound time.Duration, after ...stdlib.OptionOpenDB) *sqlx.DB {
	setDefault(c, "statement_timeout", bound.String())
	setDefault(c, "idle_in_transaction_session_timeout", pgWriteBound.String())
	// A name that sqlx does not know, so that it leaves the ? of our queries to translate.
	db := sqlx.NewDb(sql.OpenDB(pgConnector{stdlib.GetConnector(*c, after...), bound + pgSilence}), "windsock-postgres")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// pgPlain returns a pool of connections as pgx has them: for what may take as long as it takes.
func pgPlain(c *pgx.ConnConfig) *sqlx.DB { return sqlx.NewDb(stdlib.OpenDB(*c), "pgx") }

type pgConnector struct {
	driver.Connector
	bound time.Duration
}

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return pgConn{conn.(*stdlib.Conn), c.bound, map[string]string{}, map[string]bool{}}, nil
}

// A pgConn is a connection that understands our SQL, and does not wait for ever for a
// server that is gone.
type pgConn struct {
	*stdlib.Conn
	bound time.Duration
	texts map[string]string // of ours, in PostgreSQL's words
	known map[string]bool   // those that are prepared for batches
}

var inItsWords = strings.NewReplacer(inJSON, " = ANY(?)", inHex, " = ANY(?)", pairs, "jsonb_array_elements(CAST(? AS jsonb)) AS pair (value)")

// translate turns our SQL into PostgreSQL's.
func (c pgConn) translate(query string) string {
	text, known := c.texts[query]
	if !known {
		text = sqlx.Rebind(sqlx.DOLLAR, inItsWords.Replace(query))
		c.texts[query] = text
	}
	return text
}

func (c pgConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.PrepareContext(ctx, c.translate(query))
}

func (c pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	return c.Conn.ExecContext(ctx, c.translate(query), args)
}

// QueryContext has database/sql ask once more, on another connection, when this one turns
// out to be dead: so those that were idle when the server was restarted are found out.
func (c pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	single := c.Conn.Conn().PgConn().TxStatus() == 'I' // it is in no transaction
	bound, cancel := context.WithTimeout(ctx, c.bound)
	rows, err := c.Conn.QueryContext(bound, c.translate(query), args)
	switch {
	case err == nil:
		return pgRows{rows.(*stdlib.Rows), cancel}, nil
	case single && bound.Err() == nil && c.Conn.Conn().IsClosed():
		err = driver.ErrBadConn
	}
	cancel()
	return nil, err
}

func (c pgConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	bound, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	_, err := c.Conn.Conn().Exec(bound, "BEGIN")
	if err != nil && ctx.Err() == nil && c.Conn.Conn().IsClosed() {
		err = driver.ErrBadConn
	}
	return pgTx{c}, err
}

// ResetSession finds out a connection that is dead before it is used again.
func (c pgConn) ResetSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pgSilence)
	defer cancel()
	return c.Conn.ResetSession(ctx)
}

func (c pgConn) CheckNamedValue(v *driver.NamedValue) (err error) {
	v.Value, err = pgValue(v.Value)
	return err
}

type pgRows struct {
	*stdlib.Rows
	cancel context.CancelFunc
}

func (r pgRows) Close() error {
	defer r.cancel()
	return r.Rows.Close()
}

type pgTx struct{ pgConn }

func (t pgTx) Commit() error   { return t.end("COMMIT") }
func (t pgTx) Rollback() error { return t.end("ROLLBACK") }

// end ends the transaction, unless that was a statement in it.
func (t pgTx) end(how string) error {
	conn := t.Conn.Conn()
	if conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.bound)
	defer cancel()
	tag, err := conn.Exec(ctx, how)
	if err == nil && tag.String() != how {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// pgValue is an argument as pgx is to have it: of a type that SQL has, not one of ours,
// whose methods may hide what it is. A flag is a number, as its column is.
func pgValue(v any) (any, error) {
	switch ids := v.(type) {
	case idSet[string]:
		clean := make([]string, len(ids))
		for i, id := range ids {
			clean[i] = pgText(id)
		}
		return clean, nil
	case idSet[int64]:
		return []int64(ids), nil
	case byteSet:
		return [][]byte(ids), nil
	}
	switch v, err := driver.DefaultParameterConverter.ConvertValue(v); v := v.(type) {
	case bool:
		if v {
			return int64(1), err
		}
		return int64(0), err
	case string:
		return pgText(v), err
	default:
		return v, err
	}
}

// pgText replaces what a text in PostgreSQL cannot hold.
func pgText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// pgFault reports whether an error is a fault of ours, which another try meets again: data
// that is no such, a constraint that is broken, SQL that is not understood.
func pgFault(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && slices.Contains([]string{"22", "23", "42"}, e.Code[:min(2, len(e.Code))])
}

// pgBatchBound is how many statements are sent together at most.
const pgBatchBound = 1000

// A pgBatch are statements that wait to be sent together, as each would cost the way to
// the server and back.
type pgBatch []pgStatement

type pgStatement struct {
	query string
	args  []any
	set   int // those of one set, with the same query, write different rows; 0: it is of none
}

// send returns the first error; what follows that is not executed.
func (b pgBatch) send(conn *sqlx.Conn) error {
	return conn.Raw(func(c any) error { return c.(pgConn).send(b) })
}

func (c pgConn) send(b pgBatch) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.bound)
	defer cancel()
	conn, batch := c.Conn.Conn(), &pgx.Batch{}
	for n := 0; len(b) > 0; b = b[n:] {
		for n = 1; n < len(b) && b[0].set > 0 && b[n].set == b[0].set && b[n].query == b[0].query; n++ {
		}
		text, args, err := c.statement(b[:n])
		if err != nil {
			return err
		}
		if !c.known[text] { // if it is not understood, what was before it has been executed
			if batch.Len() > 0 {
				if err := conn.SendBatch(ctx, batch).Close(); err != nil {
					return err
				}
				batch = &pgx.Batch{}
			}
			if _, err := conn.Prepare(ctx, text, text); err != nil {
				return err
			}
			c.known[text] = true
		}
		batch.Queue(text, args...)
	}
	return conn.SendBatch(ctx, batch).Close()
}

// statement is one that does what b does, which are several only if they are of one set.
func (c pgConn) statement(b pgBatch) (text string, args []any, err error) {
	for _, s := range b {
		for i := range s.args {
			if s.args[i], err = pgValue(s.args[i]); err != nil {
				return "", nil, err
			}
		}
	}
	if len(b) == 1 {
		return c.translate(b[0].query), b[0].args, nil
	}
	query := b[0].query
	for i, first := range b[0].args {
		if _, number := first.(int64); number {
			args = append(args, column[int64](b, i))
		} else {
			args = append(args, column[string](b, i))
		}
	}
	if text = c.texts[query+" of a set"]; text == "" {
		text = setQuery(query, args)
		c.texts[query+" of a set"] = text
	}
	return text, args, nil
}

func column[T any](b pgBatch, i int) []T {
	list := make([]T, len(b))
	for n := range b {
		list[n] = b[n].args[i].(T)
	}
	return list
}

// setQuery has a query that writes a row write as many as there are in the columns.
func setQuery(query string, columns []any) string {
	var names, arrays []string
	for i, c := range columns {
		names = append(names, fmt.Sprintf("c%d", i+1))
		kind := "text"
		if _, numbers := c.([]int64); numbers {
			kind = "bigint"
		}
		arrays = append(arrays, fmt.Sprintf("CAST($%d AS %s[])", i+1, kind))
		query = strings.Replace(query, "?", "u."+names[i], 1)
	}
	from := " FROM unnest(" + strings.Join(arrays, ", ") + ") AS u (" + strings.Join(names, ", ") + ")"
	if head, values, insert := strings.Cut(query, "VALUES ("); insert {
		values, rest, _ := strings.Cut(values, ")")
		return head + "SELECT " + values + from + rest
	}
	return strings.Replace(query, " WHERE", from+" WHERE", 1)
}

// beginOnServer starts a transaction and takes the row of the log.
//
// Whoever writes takes that row before it reads anything else. So there is one writer at a
// time, however many processes there are: seq is in the order of the commits, so that no
// cursor steps over an event that is committed later than a higher one; and what is read,
// each statement seeing what was committed before it, is as it is until we commit. What it
// costs is that commits wait for each other. Those who write meanwhile are in the queues
// of their processes, and share the next commit.
func (s *Store) beginOnServer() (*tx, error) {
	ctx := context.Background() // statements are bounded by pgConn
	conn, err := s.write.Connx(ctx)
	if err != nil {
		return nil, err
	}
	t := &tx{s: s, conn: conn}
	if t.sql, err = conn.BeginTxx(ctx, nil); err != nil {
		conn.Close()
		return nil, err
	}
	t.enter(`SELECT head, silenced_until FROM log FOR UPDATE`)
	return t, nil
}

// commitOnServer sends the commit with what is still to be sent.
func (t *tx) commitOnServer() error {
	t.announce()
	t.run(`COMMIT`)
	if err := t.send(); err != nil {
		return t.outcome(err)
	}
	return t.sql.Commit() // which is done
}

// A session is what a transaction on a server has besides.
type session struct {
	batch pgBatch
	sets  int // that were begun
}

// errUnsure is of a commit of which nobody knows whether it came to pass.
var errUnsure = errors.New("the connection broke during the commit, which may have been made")

// outcome finds out what came of a commit that returned an error: nil if it was made all
// the same. If the connection broke, its last event tells: it is there or it is not once
// we have the row of the log again. Without events it may be made again.
func (t *tx) outcome(err error) error {
	if !broken(err) || len(t.events) == 0 {
		return err
	}
	t.end() // there is one connection that writes
	for pause, since := firstPause, time.Now(); time.Since(since) < pgSilence; pause = min(2*pause, longestPause) {
		if again, began := t.s.begin(); began == nil {
			var made bool
			again.get(&made, `SELECT EXISTS (SELECT 1 FROM events WHERE seq = ? AND at = ?)`, t.head, t.headAt)
			again.end()
			switch {
			case made:
				return nil
			case again.err == nil:
				return err
			}
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%w: %w", errUnsure, err)
}

// broken reports whether an error is of the connection, and no answer of the server to a
// statement.
func broken(err error) bool {
	var e *pgconn.PgError
	return !errors.As(err, &e) || e.Severity == "FATAL"
}

// How long a commit is tried again that failed for a reason that may pass: the server is
// started anew, or another takes its place. When it fails for longer, nobody waits.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
	retriesLast  = 3 * time.Second
)

func (s *Store) passesOnServer(err error, since time.Time) bool {
	past := time.Since(since)
	if s.failedAt.Load() != 0 || past > retriesLast || pgFault(err) || errors.Is(err, errUnsure) || errors.Is(err, context.DeadlineExceeded) || statementTimedOut(err) {
		return false
	}
	time.Sleep(min(max(past, firstPause), longestPause))
	return true
}

func statementTimedOut(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "57014"
}

// Others may hold up their deadlines and migrations by locks, of these kinds and for one
// schema each, that are released when the connection ends.
const (
	pgMigrating = 0x77736d01
	pgPresent   = 0x77736d02
)

// pgSchema is the number of the schema that we work in.
const pgSchema = `(SELECT CAST(CAST(oid AS BIGINT) % 2147483647 AS INTEGER) FROM pg_namespace WHERE nspname = current_schema())`

func (s *Store) openServer(ctx context.Context, url string) (err error) {
	if s.pg, err = pgConfig(url); err != nil {
		return err
	}
	if _, err = pgMigrate(ctx, s.pg); err != nil {
		return err
	}
	writer := s.pg.Copy()
	s.write = pgOpen(writer, 1, pgWriteBound, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SELECT pg_advisory_lock_shared($1, `+pgSchema+`)`, pgPresent)
		return err
	}))
	reader := s.pg.Copy()
	setDefault(reader, "default_transaction_read_only", "on")
	setDefault(reader, "default_transaction_isolation", "repeatable read") // or what one of several queries saw the next may not
	s.read = pgOpen(reader, pgReaders, pgReadBound)
	return nil
}

// pgMigrate applies the migrations that are missing, while no other process does.
func pgMigrate(ctx context.Context, c *pgx.ConnConfig) ([]string, error) {
	db := pgPlain(c)
	defer db.Close()
	lock, err := db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if _, err := lock.ExecContext(ctx, `SELECT pg_advisory_lock($1, `+pgSchema+`)`, pgMigrating); err != nil {
		return nil, err
	}
	return migrate(ctx, db, onPostgres)
}

// aloneOnServer reports whether no other process has the database open. Who cannot tell
// believes that one has.
func (s *Store) aloneOnServer() bool {
	var others bool
	err := s.read.Get(&others, `SELECT count(*) > 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ? AND objid = `+pgSchema+`
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, pgPresent)
	return err == nil && !others
}
