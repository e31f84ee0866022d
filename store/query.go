package store

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"
)

// A query is a SELECT whose conditions are added one by one.
type query struct {
	text  strings.Builder
	args  []any
	words string // before the next condition
}

func selecting(text string, args ...any) *query {
	q := &query{args: args, words: " WHERE "}
	q.text.WriteString(text)
	return q
}

func (q *query) where(cond string, args ...any) {
	q.text.WriteString(q.words + cond)
	q.args = append(q.args, args...)
	q.words = " AND "
}

func (q *query) whereIf(want bool, cond string, args ...any) {
	if want {
		q.where(cond, args...)
	}
}

// page reads the first limit rows by the unique column key.
func (q *query) page(ctx context.Context, db *sqlx.DB, dest any, key string, limit int) error {
	q.text.WriteString(` ORDER BY ` + key + ` LIMIT ?`)
	return unavailable(db.SelectContext(ctx, dest, q.text.String(), append(q.args, limit)...))
}

// each reads them by hand, row by row: see tx.rows.
func (q *query) each(ctx context.Context, db *sqlx.DB, key string, limit int, scan func(read func(fields ...any) error) error) error {
	q.text.WriteString(` ORDER BY ` + key + ` LIMIT ?`)
	rows, err := db.QueryContext(ctx, q.text.String(), append(q.args, limit)...)
	if err != nil {
		return unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return unavailable(rows.Err())
}
