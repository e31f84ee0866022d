package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"windsock"
)

type providerRow struct {
	ID          string `db:"id"`
	Kind        string `db:"kind"`
	CompleteAt  int64  `db:"complete_at"`
	Watched     int    `db:"watched"`
	Blind       int    `db:"blind"`
	LastError   string `db:"last_error"`
	Every       int64  `db:"every"`
	Took        int64  `db:"took"`
	Deployments int    `db:"deployments"`
	Instances   int    `db:"instances"`
	LostAt      int64  `db:"lost_at"`
	Lost        bool   `db:"lost"`
}

const providerViews = `SELECT id, kind, complete_at, watched, blind, last_error, every, took, deployments, instances, lost_at, lost FROM providers`

// SaveProvider keeps how the observation of a provider goes. With a listing that is
// complete one that was lost is back.
//
// What is static is looked at by all that share the probes: each keeps how its part goes.
func (s *Store) SaveProvider(ctx context.Context, p windsock.ProviderStatus) error {
	if p.ID == static {
		return s.do(ctx, func(t *tx) error {
			t.exec(`UPDATE replicas SET probes = ? WHERE id = ?`, jsonText(p), s.id)
			return t.err
		})
	}
	return s.do(ctx, func(t *tx) error {
		var rows []providerRow
		t.all(&rows, providerViews+` WHERE id = ?`, p.ID)
		var was providerRow
		if len(rows) > 0 {
			was = rows[0]
		}
		lostAt := was.LostAt
		patience := windsock.LostAfter*micros64(p.Every) + micros64(p.WholeTook)
		switch {
		case p.Every == 0:
			lostAt, was.Lost = 0, false
		case micros(p.CompleteAt) > was.CompleteAt:
			lostAt = micros(p.CompleteAt) + patience
			if was.Lost {
				t.log(providerEvent(windsock.ProviderBack, p.ID, ""))
			}
			was.Lost = false
		case lostAt == 0:
			lostAt = t.micros + patience
		}
		t.exec(`INSERT INTO providers (id, kind, complete_at, watched, blind, last_error, every, took, deployments, instances, lost_at, lost)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, complete_at = excluded.complete_at, watched = excluded.watched,
				blind = excluded.blind, last_error = excluded.last_error, every = excluded.every, took = excluded.took,
				deployments = excluded.deployments, instances = excluded.instances, lost_at = excluded.lost_at, lost = excluded.lost`,
			p.ID, p.Kind, micros(p.CompleteAt), p.Watched, p.Blind, p.LastError, micros64(p.Every), micros64(p.Took), p.Deployments, p.Instances, lostAt, was.Lost)
		if !was.Lost {
			t.due(lostAt)
		}
		return t.err
	})
}

// static is the provider of what is looked at by probes alone.
const static = "static"

// staticStatus is how all looks by probes go, if anybody makes any.
func (s *Store) staticStatus(rows []replicaRow) (all windsock.ProviderStatus, ok bool) {
	for i := range rows {
		one, makes := rows[i].looks()
		if !makes || rows[i].ID != s.id && !s.there(rows[i].ID) {
			continue
		}
		if !ok {
			all, ok = one, true
			continue
		}
		all.Watched, all.Blind = all.Watched+one.Watched, all.Blind+one.Blind
		all.LastError = cmp.Or(all.LastError, one.LastError)
		if all.CompleteAt.IsZero() || !one.CompleteAt.IsZero() && one.CompleteAt.Before(all.CompleteAt) {
			all.CompleteAt = one.CompleteAt
		}
	}
	return all, ok
}

// lose has the providers be lost that were not listed for too long.
func (t *tx) lose() {
	var rows []providerRow
	t.all(&rows, providerViews+` WHERE lost_at > 0 AND lost_at <= ? AND lost = 0 ORDER BY id`, t.micros)
	for _, r := range rows {
		t.exec(`UPDATE providers SET lost = 1 WHERE id = ?`, r.ID)
		t.log(providerEvent(windsock.ProviderLost, r.ID, cmp.Or(r.LastError, "no listing of it came to its end")))
	}
}

func providerEvent(typ windsock.EventType, id, reason string) *windsock.Event {
	return &windsock.Event{Type: typ, Kind: windsock.KindProvider, SubjectID: id, Provider: id, Reason: reason}
}

// micros64 is a duration as it is kept.
func micros64(d windsock.Duration) int64 { return time.Duration(d).Microseconds() }

// Providers returns how the observation of every provider goes.
func (s *Store) Providers(ctx context.Context) ([]windsock.ProviderStatus, error) {
	var rows []providerRow
	var replicas []replicaRow
	r := reader{ctx, s.read}
	err := cmp.Or(r.query(&rows, providerViews+` ORDER BY id`), r.query(&replicas, replicaViews))
	list := make([]windsock.ProviderStatus, len(rows))
	for i, r := range rows {
		list[i] = windsock.ProviderStatus{
			ID: r.ID, Kind: r.Kind, CompleteAt: fromMicros(r.CompleteAt), Watched: r.Watched, Blind: r.Blind, LastError: r.LastError,
			Every: windsock.Duration(r.Every) * windsock.Duration(time.Microsecond), Took: windsock.Duration(r.Took) * windsock.Duration(time.Microsecond),
			Deployments: r.Deployments, Instances: r.Instances, Lost: r.Lost,
		}
	}
	if all, ok := s.staticStatus(replicas); ok {
		at, _ := slices.BinarySearchFunc(list, all.ID, func(p windsock.ProviderStatus, id string) int { return cmp.Compare(p.ID, id) })
		list = slices.Insert(list, at, all)
	}
	return list, err
}

const probeViews = `SELECT i.id, d.provider, i.probe FROM instances i JOIN deployments d ON d.id = i.deployment_id`

// Probes returns up to limit instances that have a probe, in order of their ids, of those
// after one.
func (s *Store) Probes(ctx context.Context, after string, limit int) ([]windsock.ProbeTarget, error) {
	q := selecting(probeViews)
	q.where(`i.probe <> '' AND i.id > ?`, after)
	return s.probes(ctx, q, limit)
}

// Probe returns the probe of an instance, or ErrNotFound when it has none or is gone.
func (s *Store) Probe(ctx context.Context, instanceID string) (t windsock.ProbeTarget, err error) {
	q := selecting(probeViews)
	q.where(`i.probe <> '' AND i.id = ?`, instanceID)
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
		ID       string `db:"id"`
		Provider string `db:"provider"`
		Probe    string `db:"probe"`
	}
	err := q.page(ctx, s.read, &rows, `i.id`, limit)
	list := make([]windsock.ProbeTarget, len(rows))
	for i, r := range rows {
		list[i] = windsock.ProbeTarget{InstanceID: r.ID, Provider: r.Provider, Probe: *probeOf(r.Probe)}
	}
	return list, err
}
