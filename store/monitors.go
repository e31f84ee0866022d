package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"windsock"
)

type monitorRow struct {
	ID         string `db:"id"`
	Name       string `db:"name"`
	Scheme     string `db:"scheme"`
	Address    string `db:"address"`
	Port       int    `db:"port"`
	Path       string `db:"path"`
	Scope      string `db:"scope"`
	Detections string `db:"detections"`
	Subjects   string `db:"subjects"`
	Echo       bool   `db:"echo"`
	Parallel   int    `db:"parallel"`
	Format     string `db:"format"`
	Backlog    string `db:"backlog"`
	Round      int64  `db:"round"`
	Cursor     int64  `db:"cursor"`
	Ahead      string `db:"ahead"`
	Attempts   int    `db:"attempts"`
	NextTryAt  int64  `db:"next_try_at"`
	SuccessAt  int64  `db:"success_at"`
	LastError  string `db:"last_error"`
	Failures   int    `db:"failures"`
	Since      int64  `db:"failing_since"`
	Paused     string `db:"paused"`
	LatestTo   int64  `db:"latest_to"`
	Replay     string `db:"replay"`
	CreatedAt  int64  `db:"created_at"`
	UpdatedAt  int64  `db:"updated_at"`
	keyColumns
	grantColumns
	leaseColumns
}

const monitorViews = `SELECT id, name, scheme, address, port, path, scope, detections, subjects, echo, parallel, format, backlog, round,
	secret, old_secret, old_until, bearer, headers, ca, client_cert, client_key, ` + grantViews + `, ` + leaseViews + `,
	cursor, ahead, attempts, next_try_at, success_at, last_error, failures, failing_since, paused, latest_to, replay, created_at, updated_at FROM monitors v`

func (r *monitorRow) target() windsock.Target {
	m := windsock.Monitor{
		MonitorSpec: windsock.MonitorSpec{
			Version: windsock.Version, Name: r.Name, Scheme: r.Scheme, Address: r.Address, Port: r.Port, Path: r.Path,
			Scope: windsock.Scope(r.Scope), Subjects: windsock.Subjects(r.Subjects), Echo: r.Echo, Parallel: r.Parallel,
			Format: windsock.Format(r.Format), Backlog: windsock.Backlog(r.Backlog), Verify: r.Verify, TTL: windsock.Duration(r.lease().TTL),
		},
		ID: r.ID, VerifiedAt: fromMicros(r.VerifiedAt), AllowedRate: r.Rate, ExpiresAt: fromMicros(r.ExpiresAt), Cursor: r.Cursor, CreatedAt: fromMicros(r.CreatedAt), UpdatedAt: fromMicros(r.UpdatedAt),
		Delivery: windsock.Delivery{
			State: "idle", Attempts: r.Attempts, NextTryAt: fromMicros(r.NextTryAt), SuccessAt: fromMicros(r.SuccessAt), LastError: r.LastError,
		},
	}
	if r.Attempts > 0 {
		m.Delivery.State = "retrying"
	}
	if m.Pending() {
		m.Delivery.State = "pending"
	}
	if r.Paused != "" {
		m.Delivery.State, m.Delivery.PausedBy = "paused", windsock.Pause(r.Paused)
	}
	if err := json.Unmarshal([]byte(r.Detections), &m.Detections); err != nil {
		panic(fmt.Sprintf("store: detections %q: %v", r.Detections, err)) // only ever written by us
	}
	t := windsock.Target{Monitor: m, Origin: r.Origin, Progress: windsock.Progress{
		MonitorID: r.ID, Round: r.Round, Cursor: r.Cursor, Ahead: readAhead(r.Ahead),
		Attempts: r.Attempts, NextTryAt: fromMicros(r.NextTryAt), LastError: r.LastError, SuccessAt: fromMicros(r.SuccessAt),
		Failures: r.Failures, FailingSince: fromMicros(r.Since), Paused: windsock.Pause(r.Paused),
		LatestTo: r.LatestTo, Window: readWindow(r.Replay),
	}}
	r.fill(&t)
	return t
}

