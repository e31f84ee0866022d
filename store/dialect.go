package store

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/mattn/go-sqlite3"

	"windsock"
)

// What is of one database only stands in this file and in postgres.go. All other SQL is of
// both kinds.

// readers is the number of connections that read. SQLite runs a query on the core that
// asks; more connections than this only take turns.
const readers = 4

// writerDSN opens the file for the one connection that writes. Its options are part of
// the DSN since a PRAGMA holds for one connection, and database/sql opens another when
// it likes. Immediate transactions take the write lock at once: one that first reads
// and then writes cannot wait for it (its snapshot is stale) and fails within
// microseconds. FULL makes a commit survive a power cut. SQLite need not lock a
// connection, as database/sql lets one goroutine at a time have it. A file that is made
// anew can give room back (see giveBack). For the busy timeout see inTurn.
func writerDSN(path string) string {
	return dsn(path, "_txlock=immediate&_auto_vacuum=incremental&_journal_mode=WAL&_synchronous=FULL&_foreign_keys=on&_busy_timeout=1&_stmt_cache_size=128&_mutex=no")
}

// moverDSN opens the file to move the write-ahead log. It has no option that would be written.
func moverDSN(path string) string {
	return dsn(path, "mode=rw&_synchronous=FULL&_busy_timeout=5000&_mutex=no")
}

// readerDSN opens the file for reading.
func readerDSN(path string) string {
	return dsn(path, "mode=ro&_query_only=on&_busy_timeout=5000&_stmt_cache_size=64&_mutex=no")
}

func dsn(path, options string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options}).String()
}

// sqlite is the driver. Tests have one of their own around it, that notes what it is told.
var sqlite = "sqlite3"

