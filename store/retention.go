package store

import (
	"context"
	"strings"
	"time"

	"windsock"
)

// Retention keeps the log, the tries and the acts from growing for ever. Store, Age, Events and
// Horizon are to be set.
//
// An event is old when it is older than Age, or when Events newer ones are there. Old
// events are deleted once every monitor is past them. A monitor that is behind holds
// them, but no further than Horizon times these bounds: then it loses all that is old,
// and the log says so.
type Retention struct {
	Store   *Store
	Age     time.Duration
	Events  int64
	Horizon int64
	Every   time.Duration // from one pass to the next; default a minute
}

// pruneStep is how many events one transaction deletes: whoever writes meanwhile waits
// for no more than that. Afterwards the writer is left to the others for pruneRest times
// as long as it took.
const (
	pruneStep = 500
	pruneRest = 3
)

// countStep is how many events are looked at in one query where many are counted, as one
// that goes on for long keeps the write-ahead log from being emptied.
const countStep = 100_000

// Run prunes until ctx ends. It returns nil. The first pass waits, too: after a start
// the monitors first hear what is due.
func (r *Retention) Run(ctx context.Context) error {
	every := r.Every
	if every == 0 {
		every = time.Minute
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := r.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			r.Store.Logger.Error("old events are not deleted, will go on trying", "error", err)
		case err == nil && failing:
			r.Store.Logger.Info("old events are deleted again")
		}
		failing = err != nil
	}
}

// pass deletes what is old now.
func (r *Retention) pass(ctx context.Context) error {
	old, err := r.old(ctx, 1)
	if err != nil {
		return err
	}
	if old > 0 {
		horizon, err := r.old(ctx, r.Horizon)
		if err != nil {
			return err
		}
		if horizon > 0 {
			if err := r.leaveBehind(ctx, horizon, old); err != nil {
				return err
			}
		}
		if err := r.inSteps(ctx, func() (bool, error) { return r.Store.prune(ctx, old) }); err != nil {
			return err
		}
		if err := r.Store.forgetPassed(ctx); err != nil {
			return err
		}
	}
	if err := r.pruneTries(ctx); err != nil {
		return err
	}
	if err := r.inSteps(ctx, func() (bool, error) { return r.forgetActs(ctx) }); err != nil {
		return err
	}
	if err := r.inSteps(ctx, func() (bool, error) { return r.Store.sweepGone(ctx) }); err != nil {
		return err
	}
	return r.inSteps(ctx, func() (bool, error) { return r.Store.giveBack(ctx) })
}

// inSteps takes one step after the other, with rests, until there are no more.
func (r *Retention) inSteps(ctx context.Context, step func() (more bool, err error)) error {
	for {
		begun := time.Now()
		more, err := step()
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pruneRest * time.Since(begun)):
		}
	}
}

// old returns the seq of the newest event that is beyond so many times the bounds; 0
// when none is that is still kept.
func (r *Retention) old(ctx context.Context, times int64) (int64, error) {
	l, err := r.Store.extent(ctx)
	if err != nil {
		return 0, err
	}
	cutoff := micros(r.Store.now().Add(-time.Duration(times) * r.Age))
	first, err := seqAt(reader{ctx, r.Store.read}, l, cutoff)
	if err != nil {
		return 0, err
	}
	seq := max(first-1, l.Head-times*r.Events)
	if seq <= l.Pruned {
		return 0, nil
	}
	return seq, nil
}

// extent is which part of the log is kept.
type extent struct {
	Head   int64 `db:"head"`
	Pruned int64 `db:"pruned"`
}

func (s *Store) extent(ctx context.Context) (l extent, err error) {
	return l, unavailable(s.read.GetContext(ctx, &l, `SELECT head, pruned FROM log`))
}

// prune deletes the first of the events up to a seq that every monitor is past, and
// reports whether there are more.
func (s *Store) prune(ctx context.Context, to int64) (more bool, err error) {
	var n int64
	err = s.do(ctx, func(t *tx) error {
		var pruned, held int64
		t.get(&pruned, `SELECT pruned FROM log`)
		t.get(&held, `SELECT coalesce(min(seq), ?) FROM (
			SELECT min(cursor) AS seq FROM monitors UNION ALL SELECT min(first_seq) - 1 FROM lanes) AS held`, to)
		end := min(to, held, pruned+pruneStep)
		if n = end - pruned; n <= 0 {
			return t.err
		}
		t.exec(`DELETE FROM events WHERE seq <= ?`, end)
		t.exec(`UPDATE log SET pruned = ?`, end)
		return t.err
	})
	if err != nil || n <= 0 {
		return false, err
	}
	s.Metrics.pruned.Add(float64(n))
	return n == pruneStep, nil
}

