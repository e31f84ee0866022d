package store

import (
	"context"
	"fmt"
	"slices"

	"windsock"
)

// What a monitor was told of the past follows from where it stands, but for what it was
// moved past, and for what was judged by wishes that it has no more. Both are noted when
// they come to pass.

// remember notes at seq that a monitor was added: it does not hear what was before; or it
// was added again, with other wishes.
func (t *tx) remember(was *monitorRow, spec *windsock.MonitorSpec, created bool, seq int64) {
	switch {
	case created:
		t.exec(`INSERT INTO passed (monitor_id, first_seq, last_seq, kind, subject_id, ahead, why) VALUES (?, 1, ?, '', '', '', ?)`,
			was.ID, seq, string(windsock.ReasonRegistered))
	case was.Detections != jsonText(spec.Detections) || was.Subjects != string(spec.Subjects) || was.Echo != spec.Echo:
		t.exec(`UPDATE monitors SET wished_seq = ? WHERE id = ?`, seq, was.ID)
	}
}

// passOver notes that a monitor is about to be moved past what waits for it up to a seq.
func (t *tx) passOver(monitorID string, to int64, why windsock.Reason) {
	t.exec(`INSERT INTO passed (monitor_id, first_seq, last_seq, kind, subject_id, ahead, why)
		SELECT id, cursor + 1, ?, '', '', ahead, ? FROM monitors WHERE id = ? AND cursor < ?`, to, string(why), monitorID, to)
	t.exec(`INSERT INTO passed (monitor_id, first_seq, last_seq, kind, subject_id, ahead, why)
		SELECT monitor_id, first_seq, ?, kind, subject_id, '', ? FROM lanes WHERE monitor_id = ? AND first_seq <= ?`, to, string(why), monitorID, to)
}

// tellAgain notes that a monitor is told a range again, whatever it was moved past.
func (t *tx) tellAgain(monitorID string, r windsock.Range) {
	t.exec(`INSERT INTO passed (monitor_id, first_seq, last_seq, kind, subject_id, ahead, why)
		SELECT monitor_id, ?, last_seq, kind, subject_id, ahead, why FROM passed WHERE monitor_id = ? AND first_seq <= ? AND last_seq > ?`,
		r.Last+1, monitorID, r.Last, r.Last)
	t.exec(`DELETE FROM passed WHERE monitor_id = ? AND first_seq >= ? AND first_seq <= ?`, monitorID, r.First, r.Last)
	t.exec(`UPDATE passed SET last_seq = ? WHERE monitor_id = ? AND first_seq < ? AND last_seq >= ?`, r.First-1, monitorID, r.First, r.First)
}

// forgetPassed forgets what was noted of events that are no longer in the log.
func (s *Store) forgetPassed(ctx context.Context) error {
	return s.do(ctx, func(t *tx) error {
		t.exec(`DELETE FROM passed WHERE last_seq <= (SELECT pruned FROM log)`)
		return t.err
	})
}

// explained is how many tries an explanation shows.
const explained = 10

// Explain says why an event, named by its seq or id, was, will be or will not be told to a
// monitor. It returns ErrNotFound when there is no such event, and ErrPruned when it is no
// longer kept.
func (s *Store) Explain(ctx context.Context, monitorID, event string) (x windsock.Explanation, err error) {
	e, err := s.eventNamed(ctx, event)
	if err != nil {
		return x, err
	}
	t, err := s.Target(ctx, monitorID)
	if err != nil {
		return x, err
	}
	past, err := s.past(ctx, &t, &e)
	if err != nil {
		return x, err
	}
	x = windsock.Explain(&t, &e, past)
	if x.Verdict == windsock.Waiting {
		if x.Before, err = s.before(ctx, &t, &e); err != nil {
			return x, err
		}
	}
	tries, err := s.Tries(ctx, monitorID, windsock.TryFilter{Event: e.ID, Limit: explained})
	x.Tries = tries.List
	return x, err
}

func (s *Store) eventNamed(ctx context.Context, name string) (e windsock.Event, err error) {
	seq, log, err := windsock.ParseEvent(name)
	if err != nil {
		return e, err
	}
	if log == "" || log == s.logID {
		events, err := s.Events(ctx, seq-1, 1, windsock.EventFilter{})
		if err != nil {
			return e, err
		}
		if len(events) > 0 {
			return events[0], nil
		}
	}
	return e, fmt.Errorf("event %s: %w", windsock.Clip(name), windsock.ErrNotFound)
}

// past returns what was noted of a monitor and an event.
func (s *Store) past(ctx context.Context, t *windsock.Target, e *windsock.Event) (p windsock.Past, err error) {
	r, monitorID := reader{ctx, s.read}, t.ID
	var wished []int64
	if err := r.query(&wished, `SELECT wished_seq FROM monitors WHERE id = ?`, monitorID); err != nil {
		return p, err
	}
	for _, seq := range wished {
		p.Wished = seq
	}
	var rows []struct {
		Ahead string          `db:"ahead"`
		Why   windsock.Reason `db:"why"`
	}
	err = r.query(&rows, `SELECT ahead, why FROM passed WHERE monitor_id = ? AND last_seq >= ? AND first_seq <= ?
		AND (kind = '' OR kind = ? AND subject_id = ?) ORDER BY last_seq DESC`, monitorID, e.Seq, e.Seq, string(e.Kind), e.SubjectID)
	for _, row := range rows {
		if readAhead(row.Ahead)[windsock.Subject{Kind: e.Kind, ID: e.SubjectID}] < e.Seq {
			p.Passed = row.Why // the first of them counts
		}
	}
	if err != nil {
		return p, err
	}
	taken, err := s.Tries(ctx, monitorID, windsock.TryFilter{Event: e.ID, Result: windsock.TryTaken, Limit: explained})
	p.Taken = slices.ContainsFunc(taken.List, func(try windsock.Try) bool {
		return try.Events == 1 || t.Monitor.Wants(e) // what a batch had not in it, between its first and its last, is what was not wanted
	})
	return p, err
}

// before counts the events that a monitor may still be told before e: those of its lane
// or, when nothing of that was refused, all. It is nil when that would take too long.
func (s *Store) before(ctx context.Context, t *windsock.Target, e *windsock.Event) (*int64, error) {
	after, of := t.Progress.Cursor, windsock.Subject{}
	if lane, _ := t.Progress.Waits(e); lane != nil {
		after, of = lane.FirstSeq-1, lane.Subject
	}
	if e.Seq-after > countStep {
		return nil, nil
	}
	n, err := waiting(reader{ctx, s.read}, t, after, e.Seq-1, of)
	return &n, err
}
