package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
)

// Copied is what was copied of a table.
type Copied struct {
	Table string
	Rows  int64
	Sum   uint64 // of what is in them, in whatever order
}

// Copy copies all that one database holds into another, which has to be empty, and reads it
// there again. It tells of each table. When it returns an error nothing was copied.
//
// Either may be of either kind. What is written to the first meanwhile is not copied.
func Copy(ctx context.Context, from, to string, tell func(Copied)) error {
	source, err := openSource(ctx, from)
	if err != nil {
		return fmt.Errorf("database %s: %w", Redacted(from), err)
	}
	defer source.close()
	target, err := openTarget(ctx, to)
	if err != nil {
		return fmt.Errorf("database %s: %w", Redacted(to), err)
	}
	defer target.close()
	tables, err := target.tables(ctx)
	if err != nil {
		return err
	}
	for _, table := range tables {
		c, err := copyTable(ctx, source, target, table)
		if err != nil {
			return fmt.Errorf("copy %s: %w", table, err)
		}
		tell(c)
	}
	if err := copyKey(ctx, from, to, target); err != nil {
		return fmt.Errorf("the key of signal tokens: %w", err)
	}
	return target.tx.Commit()
}

// copyKey has the signal tokens that are out there stay valid.
func copyKey(ctx context.Context, from, to string, target *end) error {
	var key []byte
	var text string
	switch err := target.tx.GetContext(ctx, &text, `SELECT coalesce(max(signal_key), '') FROM log`); {
	case err != nil:
		return err
	case text != "":
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return err
		}
	case !isURL(from):
		if key, err = os.ReadFile(from + ".key"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if key == nil {
		return nil // none was made yet
	}
	if !isURL(to) {
		return putKey(to+".key", key)
	}
	_, err := target.tx.ExecContext(ctx, `UPDATE log SET signal_key = $1`, base64.StdEncoding.EncodeToString(key))
	return err
}

func copyTable(ctx context.Context, source, target *end, table string) (c Copied, err error) {
	rows, err := source.rows(ctx, table)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	if err := target.fill(ctx, table, rows); err != nil {
		return c, err
	}
	arrived, err := target.rows(ctx, table)
	if err != nil {
		return c, err
	}
	defer arrived.Close()
	for arrived.Next() {
	}
	if err := arrived.Err(); err != nil {
		return c, err
	}
	if arrived.n != rows.n || arrived.sum != rows.sum {
		return c, fmt.Errorf("%d rows with the sum %016x arrived as %d with %016x", rows.n, rows.sum, arrived.n, arrived.sum)
	}
	return Copied{table, rows.n, rows.sum}, nil
}

// An end is one of the databases that are copied from and to, in one transaction.
type end struct {
	dialect
	db   *sqlx.DB
	conn *sqlx.Conn
	tx   *sqlx.Tx
}

// openSource opens a database of which the schema is the one that we know.
func openSource(ctx context.Context, name string) (*end, error) {
	if _, err := os.Stat(name); err != nil && !isURL(name) {
		return nil, err
	}
	e, err := openEnd(ctx, name, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	var have, want int64
	p, err := provider(e.db, e.dialect)
	if err == nil {
		for _, m := range p.ListSources() {
			want = m.Version
		}
		err = e.tx.GetContext(ctx, &have, `SELECT max(version_id) FROM goose_db_version`)
	}
	switch {
	case err != nil:
	case have > want:
		err = tooNew(have, want)
	case have < want:
		err = fmt.Errorf("its schema is version %d, not %d: windsock migrate brings it up to date", have, want)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// openTarget opens a database in which there is nothing, and has it have our schema.
func openTarget(ctx context.Context, name string) (*end, error) {
	e, err := openEnd(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	err = e.isEmpty(ctx)
	e.close()
	if err != nil {
		return nil, err
	}
	if _, err := Migrate(ctx, name); err != nil {
		return nil, err
	}
	return openEnd(ctx, name, nil)
}

func openEnd(ctx context.Context, name string, opts *sql.TxOptions) (e *end, err error) {
	e = new(end)
	if isURL(name) {
		e.dialect = onPostgres
		c, err := pgConfig(name)
		if err != nil {
			return nil, err
		}
		e.db = pgPlain(c)
	} else {
		e.dialect = onSQLite
		dsn := writerDSN(name)
		if opts != nil {
			dsn = readerDSN(name)
		}
		if e.db, err = connect(dsn, 1); err != nil {
			return nil, err
		}
	}
	if e.conn, err = e.db.Connx(ctx); err == nil {
		e.tx, err = e.conn.BeginTxx(ctx, opts)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *end) close() {
	if e.tx != nil {
		e.tx.Rollback()
	}
	if e.conn != nil {
		e.conn.Close()
	}
	e.db.Close()
}

func (e *end) isEmpty(ctx context.Context) error {
	tables, err := e.tables(ctx)
	for _, table := range tables {
		var some []int
		if err := e.tx.SelectContext(ctx, &some, `SELECT 1 FROM `+table+` LIMIT 1`); err != nil {
			return err
		}
		if len(some) > 0 {
			return fmt.Errorf("it is not empty: there is something in the table %s", table)
		}
	}
	return err
}

// tables lists the tables, each after those that it refers to.
func (e *end) tables(ctx context.Context) (ordered []string, err error) {
	var rows []struct {
		Name   string         `db:"name"`
		Refers sql.NullString `db:"refers"`
	}
	if err := e.tx.SelectContext(ctx, &rows, e.listTables()); err != nil {
		return nil, err
	}
	refers := map[string][]string{}
	for _, r := range rows {
		refers[r.Name] = append(refers[r.Name], r.Refers.String)
	}
	var place func(name string)
	place = func(name string) {
		to, is := refers[name]
		if !is {
			return // placed already
		}
		delete(refers, name)
		for _, name := range to {
			place(name)
		}
		ordered = append(ordered, name)
	}
	for _, name := range slices.Sorted(maps.Keys(refers)) {
		place(name)
	}
	return ordered, nil
}

func (e *end) rows(ctx context.Context, table string) (*summed, error) {
	rows, err := e.tx.QueryContext(ctx, `SELECT * FROM `+table)
	if err != nil {
		return nil, err
	}
	s := &summed{Rows: rows}
	s.columns, s.err = rows.Columns()
	s.values, s.byName = make([]any, len(s.columns)), make([]int, len(s.columns))
	for i := range s.byName {
		s.byName[i] = i
	}
	slices.SortFunc(s.byName, func(a, b int) int { return strings.Compare(s.columns[a], s.columns[b]) })
	return s, nil
}

// fill writes rows into a table.
func (e *end) fill(ctx context.Context, table string, rows *summed) error {
	if e.dialect == onPostgres {
		err := e.conn.Raw(func(c any) error {
			_, err := c.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table}, rows.columns, rows)
			return err
		})
		if err != nil {
			return err
		}
		return e.goOn(ctx, table)
	}
	insert, err := e.tx.PrepareContext(ctx, `INSERT INTO `+table+` (`+strings.Join(rows.columns, ", ")+`) VALUES (?`+strings.Repeat(", ?", len(rows.columns)-1)+`)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for rows.Next() {
		if _, err := insert.ExecContext(ctx, rows.values...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// goOn has what PostgreSQL numbers by itself go on where the rows end.
func (e *end) goOn(ctx context.Context, table string) error {
	var columns []string
	err := e.tx.SelectContext(ctx, &columns, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'YES'`, table)
	for _, column := range columns {
		if err == nil {
			_, err = e.tx.ExecContext(ctx, `SELECT setval(pg_get_serial_sequence($1, $2), coalesce(max(`+column+`), 0) + 1, false) FROM `+table, table, column)
		}
	}
	return err
}

// summed are rows that are counted and summed up as they are read. CopyFrom reads them so.
type summed struct {
	*sql.Rows
	columns []string
	byName  []int // the order in which they are summed up
	values  []any
	n       int64
	sum     uint64
	err     error
}

// Next reads a row, and adds it to the sum.
func (s *summed) Next() bool {
	if s.err != nil || !s.Rows.Next() {
		return false
	}
	fields := make([]any, len(s.values))
	for i := range s.values {
		fields[i] = &s.values[i]
	}
	if s.err = s.Scan(fields...); s.err != nil {
		return false
	}
	var row []byte
	for _, i := range s.byName {
		switch v := s.values[i].(type) {
		case int64:
			row = binary.BigEndian.AppendUint64(append(row, 'i'), uint64(v))
		case string:
			text := pgText(v) // or the one kind of database could hold what the other cannot
			s.values[i] = text
			row = append(binary.BigEndian.AppendUint64(append(row, 't'), uint64(len(text))), text...)
		case []byte:
			row = append(binary.BigEndian.AppendUint64(append(row, 'b'), uint64(len(v))), v...)
		default:
			s.err = fmt.Errorf("column %s has a %T", s.columns[i], v)
			return false
		}
	}
	hash := sha256.Sum256(row)
	s.sum += binary.BigEndian.Uint64(hash[:])
	s.n++
	return true
}

// Values are those of the row that was read.
func (s *summed) Values() ([]any, error) { return s.values, nil }

// Err is what ended the reading, but for the end.
func (s *summed) Err() error {
	if s.err != nil {
		return s.err
	}
	return s.Rows.Err()
}
