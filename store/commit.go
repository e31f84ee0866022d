package store

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"windsock"
)

// Group commit. Whoever wants to write puts what he wants in the queue. The first to
// find nobody at work commits all that is queued, in one transaction and so with one
// fsync, and hands the work to the first of those who came meanwhile. So a batch is what
// arrived during the commit before it: no timer, and no delay when there is nothing else.

// queueBound is how many may wait to be written. Each is somebody who waits for an
// answer, so this is met only when the disk stalls.
const queueBound = 16384

// batchBound is how many observations or other writes one commit takes, so that none waits long.
const batchBound = 4096

// An op is what one caller wants written: observations, a signal, or anything else as do.
type op struct {
	ctx  context.Context
	now  time.Time
	obs  []windsock.Observation
	out  []windsock.Outcome
	said *hearing
	do   func(*tx) error
	err  error
	turn chan bool // true: it is yours to commit; false: it is done

	span  trace.Span     // if it is recorded, of this op alone
	trace windsock.Trace // in which it is
	seq   int64          // of the newest event that came of it
}

type queue struct {
	mu      sync.Mutex
	waiting []*op
	busy    bool
}

// do runs f in a transaction of its own or of others, and returns after the commit.
// When f returns an error nothing of what it did is kept. If a transaction fails for what
// may pass, f is run once more.
func (s *Store) do(ctx context.Context, f func(*tx) error) error {
	o := &op{ctx: ctx, do: f}
	s.submit(o)
	return o.err
}

// submit returns when o is committed, or is known not to be.
func (s *Store) submit(o *op) {
	if o.err = o.ctx.Err(); o.err != nil {
		return
	}
	o.turn = make(chan bool, 1)
	o.now = s.now()
	o.begin()
	q := &s.queue
	q.mu.Lock()
	if len(q.waiting) >= queueBound {
		q.mu.Unlock()
		o.err = fmt.Errorf("%w: %d writes wait already", windsock.ErrUnavailable, queueBound)
		o.end(0)
		return
	}
	q.waiting = append(q.waiting, o)
	mine := !q.busy
	q.busy = true
	q.mu.Unlock()
	if mine || <-o.turn {
		s.commitNext()
	}
}

// commitNext commits the ops at the head of the queue and passes the work on.
func (s *Store) commitNext() {
	q := &s.queue
	q.mu.Lock()
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size < batchBound) {
		size += max(1, len(q.waiting[n].obs))
		n++
	}
	ops := q.waiting[:n:n]
	q.waiting = append([]*op(nil), q.waiting[n:]...)
	q.mu.Unlock()

	s.commit(ops)

	q.mu.Lock()
	if len(q.waiting) > 0 {
		q.waiting[0].turn <- true
	} else {
		q.busy = false
	}
	q.mu.Unlock()
	for _, o := range ops {
		o.end(len(ops))
		o.turn <- false // nobody hears the one of the committer itself
	}
}

// commit writes ops in one transaction. A failure of the transaction is the answer to
// all of them.
func (s *Store) commit(ops []*op) {
	if s.failedAt.Load() != 0 {
		s.makeRoom()
	}
	start := time.Now()
	written, err := s.transact(ops)
	for s.mayPass(err, start) {
		written, err = s.transact(ops)
	}
	if err != nil {
		err = unavailable(err)
		s.failedAt.Store(micros(s.now()))
		for _, o := range ops {
			if o.err == nil {
				o.err, o.out = err, nil
			}
		}
		return
	}
	if written {
		s.Metrics.committed(time.Since(start), ops)
	}
}

func (s *Store) transact(ops []*op) (written bool, err error) {
	t, err := s.begin()
	if err != nil {
		return false, err
	}
	defer t.end()
	if err := safely(func() error { return t.write(ops) }); err != nil {
		return false, err
	}
	if !t.dirty {
		return false, nil // an fsync for nothing
	}
	if err := t.commit(); err != nil {
		return false, err
	}
	s.ring()
	s.mover.wrote(t.wrote)
	if len(t.events) > 0 {
		s.failedAt.Store(0)
	}
	s.Metrics.logged(t.events)
	for _, f := range t.after {
		f()
	}
	s.sooner(t.deadline)
	s.advance(t.head)
	return true, nil
}

// write writes ops, but does not commit.
func (t *tx) write(ops []*op) error {
	before := t.head
	for i := 0; i < len(ops) && t.err == nil; {
		j := i + 1
		for j < len(ops) && ops[j].joins(ops[i]) {
			j++
		}
		switch {
		case ops[i].do != nil:
			t.one(ops[i])
		case ops[i].said != nil:
			t.signal(ops[i:j])
		default:
			t.record(ops[i:j])
		}
		i = j
	}
	if t.head != before {
		t.exec(`UPDATE log SET head = ?, alive_at = ?`, t.head, micros(t.s.now()))
	}
	return t.err
}

