package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"windsock"
)

// log appends an event and returns its seq.
func (t *tx) log(e *windsock.Event) int64 {
	t.head++
	data := "{}" // mostly
	if e.Stale || e.Suspect || len(e.Metadata) > 0 || len(e.Instances) > 0 || e.Scope != "" {
		data = jsonText(e.EventData)
	}
	t.exec(`INSERT INTO events (seq, at, type, kind, subject_id, deployment_id, provider, pool, word, state, previous, expected, source, reason, detected_at, data)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.head, t.micros, string(e.Type), string(e.Kind), e.SubjectID, e.DeploymentID, e.Provider, e.Pool,
		string(e.Word), string(e.State), string(e.Previous), string(e.Expected), e.Source, e.Reason, micros(e.DetectedAt), data)
	t.events = append(t.events, e.Type)
	return t.head
}

type eventRow struct {
	Seq          int64  `db:"seq"`
	At           int64  `db:"at"`
	Type         string `db:"type"`
	Kind         string `db:"kind"`
	SubjectID    string `db:"subject_id"`
	DeploymentID string `db:"deployment_id"`
	Provider     string `db:"provider"`
	Pool         string `db:"pool"`
	Word         string `db:"word"`
	State        string `db:"state"`
	Previous     string `db:"previous"`
	Expected     string `db:"expected"`
	Source       string `db:"source"`
	Reason       string `db:"reason"`
	DetectedAt   int64  `db:"detected_at"`
	Data         string `db:"data"`
}

// event returns the row as an event. Its id is made of the log's and its seq: the same
// whenever it is read, and no other event's in any log.
func (s *Store) event(r *eventRow) (e windsock.Event, err error) {
	e = windsock.Event{
		Seq: r.Seq, ID: "evt_" + s.logID + "_" + strconv.FormatInt(r.Seq, 10), Type: windsock.EventType(r.Type),
		Time: fromMicros(r.At), Kind: windsock.Kind(r.Kind), SubjectID: r.SubjectID, DeploymentID: r.DeploymentID,
		Provider: r.Provider, Pool: r.Pool, Word: windsock.Word(r.Word), State: windsock.State(r.State),
		Previous: windsock.State(r.Previous), Expected: windsock.State(r.Expected),
		Source: r.Source, Reason: r.Reason, DetectedAt: fromMicros(r.DetectedAt),
	}
	if err := json.Unmarshal([]byte(r.Data), &e.EventData); err != nil {
		return e, fmt.Errorf("event %d: %w", r.Seq, err)
	}
	return e, nil
}

// Events returns up to limit events that f selects, of those after the seq after, in
// order. It returns ErrPruned when there were some that are no longer kept.
func (s *Store) Events(ctx context.Context, after int64, limit int, f windsock.EventFilter) ([]windsock.Event, error) {
	q := selecting(`SELECT seq, at, type, kind, subject_id, deployment_id, provider, pool, word, state, previous, expected,
		source, reason, detected_at, data FROM events`)
	q.where(`seq > ?`, after)
	q.whereScope(f.Scope)
	q.whereIf(f.Kind != "", `kind = ?`, f.Kind)
	q.whereIf(f.Subject != "", `subject_id = ?`, f.Subject)
	// An index by subject would make a detection a third dearer (test/load). That by
	// deployment has those of one; those of an instance are looked for from after on.
	q.whereIf(f.Subject != "" && f.Kind == windsock.KindDeployment, `deployment_id = ?`, f.Subject)
	q.whereIf(f.Type != "", `type = ?`, f.Type)
	q.whereIf(f.Word != "", `word = ?`, f.Word)
	var rows []eventRow
	if err := q.page(ctx, s.read, &rows, `seq`, limit); err != nil {
		return nil, err
	}
	var pruned int64 // after the events: what is missing of them was pruned before
	if err := s.read.GetContext(ctx, &pruned, `SELECT pruned FROM log`); err != nil {
		return nil, unavailable(err)
	}
	if after < pruned {
		return nil, fmt.Errorf("events up to %d are %w", pruned, windsock.ErrPruned)
	}
	events := make([]windsock.Event, len(rows))
	for i := range rows {
		var err error
		if events[i], err = s.event(&rows[i]); err != nil {
			return nil, err
		}
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
	s.advance(head)
	return nil
}
