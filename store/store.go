// Package store keeps the model of reality, the evidence it rests on and the log of
// its changes, in SQLite or PostgreSQL. Whatever was observed comes in through Record and
// nowhere else.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/semaphore"

	"windsock"
)

// Options are what a Store may be told.
type Options struct {
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default slog.Default
	Metrics *Metrics         // default: none are kept
	Planner Planner          // nil: there are no deployables
	Key     []byte           // of signal tokens; nil: that of the file beside the database, which is made when it is missing

	Name  string          // of this process, and its roles, for others to read
	Roles []windsock.Role // default: all
}

// Store is one database. Its methods may be called by any number of goroutines.
type Store struct {
	Options
	write *sqlx.DB // one connection, whose transactions are immediate
	read  *sqlx.DB
	eye   *sqlx.DB // one connection, that watches the others
	mover mover
	pg    *pgx.ConnConfig // nil: it is SQLite
	logID string

	queue    queue        // what waits for the next commit
	failedAt atomic.Int64 // when a commit last failed; 0: events have been committed since
	deadline atomic.Int64 // the next one, in microseconds; 0: none is known
	head     atomic.Int64 // seq of the newest event that was seen committed
	beat     atomic.Int64 // when Run last went round
	news     broadcast    // wakes those who wait for events
	work     waiters      // those who wait for what an instance is to run
	tokens   tokens       // that were used lately

	id         int64                  // of this process
	address    atomic.Pointer[string] // that it answers on
	opened     time.Time
	neighbours neighbours
	terms      terms
	deaf       bool         // hears no bell; a test in virtual time would wait for it for ever
	rung       atomic.Int64 // what others committed that a server told of
	stirred    atomic.Bool  // another process committed something since the clock last looked
	moved      broadcast    // wakes those who wait for that

	reading *semaphore.Weighted // deployables, one at a time
}

// Open opens a database, in a file or of the PostgreSQL that a URL names, and brings its
// schema up to date. It refuses a schema that is newer than it knows.
//
// Deadlines that would have passed while no windsock had the database open are put
// off by as long as that was: nobody could have met them.
func Open(ctx context.Context, db string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Roles == nil {
		o.Roles = windsock.Roles
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	s := &Store{
		Options: o, news: newBroadcast(), moved: newBroadcast(), opened: time.Now(), terms: newTerms(), reading: semaphore.NewWeighted(1),
	}
	err := s.open(ctx, db)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("database %s: %w", Redacted(db), err)
	}
	return s, nil
}

// LogID tells this log from all others.
func (s *Store) LogID() string { return s.logID }

func (s *Store) open(ctx context.Context, db string) error {
	open := s.openFile
	if isURL(db) {
		open = s.openServer
	}
	if err := open(ctx, db); err != nil {
		return err
	}
	s.Metrics.watch(s)
	return s.resume(ctx)
}

func (s *Store) openFile(ctx context.Context, path string) (err error) {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return err
	}
	if s.neighbours, err = meet(path); err != nil {
		return err
	}
	if s.write, err = connect(writerDSN(path), 1); err != nil {
		return err
	}
	if _, err = migrateFile(ctx, s.write, s.neighbours); err != nil {
		return err
	}
	if s.read, err = connect(readerDSN(path), readers); err != nil { // after the file and its schema are there
		return err
	}
	if err = s.mover.open(path, s.write); err != nil {
		return err
	}
	if s.Key == nil && s.Planner != nil {
		if s.Key, err = keyOf(path + ".key"); err != nil {
			return err
		}
	}
	s.eye, err = connect(readerDSN(path), 1)
	return err
}

// resume reads where the log stands and shifts the deadlines by our own down time, if no
// other process was up.
func (s *Store) resume(ctx context.Context) error {
	return s.do(ctx, func(t *tx) error {
		now := t.micros
		t.exec(`INSERT INTO log (one, id, alive_at) VALUES (1, ?, ?) ON CONFLICT DO NOTHING`, uuid.NewString()[:8], now)
		var l struct {
			ID      string `db:"id"`
			AliveAt int64  `db:"alive_at"`
		}
		t.get(&l, `SELECT id, alive_at FROM log`)
		s.logID = l.ID
		if down := now - l.AliveAt; down > 0 && s.alone() {
			t.exec(`UPDATE evidence SET expires_at = expires_at + ? WHERE expires_at > ?`, down, l.AliveAt)
			t.exec(`UPDATE evidence SET stale_at = stale_at + ? WHERE stale_at > ?`, down, l.AliveAt)
			t.exec(`UPDATE instances SET deadline_at = deadline_at + ? WHERE deadline_at > ?`, down, l.AliveAt)
			t.exec(`UPDATE deployments SET deadline_at = deadline_at + ? WHERE deadline_at > ?`, down, l.AliveAt)
			for _, table := range [...]string{`instances`, `deployments`} {
				t.exec(`UPDATE `+table+` SET unstable_until = unstable_until + ? WHERE unstable_until > ?`, down, l.AliveAt)
			}
			t.rouseAll() // the end of a maintenance does not move
			t.exec(`UPDATE components SET deadline_at = deadline_at + ? WHERE deadline_at > ?`, down, l.AliveAt)
			t.shiftLeases(down, l.AliveAt)
			t.exec(`UPDATE providers SET lost_at = lost_at + ? WHERE lost_at > ?`, down, l.AliveAt)
		}
		t.shareKey()
		t.alive()
		t.join()
		return t.err
	})
}

// Close marks until when the store was in use and closes the database. Nothing may be
// under way or follow.
func (s *Store) Close() error {
	var errs []error
	if s.read != nil {
		errs = append(errs, s.do(context.Background(), func(t *tx) error {
			t.alive()
			t.noteUses()
			t.leave()
			return t.err
		}), s.read.Close())
	}
	if s.eye != nil {
		errs = append(errs, s.eye.Close())
	}
	if s.mover.db != nil {
		errs = append(errs, s.mover.db.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	errs = append(errs, s.neighbours.leave()) // the last: until then we are there
	return errors.Join(errs...)
}

// failureLasts is how long a commit that failed speaks against the store. What Ping
// writes is little, and may find room on a disk that is full for all else.
const failureLasts = 10 * time.Second

// Ping writes and commits something, so that it fails when nothing can be stored, or
// could not be a moment ago.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.markAlive(ctx); err != nil {
		return err
	}
	if at := s.failedAt.Load(); at != 0 && s.now().Sub(fromMicros(at)) < failureLasts {
		return fmt.Errorf("%w: a commit failed at %s", windsock.ErrUnavailable, fromMicros(at).Format(time.RFC3339))
	}
	return nil
}

func (s *Store) markAlive(ctx context.Context) error {
	return s.do(ctx, func(t *tx) error {
		t.alive()
		return t.err
	})
}

// broadcast is a channel that is closed, and replaced, when there is news.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() broadcast { return broadcast{ch: make(chan struct{})} }

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

// micros and its inverse are how times are kept; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// now is the present, as precise as it is kept.
func (s *Store) now() time.Time { return fromMicros(s.Now().UnixMicro()) }
