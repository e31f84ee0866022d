package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"windsock"
)

const (
	maxSilences = 1000               // that have not ended
	silenceKept = 7 * 24 * time.Hour // after its end
)

type silenceRow struct {
	ID        string `db:"id"`
	Scope     string `db:"scope"`
	Metadata  string `db:"metadata"`
	Author    string `db:"author"`
	Reason    string `db:"reason"`
	StartsAt  int64  `db:"starts_at"`
	EndsAt    int64  `db:"ends_at"`
	CreatedAt int64  `db:"created_at"`
}

const silenceViews = `SELECT id, scope, metadata, author, reason, starts_at, ends_at, created_at FROM silences`

func (r *silenceRow) silence(now time.Time) windsock.Silence {
	s := windsock.Silence{ID: r.ID, CreatedAt: fromMicros(r.CreatedAt), SilenceSpec: windsock.SilenceSpec{
		Scope: windsock.Scope(r.Scope), Metadata: metadataOf(r.Metadata), Author: r.Author, Reason: r.Reason,
		StartsAt: fromMicros(r.StartsAt), EndsAt: fromMicros(r.EndsAt),
	}}
	s.Active = s.At(now)
	return s
}

// AddSilence has callbacks wait. It returns a FieldError, or ErrTooMany.
func (s *Store) AddSilence(ctx context.Context, spec windsock.SilenceSpec) (added windsock.Silence, err error) {
	err = s.do(ctx, func(t *tx) error {
		spec := spec
		if err := spec.Complete(t.now); err != nil {
			return err
		}
		var n int
		t.get(&n, `SELECT count(*) FROM silences WHERE ends_at > ?`, t.micros)
		if n >= maxSilences {
			return fmt.Errorf("there are %d silences: %w", n, windsock.ErrTooMany)
		}
		row := silenceRow{
			ID: uuid.Must(uuid.NewV7()).String(), Scope: string(spec.Scope), Metadata: jsonText(spec.Metadata), Author: spec.Author, Reason: spec.Reason,
			StartsAt: micros(spec.StartsAt), EndsAt: micros(spec.EndsAt), CreatedAt: t.micros,
		}
		t.exec(`INSERT INTO silences (id, scope, metadata, author, reason, starts_at, ends_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			row.ID, row.Scope, row.Metadata, row.Author, row.Reason, row.StartsAt, row.EndsAt, row.CreatedAt)
		t.exec(`UPDATE log SET silenced_until = ? WHERE silenced_until < ?`, row.EndsAt, row.EndsAt)
		added = row.silence(t.now)
		return t.err
	})
	return added, err
}

// EndSilence ends a silence now, so that what it held is told how it is. One that has ended
// stays as it is.
func (s *Store) EndSilence(ctx context.Context, id string) error {
	return s.do(ctx, func(t *tx) error {
		silence, err := viewSilence(t, id, t.now)
		if err != nil || !t.now.Before(silence.EndsAt) {
			return err
		}
		t.exec(`UPDATE silences SET ends_at = ?, starts_at = CASE WHEN starts_at < ? THEN starts_at ELSE ? END WHERE id = ?`, t.micros, t.micros, t.micros, id)
		t.exec(`UPDATE log SET silenced_until = (SELECT coalesce(max(ends_at), 0) FROM silences WHERE ends_at > ?)`, t.micros)
		t.rouseAll()
		return t.err
	})
}

// Silences lists up to limit silences with ids after that one, which is the order in which they
// were added; those that ended within the last week, too.
func (s *Store) Silences(ctx context.Context, after string, limit int) (list []windsock.Silence, err error) {
	q := selecting(silenceViews)
	q.where(`id > ?`, after)
	var rows []silenceRow
	if err := q.page(ctx, s.read, &rows, `id`, limit); err != nil {
		return nil, err
	}
	for i := range rows {
		list = append(list, rows[i].silence(s.now()))
	}
	return list, nil
}

// Silence returns ErrNotFound when there is none.
func (s *Store) Silence(ctx context.Context, id string) (windsock.Silence, error) {
	return viewSilence(reader{ctx, s.read}, id, s.now())
}

func viewSilence(r queryer, id string, now time.Time) (windsock.Silence, error) {
	var rows []silenceRow
	if err := r.query(&rows, silenceViews+` WHERE id = ?`, id); err != nil {
		return windsock.Silence{}, err
	}
	if len(rows) == 0 {
		return windsock.Silence{}, fmt.Errorf("silence %q: %w", windsock.Clip(id), windsock.ErrNotFound)
	}
	return rows[0].silence(now), nil
}

// silenced returns the silence that holds callbacks of d, or of an instance of it, the
// longest; nil if none does.
func (w *working) silenced(d *deployment, i *instance) (longest *windsock.Silence) {
	if w.silencedUntil <= w.micros {
		return nil
	}
	if w.silences == nil {
		var rows []silenceRow
		w.all(&rows, silenceViews+` WHERE ends_at > ?`, w.micros)
		w.silences = []windsock.Silence{}
		for r := range rows {
			w.silences = append(w.silences, rows[r].silence(w.now))
		}
	}
	e := d.event(windsock.DeploymentState)
	if i != nil {
		e = i.event(windsock.InstanceState)
	}
	for n := range w.silences {
		s := &w.silences[n]
		if s.At(w.now) && s.Matches(e) && (longest == nil || s.EndsAt.After(longest.EndsAt)) {
			longest = s
		}
	}
	return longest
}

// forgetSilences deletes those that ended long ago.
func (s *Store) forgetSilences(ctx context.Context) error {
	return s.deleteAny(ctx, ` FROM silences WHERE ends_at < ?`, micros(s.now().Add(-silenceKept)))
}