// leaveBehind moves the monitors that are not yet past horizon to the seq to.
func (r *Retention) leaveBehind(ctx context.Context, horizon, to int64) error {
	targets, err := r.Store.Targets(ctx)
	if err != nil {
		return err
	}
	for i := range targets {
		if t := &targets[i]; behind(t.Cursor, t.Progress.Lanes) < horizon {
			if err := r.Store.leaveBehind(ctx, t, horizon, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// behind is the seq up to which a monitor needs no event any more: that of its cursor,
// or before the first that waits in a lane.
func behind(cursor int64, lanes []windsock.Lane) int64 {
	for _, l := range lanes {
		cursor = min(cursor, l.FirstSeq-1)
	}
	return cursor
}

// leaveBehind moves one monitor and its lanes to the seq to, and logs what it loses, if it
// is anything. To count what is beyond the cursor takes long, and so is done before; the
// monitor may have got further since.
func (s *Store) leaveBehind(ctx context.Context, m *windsock.Target, horizon, to int64) error {
	lost, err := waiting(reader{ctx, s.read}, m, m.Cursor, to, windsock.Subject{})
	if err != nil {
		return err
	}
	return s.do(ctx, func(t *tx) error {
		now, err := viewMonitor(t, m.ID)
		if there, err := present(err); err != nil || !there {
			return err
		}
		first := behind(now.Cursor, now.Progress.Lanes) + 1
		if first > horizon || now.Progress.Round != m.Progress.Round {
			return nil // in another round it is another matter, for the next pass
		}
		heard, err := waiting(t, m, m.Cursor, min(now.Cursor, to), windsock.Subject{})
		if err != nil {
			return err
		}
		lost := lost - heard
		for _, l := range now.Progress.Lanes {
			n, err := waiting(t, m, l.FirstSeq-1, min(now.Cursor, to), l.Subject)
			if err != nil {
				return err
			}
			lost += n
		}
		if lost > 0 {
			e := gap(&m.Monitor, first, to, lost)
			t.log(&e)
			s.Logger.Warn("a monitor that is too far behind loses events", "monitor", m.ID, "first_seq", first, "last_seq", to, "lost", lost)
		}
		t.passOver(m.ID, to, windsock.ReasonLost)
		// In another round, so that what the deliverer saves meanwhile does not undo it.
		t.exec(`UPDATE monitors SET cursor = ?, round = round + 1 WHERE id = ?`, max(now.Cursor, to), m.ID)
		t.exec(`UPDATE lanes SET first_seq = ? WHERE monitor_id = ? AND first_seq <= ?`, to+1, m.ID, to)
		return t.err
	})
}

// gap is the event that a monitor lost others.
func gap(m *windsock.Monitor, first, last, lost int64) windsock.Event {
	e := windsock.Event{Type: windsock.LogGap, Kind: windsock.KindLog, SubjectID: m.ID}
	e.FirstSeq, e.LastSeq, e.Lost = first, last, lost
	locate(&e, m.Scope)
	return e
}

// locate has an event that a monitor is to hear of itself lie in the monitor's scope.
func locate(e *windsock.Event, scope windsock.Scope) {
	e.Scope = scope
	switch kind, id, _ := strings.Cut(string(scope), ":"); kind {
	case "provider":
		e.Provider = id
	case "pool":
		e.Pool = id
	case "deployment":
		e.DeploymentID = id
	}
}

// waiting counts the events after one seq, up to another, that a monitor is to be told:
// about one subject or, if that is zero, any.
func waiting(r queryer, m *windsock.Target, after, to int64, of windsock.Subject) (n int64, err error) {
	for {
		from, end := m.Progress.Window.Next(after)
		if from >= to {
			return n, nil
		}
		after = min(to, end, from+countStep)
		part, err := concerning(r, &m.Monitor, from, after, of)
		if err != nil {
			return 0, err
		}
		n += part.Count
	}
}

// concerning counts the events after one seq, up to another, that a monitor is called
// back for: about one subject or, if that is zero, any.
func concerning(r queryer, m *windsock.Monitor, after, to int64, of windsock.Subject) (all windsock.Replayed, err error) {
	q := selecting(`SELECT kind, word, source, CASE WHEN kind = 'monitor' THEN type ELSE '' END AS type,
		CASE WHEN kind = 'monitor' OR kind = 'log' THEN subject_id ELSE '' END AS subject,
		count(*) AS n, min(seq) AS first, max(seq) AS last FROM events`)
	q.where(`seq > ? AND seq <= ?`, after, to)
	q.whereScope(m.Scope)
	q.whereIf(of.ID != "", `kind = ? AND subject_id = ?`, string(of.Kind), of.ID)
	q.text.WriteString(` GROUP BY 1, 2, 3, 4, 5`)
	var groups []struct {
		Kind    windsock.Kind      `db:"kind"`
		Word    windsock.Word      `db:"word"`
		Source  string             `db:"source"`
		Type    windsock.EventType `db:"type"`
		Subject string             `db:"subject"`
		N       int64              `db:"n"`
		First   int64              `db:"first"`
		Last    int64              `db:"last"`
	}
	err = r.query(&groups, q.text.String(), q.args...)
	for _, g := range groups {
		if m.Wants(&windsock.Event{Kind: g.Kind, SubjectID: g.Subject, Type: g.Type, Word: g.Word, Source: g.Source}) {
			all = all.And(windsock.Replayed{Count: g.N, First: g.First, Last: g.Last})
		}
	}
	return all, err
}
