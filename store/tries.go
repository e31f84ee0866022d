package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"windsock"
)

type tryRow struct {
	ID           int64  `db:"id"`
	Result       string `db:"result"`
	At           int64  `db:"at"`
	Seq          int64  `db:"seq"`
	LastSeq      int64  `db:"last_seq"`
	Events       int    `db:"events"`
	Kind         string `db:"kind"`
	SubjectID    string `db:"subject_id"`
	DeploymentID string `db:"deployment_id"`
	Data         string `db:"data"`
}

func (s *Store) try(r *tryRow) (t windsock.Try, err error) {
	t = windsock.Try{
		ID: r.ID, BegunAt: fromMicros(r.At), Seq: r.Seq, LastSeq: r.LastSeq, Events: r.Events,
		Kind: windsock.Kind(r.Kind), SubjectID: r.SubjectID, DeploymentID: r.DeploymentID, Result: windsock.Result(r.Result),
	}
	if r.Events == 1 {
		t.EventID = windsock.EventID(s.logID, r.Seq)
	}
	if err := json.Unmarshal([]byte(r.Data), &t.TryData); err != nil {
		return t, fmt.Errorf("try %d: %w", r.ID, err)
	}
	return t, nil
}

// saveTries keeps the tries of a monitor, if it is still registered: they were made, in
// whatever round.
func (t *tx) saveTries(p *windsock.Progress) {
	for i := range p.Tries {
		y := &p.Tries[i]
		t.exec(`INSERT INTO tries (monitor_id, taken, result, at, seq, last_seq, events, kind, subject_id, deployment_id, data)
			SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM monitors WHERE id = ?`,
			y.Result == windsock.TryTaken, string(y.Result), micros(y.BegunAt), y.Seq, y.LastSeq, y.Events,
			string(y.Kind), y.SubjectID, y.DeploymentID, jsonText(y.TryData), p.MonitorID)
	}
}

// Tries returns those of a monitor that f selects, the newest first.
func (s *Store) Tries(ctx context.Context, monitorID string, f windsock.TryFilter) (tries windsock.Tries, err error) {
	var omitted []int64
	if err := (reader{ctx, s.read}).query(&omitted, `SELECT omitted FROM monitors WHERE id = ?`, monitorID); err != nil {
		return tries, err
	}
	if len(omitted) == 0 {
		return tries, notFound(windsock.KindMonitor, monitorID)
	}
	tries.Omitted = omitted[0]
	q := selecting(`SELECT id, result, at, seq, last_seq, events, kind, subject_id, deployment_id, data FROM tries`)
	q.where(`monitor_id = ?`, monitorID)
	q.whereIf(f.Before > 0, `id < ?`, f.Before)
	q.whereIf(!f.Since.IsZero(), `at >= ?`, micros(f.Since))
	q.whereIf(f.Result == windsock.TryTaken, `taken = 1`)
	q.whereIf(f.Result == windsock.TryFailed, `taken = 0`)
	q.whereIf(f.Result != "" && f.Result != windsock.TryTaken && f.Result != windsock.TryFailed, `taken = 0 AND result = ?`, string(f.Result))
	switch f.Of.Kind {
	case windsock.KindDeployment:
		q.where(`deployment_id = ?`, f.Of.ID)
	case windsock.KindInstance:
		q.where(`kind = 'instance' AND subject_id = ?`, f.Of.ID)
	}
	if f.Event != "" {
		seq, log, err := windsock.ParseEvent(f.Event)
		if err != nil || log != "" && log != s.logID {
			return tries, err
		}
		q.where(`seq <= ? AND last_seq >= ?`, seq, seq)
	}
	var rows []tryRow
	// By +id, so that PostgreSQL sorts those of the monitor, and does not go through all for the newest.
	if err := q.page(ctx, s.read, &rows, `+id DESC`, f.Limit); err != nil {
		return tries, err
	}
	tries.List = make([]windsock.Try, len(rows))
	for i := range rows {
		if tries.List[i], err = s.try(&rows[i]); err != nil {
			return tries, err
		}
	}
	return tries, nil
}

// Tries are kept for a time and, of each monitor, no more than so many that were taken,
// and as many that were not, so that those do not make room for these. Of all together so
// many are kept: with the longest answers, of 4 KiB, that is 1 GiB of disk.
const (
	triesAge   = 7 * 24 * time.Hour
	triesKept  = 500
	triesOfAll = 250_000
)

// pruneTries deletes what is no longer kept of the tries.
func (r *Retention) pruneTries(ctx context.Context) error {
	s := r.Store
	if err := r.inSteps(ctx, func() (bool, error) { return s.forgetTries(ctx) }); err != nil {
		return err
	}
	var over []crowd
	err := (reader{ctx, s.read}).query(&over, `SELECT monitor_id, taken, count(*) - ? AS n FROM tries
		GROUP BY monitor_id, taken HAVING count(*) > ?`, triesKept, triesKept)
	if err != nil {
		return err
	}
	return r.inSteps(ctx, func() (more bool, err error) {
		over, err = s.thin(ctx, over)
		return len(over) > 0, err
	})
}

// forgetTries deletes the first of the tries that are too old, or have too many newer
// ones behind them, and reports whether there are more.
func (s *Store) forgetTries(ctx context.Context) (more bool, err error) {
	const old = ` FROM (SELECT id, at FROM tries ORDER BY id LIMIT ?) AS first WHERE at < ? OR id <= (SELECT max(id) FROM tries) - ?`
	var n int
	cutoff := micros(s.now().Add(-triesAge))
	if err := s.read.GetContext(ctx, &n, `SELECT count(*)`+old, pruneStep, cutoff, triesOfAll); err != nil || n == 0 {
		return false, unavailable(err)
	}
	return n == pruneStep, s.do(ctx, func(t *tx) error {
		t.exec(`DELETE FROM tries WHERE id IN (SELECT id`+old+`)`, pruneStep, cutoff, triesOfAll)
		return t.err
	})
}

// A crowd are so many of the tries of one monitor that are too many.
type crowd struct {
	MonitorID string `db:"monitor_id"`
	Taken     bool   `db:"taken"`
	N         int64  `db:"n"`
}

// thin deletes the first of tries that are too many, and returns those that are left.
func (s *Store) thin(ctx context.Context, over []crowd) (left []crowd, err error) {
	if len(over) == 0 {
		return nil, nil
	}
	err = s.do(ctx, func(t *tx) error {
		left = over
		for room := int64(pruneStep); room > 0 && len(left) > 0; {
			c := left[0]
			n := min(room, c.N)
			t.exec(`DELETE FROM tries WHERE id IN (SELECT id FROM tries WHERE monitor_id = ? AND taken = ? ORDER BY id LIMIT ?)`, c.MonitorID, c.Taken, n)
			if room -= n; n == c.N {
				left = left[1:]
			} else {
				left[0].N -= n
			}
		}
		return t.err
	})
	return left, err
}
