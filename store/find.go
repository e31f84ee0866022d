package store

import (
	"context"
	"math"

	"windsock"
)

// Find returns the ids of all that each of the lookups names.
func (s *Store) Find(ctx context.Context, lookups []windsock.Lookup) ([][]string, error) {
	type of struct {
		kind windsock.Kind
		by   windsock.By
	}
	wanted := map[of][]string{}
	for _, l := range lookups {
		k := of{l.Kind, l.By}
		wanted[k] = append(wanted[k], l.Value)
	}
	found := make(map[windsock.Lookup][]string, len(lookups))
	for k, values := range wanted {
		l := windsock.Lookup{Kind: k.kind, By: k.by}
		var id string
		err := s.finding(k.kind, k.by, unique(values)).each(ctx, s.read, `id`, math.MaxInt32, func(read func(...any) error) error {
			err := read(&id, &l.Value)
			found[l] = append(found[l], id)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	ids := make([][]string, len(lookups))
	for i, l := range lookups {
		ids[i] = found[l]
	}
	return ids, nil
}

// finding is a query for ids and the values by which they are found. Only of metadata, but
// for an instance's host, it looks at each row.
func (s *Store) finding(kind windsock.Kind, by windsock.By, values []string) *query {
	table := string(kind) + `s`
	if kind == windsock.KindInstance && by == windsock.ByMetadata(windsock.HostKey) {
		by = `host` // a column of its own
	}
	if key, ok := by.Key(); ok {
		known := `(SELECT id, CASE WHEN metadata LIKE '{%' THEN ` + s.member(`metadata`) + ` END AS value FROM ` + table + `) AS known`
		q := selecting(`SELECT id, value FROM `+known, key)
		q.where(inSet(`value`), set(values))
		return q
	}
	column := string(by)
	q := selecting(`SELECT id, ` + column + ` FROM ` + table)
	q.where(inSet(column)+` AND `+column+` <> ''`, set(values))
	return q
}
