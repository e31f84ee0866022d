package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"windsock"
)

type laneRow struct {
	MonitorID string        `db:"monitor_id"`
	Kind      windsock.Kind `db:"kind"`
	SubjectID string        `db:"subject_id"`
	FirstSeq  int64         `db:"first_seq"`
	Attempts  int           `db:"attempts"`
	NextTryAt int64         `db:"next_try_at"`
	LastError string        `db:"last_error"`
}

const laneViews = `SELECT monitor_id, kind, subject_id, first_seq, attempts, next_try_at, last_error FROM lanes`

func (r *laneRow) lane() windsock.Lane {
	return windsock.Lane{
		Subject:  windsock.Subject{Kind: r.Kind, ID: r.SubjectID},
		FirstSeq: r.FirstSeq, Attempts: r.Attempts, NextTryAt: fromMicros(r.NextTryAt), LastError: r.LastError,
	}
}

// place is how far the events of one subject were delivered, as it is kept in ahead.
type place struct {
	windsock.Subject
	Seq int64 `json:"seq"`
}

func placesOf(m map[windsock.Subject]int64) []place {
	places := make([]place, 0, len(m))
	for s, seq := range m {
		places = append(places, place{s, seq})
	}
	return places
}

func fromPlaces(places []place) map[windsock.Subject]int64 {
	if len(places) == 0 {
		return nil
	}
	m := make(map[windsock.Subject]int64, len(places))
	for _, p := range places {
		m[p.Subject] = p.Seq
	}
	return m
}

func aheadText(ahead map[windsock.Subject]int64) string {
	if len(ahead) == 0 {
		return ""
	}
	return jsonText(placesOf(ahead))
}

func readAhead(text string) map[windsock.Subject]int64 {
	if text == "" {
		return nil
	}
	var places []place
	if err := json.Unmarshal([]byte(text), &places); err != nil {
		panic(fmt.Sprintf("store: ahead %q: %v", text, err)) // only ever written by us
	}
	return fromPlaces(places)
}

// SaveProgress keeps how far monitors have come, in one transaction: a cursor never
// passes what is neither delivered nor in a lane. It never goes back, either. What goes
// back to an earlier round, or is of monitors that are not registered any more, is
// passed over.
func (s *Store) SaveProgress(ctx context.Context, list []windsock.Progress) error {
	return s.do(ctx, func(t *tx) error {
		for i := range list {
			t.saveProgress(&list[i])
			t.saveTries(&list[i])
		}
		return t.err
	})
}

func (t *tx) saveProgress(p *windsock.Progress) {
	t.exec(`UPDATE monitors SET cursor = ?, ahead = ?, attempts = ?, next_try_at = ?, success_at = ?, last_error = ?, failures = ?, failing_since = ?,
		replay = CASE WHEN ? <> 0 THEN replay ELSE '' END, omitted = omitted + ?
		WHERE id = ? AND round = ? AND cursor <= ?`,
		p.Cursor, aheadText(p.Ahead), p.Attempts, micros(p.NextTryAt), micros(p.SuccessAt), p.LastError, p.Failures, micros(p.FailingSince), p.Window != nil, p.Omitted,
		p.MonitorID, p.Round, p.Cursor)
	for _, l := range p.Lanes {
		t.exec(`INSERT INTO lanes (monitor_id, kind, subject_id, first_seq, attempts, next_try_at, last_error)
			SELECT id, ?, ?, ?, ?, ?, ? FROM monitors WHERE id = ? AND round = ?
			ON CONFLICT (monitor_id, kind, subject_id) DO UPDATE SET
				first_seq = excluded.first_seq, attempts = excluded.attempts, next_try_at = excluded.next_try_at, last_error = excluded.last_error`,
			string(l.Subject.Kind), l.Subject.ID, l.FirstSeq, l.Attempts, micros(l.NextTryAt), l.LastError, p.MonitorID, p.Round)
	}
	for _, c := range p.Cleared {
		t.exec(`DELETE FROM lanes WHERE monitor_id = ? AND kind = ? AND subject_id = ?
			AND EXISTS (SELECT 1 FROM monitors WHERE id = monitor_id AND round = ?)`, p.MonitorID, string(c.Kind), c.ID, p.Round)
	}
}

