package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jmoiron/sqlx"

	"windsock"
)

// A queryer reads, in a transaction or outside one.
type queryer interface {
	query(dest any, query string, args ...any) error
}

type reader struct {
	ctx context.Context
	db  *sqlx.DB
}

func (r reader) query(dest any, query string, args ...any) error {
	return unavailable(r.db.SelectContext(r.ctx, dest, query, args...))
}

func (t *tx) query(dest any, query string, args ...any) error {
	t.all(dest, query, args...)
	return t.err
}

// lookup reads the one row of views whose first of the columns that holds id at all does
// so once.
func lookup[T any](r queryer, rows *[]T, kind windsock.Kind, views, id string, columns ...string) error {
	for _, column := range columns {
		if err := r.query(rows, views+` WHERE `+column+` = ? AND `+column+` <> '' LIMIT 2`, id); err != nil {
			return err
		}
		switch len(*rows) {
		case 1:
			return nil
		case 2:
			return ambiguous(kind, id)
		}
	}
	return notFound(kind, id)
}

// present reports whether there is what was read, where its absence is no error.
func present(err error) (bool, error) {
	if errors.Is(err, windsock.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func viewEvidence(r queryer, kind windsock.Kind, id string) ([]windsock.Evidence, error) {
	var rows []evidenceRow
	err := r.query(&rows, `SELECT subject_id, `+evidenceColumns+` FROM evidence WHERE kind = ? AND subject_id = ? ORDER BY source`, kind, id)
	list := make([]windsock.Evidence, len(rows))
	for i := range rows {
		list[i] = rows[i].evidence()
	}
	return list, err
}

func notFound(kind windsock.Kind, id string) error {
	return fmt.Errorf("%s %q: %w", kind, id, windsock.ErrNotFound)
}

func ambiguous(kind windsock.Kind, id string) error {
	return fmt.Errorf("several %ss have the provider id %q: %w", kind, id, windsock.ErrConflict)
}

// whereFlag adds a condition, or that it does not hold, when one is wanted.
func (q *query) whereFlag(cond string, want *bool) {
	if want != nil && *want {
		q.where(cond)
	} else if want != nil {
		q.where(`NOT (` + cond + `)`)
	}
}

// whereAmiss adds what follows from f where that has an index: few are not just running.
func (q *query) whereAmiss(f *windsock.Filter) {
	q.whereIf(f.Drift != nil && *f.Drift || f.State != "" && f.State != windsock.Running, `(v.state <> 'running' OR v.drift <> 0)`)
}

// jsonText is v as it is kept; nothing is ”.
func jsonText[T any](v T) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("store: %T: %v", v, err)) // a type that is not for JSON
	}
	if string(data) == "null" {
		return ""
	}
	return string(data)
}

// chunkSize bounds how much is loaded at once where there may be any number.
const chunkSize = 1000

// sorted returns the values of m in order of their keys, so that what is written and
// logged does not depend on the order of a map.
func sorted[T any](m map[string]T) []T {
	list := make([]T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[k])
	}
	return list
}
