package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/mattn/go-sqlite3"
)

// A BackedUp says what a backup holds.
type BackedUp struct {
	Head  int64 // seq of the newest event
	Bytes int64
}

// Backup copies the database in the file path, with its key, to the file to, as it is at
// one moment; it may be in use, and whoever writes is not held up. There must be nothing
// at to yet. SQLite only.
func Backup(ctx context.Context, path, to string) (BackedUp, error) {
	return copyFile(ctx, path, to, func(*sqlx.DB) error { return nil })
}

// Restore makes a database in the file path of a backup. There must be none yet.
//
// What was logged since the backup is lost, and its numbers are given anew, to other
// events; so the log gets another id, of which those of events are made: nobody takes a
// new one for one that he has.
func Restore(ctx context.Context, backup, path string) (BackedUp, error) {
	return copyFile(ctx, backup, path, func(db *sqlx.DB) error {
		_, err := db.ExecContext(ctx, `UPDATE log SET id = ?`, uuid.NewString()[:8])
		return err
	})
}

// copyFile copies a database and its key, has change alter the copy, and checks that. The
// copy is there as a whole or not at all.
func copyFile(ctx context.Context, from, to string, change func(*sqlx.DB) error) (b BackedUp, err error) {
	if isURL(from) || isURL(to) {
		return b, errors.New("of a PostgreSQL pg_dump makes a backup")
	}
	for _, name := range []string{to, to + "-wal", to + ".key"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return b, fmt.Errorf("%s: there must be nothing yet: %w", name, fs.ErrExist)
		}
	}
	part := to + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL, 0o600) // it has secrets in it
	if err != nil {
		return b, err
	}
	defer os.Remove(part)
	if err = f.Close(); err == nil {
		err = copyPages(ctx, from, part)
	}
	if err != nil {
		return b, fmt.Errorf("database %s: %w", from, err)
	}
	if b, err = finish(ctx, part, change); err != nil {
		return b, fmt.Errorf("copy of database %s: %w", from, err)
	}
	switch key, err := os.ReadFile(from + ".key"); {
	case errors.Is(err, fs.ErrNotExist): // it never had components
	case err != nil:
		return b, err
	default:
		if err := putKey(to+".key", key); err != nil {
			return b, err
		}
	}
	return b, os.Rename(part, to)
}

// copyPages copies all pages at once: that is one look at the database, which others may
// go on to write. In steps it would begin anew at each commit of theirs.
func copyPages(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return onDriver(ctx, readerDSN(from), func(source *sqlite3.SQLiteConn) error {
		return onDriver(ctx, dsn(to, "_synchronous=FULL"), func(target *sqlite3.SQLiteConn) error {
			b, err := target.Backup("main", source, "main")
			if err != nil {
				return err
			}
			_, err = b.Step(-1)
			return errors.Join(err, b.Finish())
		})
	})
}

// onDriver has f use a connection of its own as the driver has it.
func onDriver(ctx context.Context, dsn string, f func(*sqlite3.SQLiteConn) error) error {
	db, err := sqlx.Open("sqlite3", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Raw(func(driver any) error { return f(driver.(*sqlite3.SQLiteConn)) })
}

// finish has change alter a copy, and checks that it is sound, and one of ours.
func finish(ctx context.Context, path string, change func(*sqlx.DB) error) (b BackedUp, err error) {
	db, err := connect(dsn(path, "_synchronous=FULL&_journal_mode=DELETE"), 1) // all in one file
	if err != nil {
		return b, err
	}
	defer db.Close()
	var verdict string
	if err := db.GetContext(ctx, &verdict, `PRAGMA quick_check(1)`); err != nil {
		return b, err
	}
	if verdict != "ok" {
		return b, fmt.Errorf("it is damaged: %s", verdict)
	}
	if err := change(db); err != nil {
		return b, err
	}
	if err := db.GetContext(ctx, &b.Head, `SELECT head FROM log`); err != nil {
		return b, err
	}
	if err := db.Close(); err != nil {
		return b, err
	}
	info, err := os.Stat(path)
	if err == nil {
		b.Bytes = info.Size()
	}
	return b, err
}