// PauseMonitor has a monitor not called back until it is resumed. A monitor that is
// paused already stays so for the reason it was, unless an operator has one of his own.
func (s *Store) PauseMonitor(ctx context.Context, id string, by windsock.Pause, reason string) (m windsock.Monitor, err error) {
	err = s.do(ctx, func(t *tx) error {
		target, err := viewMonitor(t, id)
		if err != nil {
			return err
		}
		m = target.Monitor
		now := target.Progress.Paused
		if now == by || now != "" && by != windsock.PausedByOperator {
			return nil
		}
		t.setPause(id, by, windsock.MonitorPaused, reason)
		m, err = t.monitor(id)
		return err
	})
	return m, err
}

// ResumeMonitor has a monitor called back again, from where it was, with the newest event
// of each subject or, to skip what waits, from here on.
func (s *Store) ResumeMonitor(ctx context.Context, id string, from windsock.Resume) (m windsock.Monitor, err error) {
	err = s.do(ctx, func(t *tx) error {
		target, err := viewMonitor(t, id)
		if err != nil {
			return err
		}
		m = target.Monitor
		now := target.Progress.Paused
		if from == windsock.Recovered && now == windsock.PausedByOperator || (from == windsock.Replay || from == windsock.Recovered) && now == "" {
			return nil
		}
		seq := t.setPause(id, "", windsock.MonitorResumed, resumedFor[from])
		switch from {
		case windsock.Skip:
			t.passOver(id, seq, windsock.ReasonSkipped)
			t.exec(`UPDATE monitors SET cursor = ?, ahead = '', replay = '', round = round + 1 WHERE id = ?`, seq, id)
			t.exec(`DELETE FROM lanes WHERE monitor_id = ?`, id)
		case windsock.Coalesced:
			t.exec(`UPDATE monitors SET latest_to = ? WHERE id = ?`, seq, id)
		}
		m, err = t.monitor(id)
		return err
	})
	return m, err
}

// resumedFor is what the event says.
var resumedFor = map[windsock.Resume]string{
	windsock.Replay:    "by an operator, to hear all that waits",
	windsock.Skip:      "by an operator, to hear nothing that waits",
	windsock.Coalesced: "by an operator, to hear the newest of what waits of each subject",
	windsock.Recovered: "it takes events again",
}

// setPause is the only place where a monitor is paused or resumed, and says so in the
// log. Its failures are forgotten, so that it starts afresh.
func (t *tx) setPause(id string, to windsock.Pause, say windsock.EventType, reason string) (seq int64) {
	t.exec(`UPDATE monitors SET paused = ? WHERE id = ?`, string(to), id)
	if to == "" {
		t.exec(`UPDATE monitors SET attempts = 0, next_try_at = 0, last_error = '', failures = 0, failing_since = 0 WHERE id = ?`, id)
	}
	return t.log(&windsock.Event{Type: say, Kind: windsock.KindMonitor, SubjectID: id, Source: string(to), Reason: reason})
}

func (t *tx) monitor(id string) (windsock.Monitor, error) {
	target, err := viewMonitor(t, id)
	return target.Monitor, err
}

// withLanes adds to monitors what waits in their lanes.
func withLanes(r queryer, targets []windsock.Target) error {
	byID := make(map[string]*windsock.Target, len(targets))
	for i := range targets {
		byID[targets[i].ID] = &targets[i]
	}
	var rows []laneRow
	if err := r.query(&rows, laneViews+` WHERE `+inSet(`monitor_id`)+` ORDER BY monitor_id, kind, subject_id`, set(slices.Collect(maps.Keys(byID)))); err != nil {
		return err
	}
	for i := range rows {
		t := byID[rows[i].MonitorID]
		t.Progress.Lanes = append(t.Progress.Lanes, rows[i].lane())
		t.Delivery.Parked++
	}
	return nil
}
