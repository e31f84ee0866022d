package store

import (
	"context"

	"windsock"
)

// grantColumns are the part of a monitor's row that says whether it may be called.
type grantColumns struct {
	Verify     bool   `db:"verify"`
	VerifiedAt int64  `db:"verified_at"` // 0: it did not allow it yet
	Origin     string `db:"origin"`      // as which we may call it
	Rate       int    `db:"rate"`        // requests a minute; 0: as many as we like
}

const grantViews = `verify, verified_at, origin, rate`

// agree notes whether a monitor is to be asked before it is called. What it granted holds
// while it is the same that is called.
func (t *tx) agree(row *monitorRow, spec *windsock.MonitorSpec) {
	g := row.grantColumns
	if g.Verify = spec.Verify; !spec.Verify || spec.Scheme != row.Scheme {
		g = grantColumns{Verify: spec.Verify}
	}
	t.exec(`UPDATE monitors SET verify = ?, verified_at = ?, origin = ?, rate = ? WHERE id = ?`, g.Verify, g.VerifiedAt, g.Origin, g.Rate, row.ID)
}

// VerifyMonitor notes what a monitor granted that is pending, and is the only way for it
// to be called. A grant of what is not asked for any more is passed over.
func (s *Store) VerifyMonitor(ctx context.Context, id string, g windsock.Grant) error {
	return s.do(ctx, func(t *tx) error {
		m, err := t.monitor(id)
		if err != nil || !m.Pending() || m.Scheme != g.Scheme {
			return err
		}
		t.exec(`UPDATE monitors SET verified_at = ?, origin = ?, rate = ?, attempts = 0, next_try_at = 0, last_error = '' WHERE id = ?`,
			t.micros, g.Origin, g.Rate, id)
		t.log(&windsock.Event{Type: windsock.MonitorVerified, Kind: windsock.KindMonitor, SubjectID: id, Reason: "it allows to be called by " + g.Origin})
		return t.err
	})
}
