package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"windsock"
)

// log appends an event and returns its seq.
func (t *tx) log(e *windsock.Event) int64 {
	t.head++
	t.op.seq, e.Trace = t.head, cmp.Or(e.Trace, t.op.trace)
	data := "{}" // mostly
	if e.Stale || e.Suspect || e.Unstable || e.Held != "" || len(e.Metadata) > 0 || len(e.Instances) > 0 || len(e.Affected) > 0 || e.Scope != "" || e.Component != nil || !e.PreviousSince.IsZero() || e.By != "" || e.TraceParent != "" {
		data = jsonText(&e.EventData)
	}
	t.put(`INSERT INTO events (seq, at, type, kind, subject_id, deployment_id, provider, pool, word, state, previous, expected, source, reason, detected_at, data)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.head, t.micros, string(e.Type), string(e.Kind), e.SubjectID, e.DeploymentID, e.Provider, e.Pool,
		string(e.Word), string(e.State), string(e.Previous), string(e.Expected), e.Source, e.Reason, micros(e.DetectedAt), data)
	t.events, t.headAt = append(t.events, e.Type), t.micros
	return t.head
}

// The columns of an event; the brief ones first.
const (
	briefColumns = `seq, at, type, kind, subject_id, word, source`
	eventColumns = briefColumns + `, deployment_id, provider, pool, state, previous, expected, reason, detected_at, data`
)

// eventReader returns what reads rows of these columns, one after the other. The id of an
// event is made of the log's and its seq: the same whenever it is read, and no other
// event's in any log.
func (s *Store) eventReader(brief bool) func(read func(fields ...any) error) (windsock.Event, error) {
	var e windsock.Event
	var at, detectedAt int64
	var data string
	fields := []any{
		&e.Seq, &at, (*string)(&e.Type), (*string)(&e.Kind), &e.SubjectID, (*string)(&e.Word), &e.Source,
		&e.DeploymentID, &e.Provider, &e.Pool, (*string)(&e.State), (*string)(&e.Previous), (*string)(&e.Expected), &e.Reason, &detectedAt, &data,
	}
	if brief {
		fields = fields[:7]
	}
	return func(read func(fields ...any) error) (windsock.Event, error) {
		e.EventData, data = windsock.EventData{}, "{}"
		if err := read(fields...); err != nil {
			return e, err
		}
		e.ID = windsock.EventID(s.logID, e.Seq)
		e.Time, e.DetectedAt = fromMicros(at), fromMicros(detectedAt)
		if data == "{}" { // mostly
			return e, nil
		}
		if err := json.Unmarshal([]byte(data), &e.EventData); err != nil {
			return e, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		return e, nil
	}
}

// Events returns up to limit events that f selects, of those after the seq after, in
// order. It returns ErrPruned when there were some that are no longer kept. Those before
// one are all that are kept.
func (s *Store) Events(ctx context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error) {
	columns := eventColumns
	if f.Brief {
		columns = briefColumns
	}
	q := selecting(`SELECT ` + columns + ` FROM events`)
	order, room := `seq`, s.head.Load()-after
	if f.Before > 0 {
		order, room = `seq DESC`, f.Before
		q.where(`seq < ?`, f.Before)
	} else {
		q.where(`seq > ?`, after)
	}
	q.whereScope(f.Scope)
	q.whereIf(f.Kind != "", `kind = ?`, f.Kind)
	q.whereIf(f.Subject != "", `subject_id = ?`, f.Subject)
	// An index by subject would make a detection a third dearer (test/load). That by
	// deployment has those of one; those of an instance are looked for from after on.
	q.whereIf(f.Subject != "" && f.Kind == windsock.KindDeployment, `deployment_id = ?`, f.Subject)
	if f.Type != "" {
		q.where(`type = ?`, f.Type)
		room = 0 // mostly there is none
	}
	q.whereIf(f.Word != "", `word = ?`, f.Word)
	events := make([]windsock.Event, 0, max(min(int64(limit), room), 0))
	readEvent := s.eventReader(f.Brief)
	err := q.each(ctx, s.read, order, limit, func(read func(...any) error) error {
		e, err := readEvent(read)
		events = append(events, e)
		return err
	})
	if err != nil || f.Before > 0 {
		return events, err
	}
	var pruned int64 // after the events: what is missing of them was pruned before
	if err := s.read.GetContext(ctx, &pruned, `SELECT pruned FROM log`); err != nil {
		return nil, unavailable(err)
	}
	if after < pruned {
		return nil, fmt.Errorf("events up to %d are %w", pruned, windsock.ErrPruned)
	}
	return events, nil
}

// whereScope adds the condition that an event lies in a scope. That of an instance has
// what all monitors hear of themselves, too: that is little, and only its data says whose it is.
func (q *query) whereScope(scope windsock.Scope) {
	switch kind, id, _ := strings.Cut(string(scope), ":"); kind {
	case "provider":
		q.where(`provider = ?`, id)
	case "pool":
		q.where(`pool = ?`, id)
	case "deployment":
		q.where(`deployment_id = ?`, id)
	case "instance":
		q.where(`(kind = 'instance' AND subject_id = ? OR kind = 'log' OR type = 'monitor.expiring')`, id)
	}
}

// Head returns the seq of the newest event.
func (s *Store) Head() int64 { return s.head.Load() }

// Wait returns nil once there is an event after the seq after, or the context's error.
func (s *Store) Wait(ctx context.Context, after int64) error {
	for {
		news := s.news.wait()
		if s.head.Load() > after {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look tells those who wait of events that another process committed.
func (s *Store) look(ctx context.Context) error {
	var head int64
	if err := s.read.GetContext(ctx, &head, `SELECT head FROM log`); err != nil {
		return unavailable(err)
	}
	if head > s.head.Load() {
		if err := s.lookForWork(ctx); err != nil {
			return err
		}
	}
	s.advance(head)
	return nil
}
