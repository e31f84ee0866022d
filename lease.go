package windsock

import "time"

// MinLease is the shortest lease: there must be time to hear that it ends, and to renew it.
const MinLease = time.Minute

// A Lease is for how long a monitor stays registered unless it is added again. The zero
// Lease has no end.
type Lease struct {
	TTL       time.Duration
	ExpiresAt time.Time
	NextAt    time.Time // when its end is announced; after that, its end
}

// NewLease returns a lease that begins now.
func NewLease(ttl time.Duration, now time.Time) Lease {
	if ttl == 0 {
		return Lease{}
	}
	end := now.Add(ttl)
	return Lease{ttl, end, end.Add(-notice(ttl))}
}

// notice is how long before its end that is announced.
func notice(ttl time.Duration) time.Duration { return min(ttl/10, 24*time.Hour) }

// Pass returns what becomes of a lease whose NextAt has passed: its end is announced, or
// it is over. When the announcement is late, as after a suspend, so is the end.
func (l Lease) Pass(now time.Time) (next Lease, over bool) {
	if !l.NextAt.Before(l.ExpiresAt) {
		return Lease{}, true
	}
	if end := now.Add(notice(l.TTL)); end.After(l.ExpiresAt) {
		l.ExpiresAt = end
	}
	l.NextAt = l.ExpiresAt
	return l, false
}

func checkLease(ttl Duration) error {
	if ttl != 0 && ttl < Duration(MinLease) {
		return Invalid("ttl", "want a minute to a year, got %s", time.Duration(ttl))
	}
	return nil
}
