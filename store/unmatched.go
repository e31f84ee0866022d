package store

import (
	"context"

	"windsock"
)

type unmatchedRow struct {
	Report  string `db:"report"`
	Kind    string `db:"kind"`
	Subject string `db:"subject"`
	Why     string `db:"why"`
	Word    string `db:"word"`
	Reason  string `db:"reason"`
	Count   int64  `db:"count"`
	FirstAt int64  `db:"first_at"`
	LastAt  int64  `db:"last_at"`
}

// NoteUnmatched keeps what reports said of things that nobody declared, once for each. Of
// more than MaxUnmatched the newest are kept.
func (s *Store) NoteUnmatched(ctx context.Context, list []windsock.Unmatched) error {
	list = list[max(0, len(list)-windsock.MaxUnmatched):]
	return s.do(ctx, func(t *tx) error {
		for _, u := range list {
			t.exec(`INSERT INTO unmatched (report, kind, subject, why, word, reason, count, first_at, last_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (report, kind, subject) DO UPDATE SET
					why = excluded.why, word = excluded.word, reason = excluded.reason,
					count = unmatched.count + excluded.count, last_at = excluded.last_at`,
				u.Report, string(u.Kind), u.Subject, u.Why, string(u.Word), u.Reason, u.Count, t.micros, t.micros)
		}
		t.exec(`DELETE FROM unmatched WHERE (report, kind, subject) IN (
			SELECT report, kind, subject FROM unmatched ORDER BY last_at DESC, report, kind, subject LIMIT ? OFFSET ?)`,
			windsock.MaxUnmatched, windsock.MaxUnmatched)
		return t.err
	})
}

// Unmatched lists them, the newest first.
func (s *Store) Unmatched(ctx context.Context) ([]windsock.Unmatched, error) {
	var rows []unmatchedRow
	err := (reader{ctx, s.read}).query(&rows, `SELECT report, kind, subject, why, word, reason, count, first_at, last_at
		FROM unmatched ORDER BY last_at DESC, report, kind, subject`)
	list := make([]windsock.Unmatched, len(rows))
	for i, r := range rows {
		list[i] = windsock.Unmatched{
			Report: r.Report, Kind: windsock.Kind(r.Kind), Subject: r.Subject, Why: r.Why, Word: windsock.Word(r.Word), Reason: r.Reason,
			Count: r.Count, FirstAt: fromMicros(r.FirstAt), LastAt: fromMicros(r.LastAt),
		}
	}
	return list, err
}
