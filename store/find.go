package store

import (
	"context"
	"fmt"

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
	found := map[windsock.Lookup][]string{}
	for k, values := range wanted {
		query, args := s.finding(k.kind, k.by)
		var rows []struct {
			ID    string `db:"id"`
			Value string `db:"value"`
		}
		if err := (reader{ctx, s.read}).query(&rows, query, append(args, set(unique(values)))...); err != nil {
			return nil, err
		}
		for _, r := range rows {
			l := windsock.Lookup{Kind: k.kind, By: k.by, Value: r.Value}
			found[l] = append(found[l], r.ID)
		}
	}
	ids := make([][]string, len(lookups))
	for i, l := range lookups {
		ids[i] = found[l]
	}
	return ids, nil
}

// finding is a query for ids and the values by which they are found. It takes these
// arguments and the set of values. Only of metadata it looks at each row.
func (s *Store) finding(kind windsock.Kind, by windsock.By) (query string, args []any) {
	table := string(kind) + `s`
	if key, ok := by.Key(); ok {
		value := s.member(`metadata`)
		return fmt.Sprintf(`SELECT id, value FROM (SELECT id, CASE WHEN metadata LIKE '{%%' THEN %s END AS value FROM %s) AS known WHERE %s ORDER BY id`,
			value, table, inSet(`value`)), []any{key}
	}
	column := string(by)
	return fmt.Sprintf(`SELECT id, %s AS value FROM %s WHERE %s AND %[1]s <> '' ORDER BY id`, column, table, inSet(column)), nil
}
