package store

import (
	"cmp"
	"context"
	"slices"

	"windsock"
)

// Summary counts all that there is. What it costs follows the number of deployments.
func (s *Store) Summary(ctx context.Context) (windsock.ModelSummary, error) {
	sum := windsock.ModelSummary{Seq: s.Head(), Deployments: map[windsock.State]int{}, Instances: map[windsock.State]int{}, Monitors: map[string]int{}}
	// Most deployments of a pool are as others are, so few tallies are read.
	rows, err := s.read.QueryContext(ctx, `SELECT provider, pool, state, tally, drifts, behind, count(*) FROM (
		SELECT provider, pool, state, tally, drift <> 0 AS drifts, `+deploymentStale+` AS behind FROM deployments v) AS kinds
		GROUP BY provider, pool, state, tally, drifts, behind`)
	if err != nil {
		return sum, unavailable(err)
	}
	defer rows.Close()
	type key struct{ provider, pool string }
	pools := map[key]*windsock.Pool{}
	for rows.Next() {
		var k key
		var state windsock.State
		var tally string
		var drift, stale bool
		var alike int
		if err := rows.Scan(&k.provider, &k.pool, &state, &tally, &drift, &stale, &alike); err != nil {
			return sum, err
		}
		p := pools[k]
		if p == nil {
			p = &windsock.Pool{Provider: k.provider, Pool: k.pool, Deployments: map[windsock.State]int{}, Instances: map[windsock.State]int{}}
			pools[k] = p
		}
		p.Deployments[state] += alike
		sum.Deployments[state] += alike
		for m, n := range tallyOf(tally) {
			p.Instances[m.State] += alike * n
			sum.Instances[m.State] += alike * n
		}
		if drift {
			sum.Drift += alike
		}
		if stale {
			sum.Stale += alike
		}
	}
	if err := rows.Err(); err != nil {
		return sum, unavailable(err)
	}
	sum.Pools = make([]windsock.Pool, 0, len(pools))
	for _, p := range pools {
		sum.Pools = append(sum.Pools, *p)
	}
	slices.SortFunc(sum.Pools, func(a, b windsock.Pool) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Pool, b.Pool))
	})
	return sum, s.countMonitors(ctx, sum.Monitors)
}

// countMonitors counts monitors by the state that target gives them.
func (s *Store) countMonitors(ctx context.Context, count map[string]int) error {
	var rows []struct {
		State string `db:"state"`
		N     int    `db:"n"`
	}
	err := reader{ctx, s.read}.query(&rows, `SELECT CASE WHEN paused <> '' THEN 'paused' WHEN verify <> 0 AND verified_at = 0 THEN 'pending'
		WHEN attempts > 0 THEN 'retrying' ELSE 'idle' END AS state, count(*) AS n FROM monitors GROUP BY 1`)
	for _, r := range rows {
		count[r.State] = r.N
	}
	return err
}

// Pools counts deployments and instances by state, for each pool of each provider that
// has any deployment.
func (s *Store) Pools(ctx context.Context) ([]windsock.Pool, error) {
	sum, err := s.Summary(ctx)
	return sum.Pools, err
}
