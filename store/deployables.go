package store

import (
	"context"
	"encoding/json"
	"fmt"

	"windsock"
)

// maxDeployable is how many bytes a deployable may have, with all its files.
const maxDeployable = 4 << 20

var errNoPlanner = windsock.Invalid("deployable", "this windsock reads none")

// AddDeployable keeps a deployable, unless just this is there already. When it cannot be
// deployed it is returned with what was found, beside a FieldError.
func (s *Store) AddDeployable(ctx context.Context, d windsock.Deployable) (windsock.Deployable, error) {
	if s.Planner == nil {
		return d, errNoPlanner
	}
	if err := windsock.ValidID("id", d.ID); err != nil {
		return d, err
	}
	windsock.About(ctx, d.ID)
	size := len(d.Source)
	for name, content := range d.Files {
		size += len(name) + len(content)
	}
	if size > maxDeployable {
		return d, windsock.Invalid("template", "at most %d bytes with all files, got %d", maxDeployable, size)
	}
	if err := s.readOne(ctx, func() (err error) {
		if d.Summary, err = s.Planner.Read(d); err != nil {
			err = windsock.Invalid("template", "%v", err)
		}
		return err
	}); err != nil {
		return d, err
	}
	err := s.do(ctx, func(t *tx) error {
		there, err := viewDeployable(t, d.ID)
		exists, err := present(err)
		switch {
		case err != nil:
			return err
		case exists && (there.Name != d.Name || there.Source != d.Source || jsonText(there.Files) != jsonText(d.Files)):
			return fmt.Errorf("deployable %q is there and is another: %w", d.ID, windsock.ErrConflict)
		case exists:
			d = there
			return nil
		}
		d.CreatedAt = t.now
		t.exec(`INSERT INTO deployables (id, name, created_at, summary, source, files) VALUES (?, ?, ?, ?, ?, ?)`,
			d.ID, d.Name, t.micros, jsonText(d.Summary), d.Source, jsonText(d.Files))
		return t.err
	})
	return d, err
}

type deployableRow struct {
	ID        string `db:"id"`
	Name      string `db:"name"`
	CreatedAt int64  `db:"created_at"`
	Summary   string `db:"summary"`
	Source    string `db:"source"`
	Files     string `db:"files"`
}

func (r *deployableRow) deployable() windsock.Deployable {
	d := windsock.Deployable{ID: r.ID, Name: r.Name, Source: r.Source, Files: metadataOf(r.Files), CreatedAt: fromMicros(r.CreatedAt)}
	if err := json.Unmarshal([]byte(r.Summary), &d.Summary); err != nil {
		panic(fmt.Sprintf("store: summary of %q: %v", r.ID, err)) // only ever written by us
	}
	return d
}

func viewDeployable(r queryer, id string) (d windsock.Deployable, err error) {
	var rows []deployableRow
	err = r.query(&rows, `SELECT id, name, created_at, summary, source, files FROM deployables WHERE id = ?`, id)
	switch {
	case err != nil:
		return d, err
	case len(rows) == 0:
		return d, fmt.Errorf("deployable %q: %w", id, windsock.ErrNotFound)
	}
	return rows[0].deployable(), nil
}

// Deployable returns the one with this id.
func (s *Store) Deployable(ctx context.Context, id string) (windsock.Deployable, error) {
	return viewDeployable(reader{ctx, s.read}, id)
}

// Deployables returns up to limit of them after that id, without their text.
func (s *Store) Deployables(ctx context.Context, after string, limit int) ([]windsock.Deployable, error) {
	q := selecting(`SELECT id, name, created_at, summary FROM deployables`)
	q.where(`id > ?`, after)
	var rows []deployableRow
	if err := q.page(ctx, s.read, &rows, `id`, limit); err != nil {
		return nil, err
	}
	list := make([]windsock.Deployable, len(rows))
	for i := range rows {
		list[i] = rows[i].deployable()
	}
	return list, nil
}

// RemoveDeployable forgets one. It returns ErrConflict when a deployment is made by it.
func (s *Store) RemoveDeployable(ctx context.Context, id string) error {
	return s.do(ctx, func(t *tx) error {
		if _, err := viewDeployable(t, id); err != nil {
			return err
		}
		var by []string
		t.all(&by, `SELECT deployment_id FROM deployed WHERE deployable = ? ORDER BY deployment_id LIMIT 1`, id)
		if len(by) > 0 {
			return fmt.Errorf("deployment %q is made by deployable %q: %w", by[0], id, windsock.ErrConflict)
		}
		t.exec(`DELETE FROM deployables WHERE id = ?`, id)
		return t.err
	})
}