// joins reports whether o is worked on together with another that came just before.
func (o *op) joins(before *op) bool {
	return o.do == nil && before.do == nil && (o.said == nil) == (before.said == nil)
}

// advance tells those who wait that the log has come to head.
func (s *Store) advance(head int64) {
	for {
		old := s.head.Load()
		if head <= old {
			return
		}
		if s.head.CompareAndSwap(old, head) {
			s.news.send()
			return
		}
	}
}

// tx is a transaction under way. After its first error it does nothing more.
type tx struct {
	s      *Store
	conn   *sqlx.Conn
	sql    *sqlx.Tx
	args   []driver.NamedValue // of the statement that was executed last
	server session             // where it is PostgreSQL's
	now    time.Time           // when the op that is being written arrived
	micros int64               // the same
	op     *op                 // that
	head   int64               // seq of the newest event,
	headAt int64               // and when it was, if it is of this transaction
	events []windsock.EventType
	after  []func()         // what follows once it is committed
	dirty  bool             // something was written
	wrote  int              // in so many statements, where it is SQLite
	fences map[string]int64 // of what this process holds; nil: not read yet

	deadline int64 // the first that was written; 0: none
	err      error

	silencedUntil int64              // until when any silence lasts; 0: none does
	silences      []windsock.Silence // that are, once they were asked for

	plans map[string]windsock.Plan // that were made before; nil: it is not begun again
}

// at has what follows be done for o.
func (t *tx) at(o *op) { t.op, t.now, t.micros = o, o.now, micros(o.now) }

// one runs an op that is not a record; when it fails, alone.
func (t *tx) one(o *op) {
	if o.err = t.admit(o); o.err != nil {
		return
	}
	t.at(o)
	o.err = t.attempt(func(t *tx) error { return cmp.Or(o.do(t), t.keepAct(o.ctx)) })
}

// attempt runs f, of which nothing is kept when it fails.
func (t *tx) attempt(f func(*tx) error) error {
	head, headAt, events, after, dirty := t.head, t.headAt, len(t.events), len(t.after), t.dirty
	t.run(`SAVEPOINT op`)
	if t.err != nil {
		return nil
	}
	err := cmp.Or(safely(func() error { return f(t) }), t.send())
	if err == nil {
		t.run(`RELEASE op`)
		return nil
	}
	if t.err != nil {
		err = unavailable(t.err)
	}
	t.err, t.head, t.headAt, t.events, t.after, t.dirty = nil, head, headAt, t.events[:events], t.after[:after], dirty
	t.fences = nil
	t.run(`ROLLBACK TO op`)
	t.run(`RELEASE op`)
	return err
}

// errPanic is a fault of ours, which is not worth another try.
var errPanic = errors.New("internal error")

// safely returns a panic of f as its error: those who wait for what f has must not wait for
// ever.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return f()
}

// exec writes.
func (t *tx) exec(query string, args ...any) {
	t.run(query, args...)
	t.dirty = true
}

// put writes a row, of those with the same query each time another one until the next
// flush: so PostgreSQL may be told to write them all at once.
func (t *tx) put(query string, args ...any) {
	if t.err == nil && !t.later(query, args, t.server.sets+1) {
		t.err = t.execute(query, args)
	}
	t.dirty = true
}

func (t *tx) run(query string, args ...any) {
	if t.err == nil && !t.later(query, args, 0) {
		t.err = t.execute(query, args)
	}
}

func (t *tx) get(dest any, query string, args ...any) {
	if t.send() == nil {
		t.err = t.sql.Get(dest, query, args...)
	}
}

// rows reads a set by hand: where thousands of rows a second are read, finding the fields
// by their names takes as long as SQLite does. The fields are those of scan, in the order
// of the columns.
func (t *tx) rows(scan func(read func(fields ...any) error) error, query string, args ...any) {
	if t.send() != nil {
		return
	}
	rows, err := t.sql.Query(query, args...)
	if err != nil {
		t.err = err
		return
	}
	defer rows.Close()
	for rows.Next() && err == nil {
		err = scan(rows.Scan)
	}
	t.err = cmp.Or(err, rows.Err())
}

func (t *tx) all(dest any, query string, args ...any) {
	if t.send() == nil {
		t.err = t.sql.Select(dest, query, args...)
	}
}

// due notes a deadline that was written; 0 is none.
func (t *tx) due(deadline int64) {
	if deadline != 0 && (t.deadline == 0 || deadline < t.deadline) {
		t.deadline = deadline
	}
}

// alive notes that we are.
func (t *tx) alive() { t.exec(`UPDATE log SET alive_at = ?`, micros(t.s.now())) }
