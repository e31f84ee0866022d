package monitors

import (
	"context"
	"errors"
	"net/http"
	"time"

	"windsock"
)

// A monitor that is pending is asked whether it may be called, as often as it would be
// tried to call it, and is not called before it allows that. That it does is decided by
// the store, and followed when the log says so.

// ask makes one handshake with m, which is pending. It is called with m.mu held and
// returns without; and reports whether m is to stand in the same line again.
func (d *Deliverer) ask(ctx context.Context, line *pool, m *monitor, cancel context.CancelFunc) bool {
	t := m.target
	m.flying++
	m.asking = cancel
	m.mu.Unlock()

	grant, got := d.handshake(ctx, t)
	if got.failure == "" {
		err := d.Log.VerifyMonitor(m.share.calls, t.ID, grant)
		if err != nil && !errors.Is(err, windsock.ErrNotFound) { // it was removed
			d.Logger.Error("could not store that a monitor may be called", "monitor", t.ID, "error", err)
			got.failure = "what it allows could not be stored"
		}
	}
	now := time.Now()

	m.mu.Lock()
	defer m.mu.Unlock()
	m.flying--
	m.asking = nil
	switch {
	case got.withheld, errors.Is(ctx.Err(), context.Canceled), t != m.target: // it was we who ended it, or there are new wishes
	case got.failure == "":
		d.Logger.Info("monitor allows to be called", "monitor", m.id, "origin", grant.Origin, "rate", grant.Rate)
		m.granted = t
	default:
		m.unanswered(got.failure, askedWait(got.status, got.header, now), now, d.Rand)
		d.Logger.Warn("handshake failed", "monitor", m.id, "attempts", m.attempts, "next_try", m.nextTryAt, "error", cut(got.failure, maxLogged))
	}
	d.saver.mark(m)
	return d.again(line, m)
}

// handshake asks t once whether it may be called.
func (d *Deliverer) handshake(ctx context.Context, t *windsock.Target) (windsock.Grant, reply) {
	header := http.Header{"User-Agent": {"windsock/" + d.Version}}
	identify(header, t)
	header[originHeader] = []string{d.Origin}
	got := d.send(ctx, http.MethodOptions, t, baseURL(&t.MonitorSpec), header, nil, time.Now())
	if got.failure != "" {
		return windsock.Grant{}, got
	}
	grant, err := windsock.ReadGrant(d.Origin, got.header.Values("Webhook-Allowed-Origin"), got.header.Values("Webhook-Allowed-Rate"))
	if err != nil {
		got.failure = clean(err.Error(), t)
	}
	grant.Scheme = t.Scheme
	return grant, got
}

// originHeader says who calls.
const originHeader = "Webhook-Request-Origin"

// The methods from here on want the monitor's mu to be held.

// verified follows what the log says of its grants.
func (m *monitor) verified(t *windsock.Target) {
	if m.target.Pending() {
		m.attempts, m.nextTryAt, m.lastError = 0, time.Time{}, ""
	}
	m.target = t
	m.spend()
}

// asked reports whether it allowed to be called, and the log has not said so yet.
func (m *monitor) asked() bool { return m.granted == m.target }

// unanswered notes a handshake in vain.
func (m *monitor) unanswered(failure string, asked time.Duration, now time.Time, rand func() float64) {
	m.epoch++
	m.attempts++
	m.lastError = failure
	if asked == 0 {
		asked = backoff(m.attempts, rand)
	}
	m.nextTryAt = now.Add(asked)
}

// spend notes that a request is made: the next has to wait for its turn by the rate that
// the monitor allows.
func (m *monitor) spend() {
	if rate := m.target.AllowedRate; rate > 0 {
		m.turnAt = time.Now().Add(time.Minute / time.Duration(rate))
	}
}

// mayTurn reports whether the rate allows a request now. If not, it will be woken in time.
func (m *monitor) mayTurn() bool {
	if m.turnAt.IsZero() { // as mostly
		return true
	}
	wait := time.Until(m.turnAt)
	if wait > 0 && m.turn == nil {
		m.turn = time.AfterFunc(wait, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.turn = nil
			m.wake(m)
		})
	}
	return wait <= 0
}
