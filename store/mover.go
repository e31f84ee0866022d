package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
)

// A mover moves SQLite's write-ahead log into the database. SQLite does that within the commit that
// finds it long, and whoever posts meanwhile waits for two fsyncs and all the pages. So it is done
// by a connection of its own, beside the commits. Only a log that grows faster than that is still
// moved by one of them.
type mover struct {
	db   *sqlx.DB     // nil: it is no SQLite
	n    atomic.Int64 // statements that wrote since it was last moved
	kick chan struct{}
}

const (
	moveAfter  = 300                    // statements, each of which writes some pages
	movePause  = 250 * time.Millisecond // after each time
	longestLog = 2000                   // pages; a writer that is connected anew has SQLite's 1000 again
)

func (m *mover) open(path string, writer *sqlx.DB) (err error) {
	m.kick = make(chan struct{}, 1)
	if m.db, err = connect(moverDSN(path), 1); err != nil {
		return err
	}
	_, err = writer.Exec(fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, longestLog))
	return err
}

// wrote notes that so many statements were committed.
func (m *mover) wrote(statements int) {
	if m.n.Add(int64(statements)) >= moveAfter {
		select {
		case m.kick <- struct{}{}:
		default:
		}
	}
}

// run moves the log until ctx ends. What cannot be moved now is with what follows it.
func (m *mover) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.kick:
		}
		m.n.Store(0)
		m.db.Exec(`PRAGMA wal_checkpoint(PASSIVE)`) // when that fails, so do commits, which say so
		select {
		case <-ctx.Done():
		case <-time.After(movePause):
		}
	}
}
