package monitors

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// steps are the waits from one try in vain to the next; the last goes on for ever.
// They are a table: nothing in it can overflow, and all can see when the next try is.
var steps = [...]time.Duration{0, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}

const (
	jitter   = 0.2 // of each wait, up or down, so that those who failed together do not come back together
	maxAsked = time.Hour
	maxWait  = maxAsked + maxAsked/5 // no wait is longer, whatever the clock did since it was set
)

// backoff returns how long to wait after so many tries in vain; rand is in [0, 1).
func backoff(attempts int, rand func() float64) time.Duration {
	wait := float64(steps[min(attempts, len(steps)-1)])
	return time.Duration(wait * (1 - jitter + 2*jitter*rand()))
}

// askedWait returns for how long an answer asks us to stay away (RFC 9110, section
// 10.2.3), or 0. That is a second at least, or we would hammer those who say 0.
func askedWait(status int, header http.Header, now time.Time) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	wait := time.Duration(0)
	if secs, err := strconv.ParseUint(value, 10, 64); err == nil {
		wait = time.Duration(min(secs, 3600)) * time.Second
	} else if t, err := http.ParseTime(value); err == nil {
		if sent, err := http.ParseTime(header.Get("Date")); err == nil {
			now = sent // by the clock of the monitor, as t is: ours may be set wrong
		}
		wait = t.Sub(now)
	} else {
		return 0
	}
	return min(max(wait, time.Second), maxAsked)
}
