package store

import (
	"context"
	"sort"
	"time"

	"github.com/jmoiron/sqlx"

	"windsock"
)

// aDay is how long before its end it begins where nobody says.
const aDay = 24 * time.Hour

// Availability adds up how a subject was from one moment to another, as far as the log
// and the subject reach back. Zero times are a day ago, and now. What it costs follows
// the events of the deployment in that time; there is no index of those of an instance.
func (s *Store) Availability(ctx context.Context, subject windsock.Subject, from, to time.Time) (a windsock.Availability, err error) {
	now := s.now()
	if to.IsZero() || to.After(now) {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-aDay)
	}
	if !from.Before(to) {
		return a, windsock.Invalid("from", "want a time that is past, and before to")
	}
	tx, err := s.read.BeginTxx(ctx, nil)
	if err != nil {
		return a, unavailable(err)
	}
	defer tx.Rollback()
	r := snapshot{ctx, tx}
	l, err := lifeOf(r, subject)
	if err != nil {
		return a, err
	}
	t, err := r.timeline(&l, from, to)
	if err != nil {
		return a, unavailable(err)
	}
	a = t.End()
	a.Subject = l.Subject
	a.Truncated = a.From.After(from)
	return a, nil
}

// A snapshot reads what was committed when it read first.
type snapshot struct {
	ctx context.Context
	tx  *sqlx.Tx
}

func (r snapshot) query(dest any, query string, args ...any) error {
	return unavailable(r.tx.SelectContext(r.ctx, dest, query, args...))
}

// life is what the row of a subject says of its past.
type life struct {
	windsock.Subject
	deployment       string
	created, since   time.Time // since when it is there, and in its state
	state, expected  windsock.State
	changed, declare windsock.EventType // the events that say how it is
}

func lifeOf(r queryer, subject windsock.Subject) (life, error) {
	if subject.Kind == windsock.KindDeployment {
		d, err := viewDeployment(r, subject.ID, ourID, theirID)
		subject.ID = d.ID
		return life{subject, d.ID, d.CreatedAt, d.Since, d.State, d.Expected, windsock.DeploymentState, windsock.DeploymentDeclared}, err
	}
	i, err := viewInstance(r, subject.ID, ourID, theirID)
	subject.ID = i.ID
	return life{subject, i.DeploymentID, i.CreatedAt, i.Since, i.State, i.Expected, windsock.InstanceState, windsock.InstanceDeclared}, err
}

// changeRow is an event that says how a subject is from then on.
type changeRow struct {
	At       int64  `db:"at"`
	Type     string `db:"type"`
	Previous string `db:"previous"`
	State    string `db:"state"`
	Expected string `db:"expected"`
}

// changes are those of a subject between two seqs.
func (l *life) changes(after, before int64) *query {
	q := selecting(`SELECT at, type, previous, state, expected FROM events`)
	q.where(`deployment_id = ? AND seq > ? AND seq < ?`, l.deployment, after, before)
	q.where(`kind = ? AND subject_id = ? AND type IN (?, ?)`, string(l.Kind), l.ID, string(l.changed), string(l.declare))
	return q
}

// timeline is how the subject was, from when on that is known.
func (r snapshot) timeline(l *life, from, to time.Time) (*windsock.Timeline, error) {
	kept, err := r.extent()
	if err != nil {
		return nil, err
	}
	begin := later(from, l.created)
	if kept.Pruned > 0 && l.since.After(begin) { // it changed in a part of the log that may be gone
		var oldest []int64
		if err := r.query(&oldest, `SELECT at FROM events ORDER BY seq LIMIT 1`); err != nil {
			return nil, err
		}
		known := l.since
		if len(oldest) > 0 {
			known = earlier(known, fromMicros(oldest[0]))
		}
		begin = later(begin, known)
	}
	first, err := seqAt(r, kept, micros(begin))
	if err != nil {
		return nil, err
	}
	end, err := seqAt(r, kept, micros(to))
	if err != nil {
		return nil, err
	}
	var t *windsock.Timeline
	start := func(at time.Time, state, expected string) {
		t = windsock.NewTimeline(earlier(at, to), to, windsock.State(state), windsock.State(expected))
	}
	var last []changeRow
	q := l.changes(0, first)
	if err := r.query(&last, q.text.String()+` ORDER BY seq DESC LIMIT 1`, q.args...); err != nil {
		return nil, err
	}
	if len(last) > 0 {
		start(begin, last[0].State, last[0].Expected)
	}
	q = l.changes(first-1, end)
	rows, err := r.tx.QueryxContext(r.ctx, q.text.String()+` ORDER BY seq`, q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c changeRow
		if err := rows.StructScan(&c); err != nil {
			return nil, err
		}
		at := fromMicros(c.At)
		switch {
		case t != nil:
		case c.Type == string(l.declare): // of what was before there is no event: it moved, or that is pruned
			start(later(begin, at), c.State, c.Expected)
		default:
			start(begin, c.Previous, c.Expected)
		}
		t.Change(at, windsock.State(c.State), windsock.State(c.Expected))
	}
	if t == nil {
		start(later(begin, l.since), string(l.state), string(l.expected))
	}
	return t, rows.Err()
}

func (r snapshot) extent() (l extent, err error) {
	return l, r.tx.GetContext(r.ctx, &l, `SELECT head, pruned FROM log`)
}

// seqAt returns the first seq of what happened at a time or later. It is found by
// bisection: times rise with seq, but for a clock that was set back.
func seqAt(r queryer, kept extent, at int64) (int64, error) {
	var err error
	n := sort.Search(int(kept.Head-kept.Pruned), func(i int) bool {
		var next []int64
		if err == nil {
			err = r.query(&next, `SELECT at FROM events WHERE seq >= ? ORDER BY seq LIMIT 1`, kept.Pruned+1+int64(i))
		}
		return len(next) == 0 || next[0] >= at
	})
	return kept.Pruned + 1 + int64(n), err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
