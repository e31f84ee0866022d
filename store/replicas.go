package store

import (
	"context"
	"encoding/json"
	"net/netip"
	"sync"
	"time"

	"windsock"
)

// How often we look what other processes did. Who commits rings a bell that the others
// hear. What they do at once is one look; when there is no bell we look as often.
const (
	lookEvery   = time.Second
	glanceEvery = 20 * time.Millisecond
)

// join has this process be known to the others. That it is there holds from before they
// can read so.
func (t *tx) join() {
	s := t.s
	roles, _ := json.Marshal(s.Roles)
	t.get(&s.id, `INSERT INTO replicas (name, roles, address, started_at, seen_at) VALUES (?, ?, '', ?, ?) RETURNING id`, s.Name, string(roles), t.micros, t.micros)
	t.dirty = true
	if t.err == nil && s.pg == nil {
		t.err = s.neighbours.join(s.id)
	}
	s.renewed(time.Now())
}

// Announce tells the others on which address this process answers.
func (s *Store) Announce(ctx context.Context, address string) error {
	s.address.Store(&address)
	return s.do(ctx, func(t *tx) error {
		t.exec(`UPDATE replicas SET address = ? WHERE id = ?`, address, s.id)
		return t.err
	})
}

// attend notes that we are here until ctx ends.
func (s *Store) attend(ctx context.Context) {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for failing := false; ; {
		err := s.present(ctx)
		if err == nil {
			err = s.look(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			s.Logger.Error("storage fails; no lease is renewed", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Count has others told how many monitors this process calls back.
func (s *Store) Count(monitors func() int) {
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	s.terms.monitors = monitors
}

// present notes that we are here, which renews what we hold.
func (s *Store) present(ctx context.Context) error {
	held, asked := s.held(), time.Now()
	s.terms.mu.Lock()
	count, wants := s.terms.monitors, s.terms.wants
	s.terms.mu.Unlock()
	monitors := 0
	if count != nil {
		monitors = count()
	}
	var lost []*Term
	err := s.do(ctx, func(t *tx) error {
		t.alive()
		t.noteUses()
		t.signOfLife(wants, monitors)
		lost = lost[:0]
		for _, m := range held {
			if !t.stands(m) {
				lost = append(lost, m)
			}
		}
		return t.err
	})
	if err != nil {
		return err
	}
	s.lose(lost)
	s.renewed(asked)
	return nil
}

// signOfLife notes that this process is here; others may have forgotten it.
func (t *tx) signOfLife(wants string, monitors int) {
	s := t.s
	roles, _ := json.Marshal(s.Roles)
	address := ""
	if at := s.address.Load(); at != nil {
		address = *at
	}
	t.exec(`INSERT INTO replicas (id, name, roles, address, started_at, seen_at, wants, monitors) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, monitors = excluded.monitors`,
		s.id, s.Name, string(roles), address, t.micros, t.micros, wants, monitors)
}

// leave has this process be forgotten, and free what it held.
func (t *tx) leave() {
	t.exec(`UPDATE leases SET holder = 0 WHERE holder = ?`, t.s.id)
	t.exec(`DELETE FROM replicas WHERE id = ?`, t.s.id)
}

// watch tells those who wait what other processes did, and the holder of a lease that ran
// out that he is none any more.
func (s *Store) watch(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	var bell <-chan struct{}
	var seen int64
	var told time.Time
	for ctx.Err() == nil {
		every := lookEvery
		if s.pg != nil || !s.neighbours.alone() {
			if bell == nil && !s.deaf {
				bell = s.listen(ctx, &listening)
			}
			if bell == nil {
				every = glanceEvery
			}
			if err := s.glance(&seen); err != nil {
				s.Logger.Warn("what other processes did cannot be read", "error", err)
			}
		}
		if time.Since(told) >= lookEvery {
			s.moved.send() // who is gone committed nothing
			told = time.Now()
		}
		if s.Era() == 0 {
			s.lose(s.held())
		}
		if !s.Holds(windsock.UnitClock) { // which else says so itself
			s.beat.Store(s.now().UnixMicro())
		}
		select {
		case <-ctx.Done():
		case <-bell:
		case <-time.After(every):
		}
	}
}

// listen returns what tells that somebody rang, until ctx ends, or nil.
func (s *Store) listen(ctx context.Context, wg *sync.WaitGroup) <-chan struct{} {
	if s.pg != nil {
		return s.listenToServer(ctx, wg)
	}
	rings := s.neighbours.hear()
	if rings == nil {
		return nil
	}
	rang := make(chan struct{})
	context.AfterFunc(ctx, func() { rings.Close() })
	wg.Go(func() {
		some := make([]byte, 4096)
		for {
			if _, err := rings.Read(some); err != nil {
				return
			}
			select {
			case rang <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-time.After(glanceEvery):
			case <-ctx.Done():
			}
		}
	})
	return rang
}

// glance looks whether anything was committed since the last time.
func (s *Store) glance(seen *int64) error {
	now, err := s.version()
	if err != nil || now == *seen {
		return err
	}
	*seen = now
	s.stirred.Store(true)
	s.moved.send()
	return s.look(context.Background())
}

type replicaRow struct {
	ID        int64  `db:"id"`
	Name      string `db:"name"`
	Roles     string `db:"roles"`
	Address   string `db:"address"`
	StartedAt int64  `db:"started_at"`
	SeenAt    int64  `db:"seen_at"`
	Wants     string `db:"wants"`
	Monitors  int    `db:"monitors"`
	Probes    string `db:"probes"`
}

const replicaViews = `SELECT id, name, roles, address, started_at, seen_at, wants, monitors, probes FROM replicas ORDER BY id`

// looks is how the looks of a process by probes go, if it makes any.
func (r *replicaRow) looks() (st windsock.ProviderStatus, ok bool) {
	return st, json.Unmarshal([]byte(r.Probes), &st) == nil
}

// Replicas lists the processes that have the database open, and what each holds.
func (s *Store) Replicas(ctx context.Context) ([]windsock.Replica, error) {
	var rows []replicaRow
	var leases []leaseRow
	r := reader{ctx, s.read}
	if err := r.query(&leases, unitViews+` ORDER BY name`); err != nil {
		return nil, err
	}
	if err := r.query(&rows, replicaViews); err != nil {
		return nil, err
	}
	list := []windsock.Replica{}
	for _, row := range rows {
		if row.ID != s.id && !s.there(row.ID) {
			continue
		}
		p := windsock.Replica{
			ID: row.ID, Name: row.Name, Address: row.Address, Holds: []windsock.Holding{},
			StartedAt: fromMicros(row.StartedAt), SeenAt: fromMicros(row.SeenAt), Monitors: row.Monitors,
		}
		if looks, ok := row.looks(); ok {
			p.Probes = looks.Watched
		}
		if err := json.Unmarshal([]byte(row.Roles), &p.Roles); err != nil {
			return nil, err
		}
		for _, l := range leases {
			if l.Holder == row.ID {
				p.Holds = append(p.Holds, windsock.Holding{Unit: l.Name, Since: fromMicros(l.Since)})
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// Others returns the addresses that the other processes answer on.
func (s *Store) Others(ctx context.Context) ([]netip.AddrPort, error) {
	if s.alone() {
		return nil, nil
	}
	replicas, err := s.Replicas(ctx)
	var list []netip.AddrPort
	for _, p := range replicas {
		if at, err := netip.ParseAddrPort(p.Address); err == nil && p.ID != s.id {
			list = append(list, at)
		}
	}
	return list, err
}