func connect(dsn string, conns int) (*sqlx.DB, error) {
	db, err := sqlx.Open(sqlite, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// patience is how often a transaction asks whether it may begin while other processes
// write, each time for a millisecond or more. It is no time: who was suspended did not ask.
const patience = 5000

// inTurn has f try again while others write. SQLite would ask whether it may in ever longer
// pauses, between which a process that writes all the time leaves it no chance; so it is
// told to wait for a millisecond, and is asked again.
func inTurn(f func() error) error {
	for asked := 1; ; asked++ {
		var e sqlite3.Error
		if err := f(); !errors.As(err, &e) || e.Code != sqlite3.ErrBusy || asked == patience {
			return err
		}
	}
}

// version is another number than before once anybody committed something. To ask takes
// 5 µs; with a context that can end, twice as long. PostgreSQL is not asked, but tells.
func (s *Store) version() (v int64, err error) {
	if s.pg != nil {
		return s.rung.Load(), nil
	}
	err = s.eye.Get(&v, `PRAGMA data_version`)
	return v, unavailable(err)
}

// alone reports whether no other process has the database open.
func (s *Store) alone() bool {
	if s.pg != nil {
		return s.aloneOnServer()
	}
	return s.neighbours.alone()
}

// there reports whether another process is there, as far as that can be told at once. On
// other machines it cannot: whoever says nothing there for long is not.
func (s *Store) there(id int64) bool { return s.pg != nil || s.neighbours.there(id) }

// ring has the others hear that something was committed. PostgreSQL does so by itself.
func (s *Store) ring() {
	if s.pg == nil && !s.neighbours.alone() {
		s.neighbours.ring()
	}
}

// inSet is a condition on a column that takes one argument, made by set. One argument,
// whatever the size of the set, keeps the text of the query, and so its plan, the same.
func inSet(column string) string { return column + inJSON }

// inJSON is how SQLite reads a set. PostgreSQL has arrays for that (see translate).
const inJSON = " IN (SELECT value FROM json_each(?))"

// set makes the argument of inSet.
func set[T string | int64](ids []T) any { return idSet[T](ids) }

type idSet[T string | int64] []T

// Value is the set as SQLite is given it.
func (s idSet[T]) Value() (driver.Value, error) {
	data, err := json.Marshal([]T(s))
	return string(data), err
}

// inByteSet is the same for a column of bytes, and byteSet its argument.
func inByteSet(column string) string { return column + inHex }

const inHex = " IN (SELECT unhex(value) FROM json_each(?))"

type byteSet [][]byte

// Value is the set as SQLite is given it, in hexadecimal.
func (s byteSet) Value() (driver.Value, error) {
	texts := make([]string, len(s))
	for i, b := range s {
		texts[i] = hex.EncodeToString(b)
	}
	data, err := json.Marshal(texts)
	return string(data), err
}

// pairs is a table that takes one argument, a list of pairs in JSON, and these are what
// its two are. PostgreSQL has another function for that (see translate).
const (
	pairs       = "json_each(?)"
	firstNumber = "CAST(value ->> 0 AS BIGINT)"
	otherNumber = "CAST(value ->> 1 AS BIGINT)"
	otherText   = "value ->> 1"
)

// member is what a JSON object in a column has under a key, which it takes as its argument.
func (s *Store) member(column string) string {
	if s.pg != nil {
		return "CAST(" + column + " AS json) ->> CAST(? AS text)"
	}
	return column + " ->> ?"
}

// unavailable wraps an error of a write as one that another try may not meet, unless a
// constraint was broken, which is a fault of ours.
func unavailable(err error) error {
	var e sqlite3.Error
	if err == nil || errors.As(err, &e) && e.Code == sqlite3.ErrConstraint || pgFault(err) || errors.Is(err, errPanic) {
		return err
	}
	return fmt.Errorf("%w: %w", windsock.ErrUnavailable, err)
}

// listTables lists the tables, once for each that they refer to, or once.
func (d dialect) listTables() string {
	if d == onSQLite {
		return `SELECT t.name, r."table" AS refers FROM sqlite_master t LEFT JOIN pragma_foreign_key_list(t.name) r
			WHERE t.type = 'table' AND t.name <> 'goose_db_version' AND t.name NOT LIKE 'sqlite%'`
	}
	return `SELECT t.relname AS name, r.relname AS refers FROM pg_class t
		LEFT JOIN pg_constraint c ON c.conrelid = t.oid AND c.contype = 'f' LEFT JOIN pg_class r ON r.oid = c.confrelid
		WHERE t.relkind = 'r' AND t.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND t.relname <> 'goose_db_version'`
}

// begin starts a transaction and reads where the log stands.
//
// Of SQLite's it has no context that can end: the driver would start a goroutine for each
// statement to watch it. What bounds a statement is that it waits for nobody.
func (s *Store) begin() (t *tx, err error) {
	if s.pg != nil {
		return s.beginOnServer()
	}
	ctx := context.Background()
	t = &tx{s: s}
	if t.conn, err = s.write.Connx(ctx); err != nil {
		return nil, err
	}
	err = inTurn(func() (err error) {
		t.sql, err = t.conn.BeginTxx(ctx, nil)
		return err
	})
	if err != nil {
		t.conn.Close()
		return nil, err
	}
	t.enter(`SELECT head, silenced_until FROM log`)
	return t, nil
}

// enter reads where the log stands; there is none at the first start.
func (t *tx) enter(query string) {
	t.rows(func(read func(...any) error) error { return read(&t.head, &t.silencedUntil) }, query)
}

// end gives the connection back. What is not committed is undone.
func (t *tx) end() {
	t.sql.Rollback()
	t.conn.Close()
}

func (t *tx) commit() error {
	if t.s.pg != nil {
		return t.commitOnServer()
	}
	return t.sql.Commit()
}

// execute executes a statement at once. SQLite's driver is told it directly: what database/sql
// makes anew for the arguments of each would be a third of the memory that a record takes.
func (t *tx) execute(query string, args []any) error {
	return t.conn.Raw(func(c any) (err error) {
		t.args = t.args[:0]
		for i, v := range args {
			if v, err = driver.DefaultParameterConverter.ConvertValue(v); err != nil {
				return err
			}
			t.args = append(t.args, driver.NamedValue{Ordinal: i + 1, Value: v})
		}
		_, err = c.(driver.ExecerContext).ExecContext(context.Background(), query, t.args)
		t.wrote++
		return err
	})
}

// later keeps a statement until send, where that is the quicker way.
func (t *tx) later(query string, args []any, set int) bool {
	if t.s.pg == nil {
		return false
	}
	if t.server.batch = append(t.server.batch, pgStatement{query, args, set}); len(t.server.batch) == pgBatchBound {
		t.send()
	}
	return true
}

// send executes what later kept, and returns the error of the transaction, if it has one.
func (t *tx) send() error {
	if t.err == nil && len(t.server.batch) > 0 {
		t.err = t.server.batch.send(t.conn)
	}
	t.server.batch = nil
	return t.err
}

// mayPass reports whether a transaction that failed may fail no more when it is tried again,
// after a pause. SQLite waits by itself.
func (s *Store) mayPass(err error, since time.Time) bool {
	return err != nil && s.pg != nil && s.passesOnServer(err, since)
}

// makeRoom moves the write-ahead log into the database. SQLite does so by itself once it
// has grown to some megabytes, which on a full disk never comes; most of it is older
// states of the same pages. It is called before each write after one that failed, so that
// room that comes free goes to the database first. PASSIVE waits for nobody.
func (s *Store) makeRoom() {
	if s.pg != nil {
		return
	}
	if _, err := s.write.Exec(`PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		s.Logger.Debug("the write-ahead log cannot be moved into the database", "error", err)
	}
}

// A file keeps the pages that came free and fills them again. Only when they are many
// are some given back: those at the end of the file are moved into free ones, and it is
// cut off.
const (
	freeShare = 4    // one page in so many may be free,
	freePages = 1024 // and so many anyway
	pagesBack = 256  // given back in one transaction
)

// giveBack gives some free room of the file back, and reports whether there is more. Of
// PostgreSQL that is autovacuum's business.
func (s *Store) giveBack(ctx context.Context) (more bool, err error) {
	if s.pg != nil {
		return false, nil
	}
	var pages, free int64
	return more, s.do(ctx, func(t *tx) error {
		t.get(&pages, `PRAGMA page_count`)
		t.get(&free, `PRAGMA freelist_count`)
		if more = free > freePages && free > pages/freeShare; !more {
			return t.err
		}
		before := free
		t.rows(func(func(...any) error) error { return nil }, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, pagesBack)) // a row for each page
		t.get(&free, `PRAGMA freelist_count`)
		more = free < before
		t.dirty = t.dirty || more
		return t.err
	})
}
