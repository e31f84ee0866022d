package store

import (
	"cmp"
	"context"
	"slices"

	"windsock"
)

// SaveProvider keeps how the observation of a provider goes.
func (s *Store) SaveProvider(ctx context.Context, p windsock.ProviderStatus) error {
	return s.do(ctx, func(t *tx) error {
		t.exec(`INSERT INTO providers (id, kind, complete_at, watched, blind, last_error) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, complete_at = excluded.complete_at, watched = excluded.watched,
				blind = excluded.blind, last_error = excluded.last_error`,
			p.ID, p.Kind, micros(p.CompleteAt), p.Watched, p.Blind, p.LastError)
		return t.err
	})
}

// Providers returns how the observation of every provider goes.
func (s *Store) Providers(ctx context.Context) ([]windsock.ProviderStatus, error) {
	var rows []struct {
		ID         string `db:"id"`
		Kind       string `db:"kind"`
		CompleteAt int64  `db:"complete_at"`
		Watched    int    `db:"watched"`
		Blind      int    `db:"blind"`
		LastError  string `db:"last_error"`
	}
	err := reader{ctx, s.read}.query(&rows, `SELECT id, kind, complete_at, watched, blind, last_error FROM providers ORDER BY id`)
	list := make([]windsock.ProviderStatus, len(rows))
	for i, r := range rows {
		list[i] = windsock.ProviderStatus{
			ID: r.ID, Kind: r.Kind, CompleteAt: fromMicros(r.CompleteAt), Watched: r.Watched, Blind: r.Blind, LastError: r.LastError,
		}
	}
	return list, err
}

// Pools counts deployments and instances by state, for each pool of each provider that
// has any deployment. What it costs follows the number of deployments.
func (s *Store) Pools(ctx context.Context) ([]windsock.Pool, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT provider, pool, state, tally FROM deployments`)
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close()
	type key struct{ provider, pool string }
	pools := map[key]*windsock.Pool{}
	for rows.Next() {
		var k key
		var state windsock.State
		var tally string
		if err := rows.Scan(&k.provider, &k.pool, &state, &tally); err != nil {
			return nil, err
		}
		p := pools[k]
		if p == nil {
			p = &windsock.Pool{Provider: k.provider, Pool: k.pool, Deployments: map[windsock.State]int{}, Instances: map[windsock.State]int{}}
			pools[k] = p
		}
		p.Deployments[state]++
		for m, n := range tallyOf(tally) {
			p.Instances[m.State] += n
		}
	}
	list := make([]windsock.Pool, 0, len(pools))
	for _, p := range pools {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b windsock.Pool) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Pool, b.Pool))
	})
	return list, unavailable(rows.Err())
}

// Probes returns up to limit instances that have a probe, in order of their ids, of those
// after one.
func (s *Store) Probes(ctx context.Context, after string, limit int) ([]windsock.ProbeTarget, error) {
	q := selecting(`SELECT id, probe FROM instances`)
	q.where(`probe <> '' AND id > ?`, after)
	return s.probes(ctx, q, limit)
}

// Probe returns the probe of an instance, or ErrNotFound when it has none or is gone.
func (s *Store) Probe(ctx context.Context, instanceID string) (t windsock.ProbeTarget, err error) {
	q := selecting(`SELECT id, probe FROM instances`)
	q.where(`probe <> '' AND id = ?`, instanceID)
	list, err := s.probes(ctx, q, 1)
	if err == nil && len(list) == 0 {
		err = notFound("probe of instance", instanceID)
	}
	if err != nil {
		return t, err
	}
	return list[0], nil
}

func (s *Store) probes(ctx context.Context, q *query, limit int) ([]windsock.ProbeTarget, error) {
	var rows []struct {
		ID    string `db:"id"`
		Probe string `db:"probe"`
	}
	err := q.page(ctx, s.read, &rows, `id`, limit)
	list := make([]windsock.ProbeTarget, len(rows))
	for i, r := range rows {
		list[i] = windsock.ProbeTarget{InstanceID: r.ID, Probe: *probeOf(r.Probe)}
	}
	return list, err
}