// AddMonitor registers a monitor. One with the same address, port, path and scope is the
// same monitor: it keeps its id, the keys of which it says nothing, and what it has still
// to hear, and gets its new wishes. A new one hears what happens from now on.
//
// The log does not tell of one whose wishes are the old ones, so that its callbacks go on
// as they were; unless they fail and it renews no lease, which is to try again at once.
func (s *Store) AddMonitor(ctx context.Context, spec windsock.MonitorSpec, keys windsock.Keys) (r windsock.Registration, err error) {
	if err := spec.Complete(); err != nil {
		return r, err
	}
	err = s.do(ctx, func(t *tx) error {
		var rows []monitorRow
		t.all(&rows, monitorViews+` WHERE address = ? AND port = ? AND path = ? AND scope = ?`, spec.Address, spec.Port, spec.Path, spec.Scope)
		if r.Created = len(rows) == 0; r.Created {
			rows = []monitorRow{{ID: uuid.Must(uuid.NewV7()).String(), keyColumns: keyColumns{Headers: "{}"}}}
		}
		row := &rows[0]
		windsock.About(ctx, row.ID)
		before := *row
		r.Made = row.take(keys, spec.Scheme)
		seq := t.head + 1 // of the event that says so
		t.exec(`INSERT INTO monitors (id, name, scheme, address, port, path, scope, detections, subjects, echo, parallel, format, backlog,
				secret, old_secret, old_until, bearer, headers, ca, client_cert, client_key, cursor, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET
				name = excluded.name, scheme = excluded.scheme, detections = excluded.detections, subjects = excluded.subjects, echo = excluded.echo,
				parallel = excluded.parallel, format = excluded.format, backlog = excluded.backlog,
				secret = excluded.secret, old_secret = excluded.old_secret, old_until = excluded.old_until,
				bearer = excluded.bearer, headers = excluded.headers,
				ca = excluded.ca, client_cert = excluded.client_cert, client_key = excluded.client_key, updated_at = excluded.updated_at`,
			row.ID, spec.Name, spec.Scheme, spec.Address, spec.Port, spec.Path, spec.Scope, jsonText(spec.Detections), spec.Subjects, spec.Echo, spec.Parallel, spec.Format, spec.Backlog,
			row.Secret, row.OldSecret, row.OldUntil, row.Bearer, row.Headers, row.CA, row.Cert, row.Key, seq, t.micros, t.micros)
		t.remember(&before, &spec, r.Created, seq)
		t.agree(row, &spec)
		t.lease(row.ID, windsock.NewLease(time.Duration(spec.TTL), t.now))
		after, err := monitorByID(t, row.ID)
		if err != nil {
			return err
		}
		r.Monitor, err = t.monitor(row.ID)
		fails := r.Delivery.Attempts > 0 || r.Delivery.Parked > 0
		if r.Created || !after.wishesAs(&before) || fails && spec.TTL == 0 {
			t.log(&windsock.Event{Type: windsock.MonitorAdded, Kind: windsock.KindMonitor, SubjectID: row.ID})
		}
		return err
	})
	return r, err
}

// RemoveMonitor ends a monitor's registration. It returns ErrConflict when an address or
// a port is given that is not its own.
func (s *Store) RemoveMonitor(ctx context.Context, id, address string, port int) error {
	windsock.About(ctx, id)
	return s.do(ctx, func(t *tx) error {
		m, err := viewMonitor(t, id)
		switch {
		case err != nil:
			return err
		case address != "" && windsock.CanonicalAddress(address) != m.Address, port != 0 && port != m.Port:
			return fmt.Errorf("monitor %q is not registered at that address and port: %w", id, windsock.ErrConflict)
		}
		t.log(&windsock.Event{Type: windsock.MonitorRemoved, Kind: windsock.KindMonitor, SubjectID: id})
		t.exec(`DELETE FROM monitors WHERE id = ?`, id)
		return t.err
	})
}

// Monitors returns up to limit monitors in order of their ids, of those after one.
func (s *Store) Monitors(ctx context.Context, after string, limit int) ([]windsock.Monitor, error) {
	q := selecting(monitorViews)
	q.where(`id > ?`, after)
	var rows []monitorRow
	if err := q.page(ctx, s.read, &rows, `id`, limit); err != nil {
		return nil, err
	}
	targets, err := targetsOf(reader{ctx, s.read}, rows)
	list := make([]windsock.Monitor, len(targets))
	for i := range targets {
		list[i] = targets[i].Monitor
	}
	return list, err
}

// Monitor returns the monitor with this id.
func (s *Store) Monitor(ctx context.Context, id string) (windsock.Monitor, error) {
	t, err := s.Target(ctx, id)
	return t.Monitor, err
}

// Target returns the monitor with this id as its callbacks need it.
func (s *Store) Target(ctx context.Context, id string) (windsock.Target, error) {
	return viewMonitor(reader{ctx, s.read}, id)
}

// Targets returns every monitor as its callbacks need it.
func (s *Store) Targets(ctx context.Context) ([]windsock.Target, error) {
	var rows []monitorRow
	if err := (reader{ctx, s.read}).query(&rows, monitorViews+` ORDER BY id`); err != nil {
		return nil, err
	}
	return targetsOf(reader{ctx, s.read}, rows)
}

func targetsOf(r queryer, rows []monitorRow) ([]windsock.Target, error) {
	list := make([]windsock.Target, len(rows))
	for i := range rows {
		list[i] = rows[i].target()
	}
	return list, withLanes(r, list)
}

func viewMonitor(r queryer, id string) (t windsock.Target, err error) {
	row, err := monitorByID(r, id)
	if err != nil {
		return t, err
	}
	list, err := targetsOf(r, []monitorRow{*row})
	if err != nil {
		return t, err
	}
	return list[0], nil
}

func monitorByID(r queryer, id string) (*monitorRow, error) {
	var rows []monitorRow
	if err := lookup(r, &rows, windsock.KindMonitor, monitorViews, id, ourID); err != nil {
		return nil, err
	}
	return &rows[0], nil
}
