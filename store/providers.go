package store

import (
	"context"

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
	var rows []struct {
		Provider string         `db:"provider"`
		Pool     string         `db:"pool"`
		Kind     windsock.Kind  `db:"kind"`
		State    windsock.State `db:"state"`
		N        int            `db:"n"`
	}
	err := reader{ctx, s.read}.query(&rows, `SELECT provider, pool, 'deployment' AS kind, state, count(*) AS n FROM deployments GROUP BY provider, pool, state
		UNION ALL SELECT d.provider, d.pool, 'instance', t.state, sum(t.n) FROM tallies t JOIN deployments d ON d.id = t.deployment_id
			WHERE t.n > 0 GROUP BY d.provider, d.pool, t.state
		ORDER BY provider, pool`)
	list := []windsock.Pool{}
	for _, r := range rows {
		if n := len(list); n == 0 || list[n-1].Provider != r.Provider || list[n-1].Pool != r.Pool {
			list = append(list, windsock.Pool{
				Provider: r.Provider, Pool: r.Pool, Deployments: map[windsock.State]int{}, Instances: map[windsock.State]int{},
			})
		}
		p := &list[len(list)-1]
		if r.Kind == windsock.KindDeployment {
			p.Deployments[r.State] += r.N
		} else {
			p.Instances[r.State] += r.N
		}
	}
	return list, err
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
