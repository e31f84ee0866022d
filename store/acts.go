package store

import (
	"context"

	"windsock"
)

// keepAct stores the act that an op is part of, with what the op does. Of several, with the
// first.
func (t *tx) keepAct(ctx context.Context) error {
	if a := windsock.ActOf(ctx); a != nil && !a.Kept() {
		t.insert(a)
	}
	return t.err
}

func (t *tx) insert(a *windsock.Act) {
	t.exec(`INSERT INTO acts (at, name, method, route, subject, status, address) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		t.micros, a.Name, a.Method, a.Route, a.Subject, a.Status, a.Address)
	t.after = append(t.after, a.Keep)
}

// KeepAct stores an act of which nothing else was stored.
func (s *Store) KeepAct(ctx context.Context, a *windsock.Act) error {
	return s.do(ctx, func(t *tx) error {
		t.insert(a)
		return t.err
	})
}

// Acts returns up to limit acts, the newest first: of all, or of those before an id.
func (s *Store) Acts(ctx context.Context, before int64, limit int) ([]*windsock.Act, error) {
	q := selecting(`SELECT id, at, name, method, route, subject, status, address FROM acts`)
	q.whereIf(before > 0, `id < ?`, before)
	list := []*windsock.Act{}
	err := q.each(ctx, s.read, `id DESC`, limit, func(read func(...any) error) error {
		a, at := new(windsock.Act), int64(0)
		err := read(&a.ID, &at, &a.Name, &a.Method, &a.Route, &a.Subject, &a.Status, &a.Address)
		a.At = fromMicros(at)
		list = append(list, a)
		return err
	})
	return list, err
}

// forgetActs deletes the first of the acts that are older than the events that are kept, or
// have too many newer ones behind them, and reports whether there are more.
func (r *Retention) forgetActs(ctx context.Context) (more bool, err error) {
	const old = ` FROM (SELECT id, at FROM acts ORDER BY id LIMIT ?) AS first WHERE at < ? OR id <= (SELECT max(id) FROM acts) - ?`
	s := r.Store
	var n int
	args := []any{pruneStep, micros(s.now().Add(-r.Age)), r.Events}
	if err := s.read.GetContext(ctx, &n, `SELECT count(*)`+old, args...); err != nil || n == 0 {
		return false, unavailable(err)
	}
	return n == pruneStep, s.do(ctx, func(t *tx) error {
		t.exec(`DELETE FROM acts WHERE id IN (SELECT id`+old+`)`, args...)
		return t.err
	})
}
