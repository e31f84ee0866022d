package store

import (
	"context"
	"time"

	"windsock"
)

// leaseColumns are the part of a monitor's row that says how long it stays.
type leaseColumns struct {
	TTL       int64 `db:"ttl"` // microseconds; 0: for ever
	ExpiresAt int64 `db:"expires_at"`
	LeaseAt   int64 `db:"lease_at"` // the next deadline
}

const leaseViews = `ttl, expires_at, lease_at`

func (c *leaseColumns) lease() windsock.Lease {
	return windsock.Lease{TTL: time.Duration(c.TTL) * time.Microsecond, ExpiresAt: fromMicros(c.ExpiresAt), NextAt: fromMicros(c.LeaseAt)}
}

// lease has a monitor stay for as long.
func (t *tx) lease(id string, l windsock.Lease) {
	t.exec(`UPDATE monitors SET ttl = ?, expires_at = ?, lease_at = ? WHERE id = ?`, l.TTL.Microseconds(), micros(l.ExpiresAt), micros(l.NextAt), id)
	t.due(micros(l.NextAt))
}

// endLeases announces the end of leases, and removes the monitors whose lease is over. It
// waits for its turn, so that whoever was added again before has been by then.
func (s *Store) endLeases(ctx context.Context) error {
	for {
		var due []monitorRow
		err := s.do(ctx, func(t *tx) error {
			t.all(&due, monitorViews+` WHERE lease_at > 0 AND lease_at <= ? LIMIT ?`, t.micros, dueAtOnce)
			for i := range due {
				t.endLease(&due[i])
			}
			return t.err
		})
		if err != nil || len(due) < dueAtOnce {
			return err
		}
	}
}

func (t *tx) endLease(row *monitorRow) {
	e := windsock.Event{Type: windsock.MonitorExpiring, Kind: windsock.KindMonitor, SubjectID: row.ID}
	next, over := row.lease().Pass(t.now)
	if over {
		e.Type, e.Reason = windsock.MonitorExpired, "it was not added again in time"
		t.log(&e)
		t.s.Logger.Info("a monitor was not added again in time and is removed", "monitor", row.ID)
		t.exec(`DELETE FROM monitors WHERE id = ?`, row.ID)
		return
	}
	e.ExpiresAt, e.Reason = next.ExpiresAt, "unless it is added again, it is removed"
	locate(&e, windsock.Scope(row.Scope))
	t.log(&e)
	t.lease(row.ID, next)
}

// shiftLeases puts off the leases that ended while nobody could have renewed them.
func (t *tx) shiftLeases(down, aliveAt int64) {
	t.exec(`UPDATE monitors SET expires_at = expires_at + ? WHERE expires_at > ?`, down, aliveAt)
	t.exec(`UPDATE monitors SET lease_at = lease_at + ? WHERE lease_at > ?`, down, aliveAt)
}

// wishesAs reports whether a monitor that was added again wishes what it did before, but
// for how long it is to stay.
func (r *monitorRow) wishesAs(before *monitorRow) bool {
	now, then := *r, *before
	now.leaseColumns, now.UpdatedAt = then.leaseColumns, then.UpdatedAt
	return now == then
}
