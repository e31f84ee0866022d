package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"windsock"
)

// WaitCmd is "windsock wait".
type WaitCmd struct {
	subject
	For     windsock.State `help:"The state to wait for (default running)." default:"running" placeholder:"STATE"`
	Timeout time.Duration  `help:"How long to wait." default:"5m"`
}

// Help is shown by windsock wait --help.
func (*WaitCmd) Help() string {
	return `Goes on while windsock cannot be reached, as when it is restarted.
Ends with 0 once the state is reached, 1 when it was not in time, 2 when it is not there or cannot be in that state,
3 when windsock could not be reached in the end.`
}

// How a wait ends.
const (
	reached     exit = 0
	notReached  exit = 1
	notPossible exit = 2
	unreachable exit = 3
)

const (
	onePoll   = time.Minute            // of a wait; proxies do not like longer ones
	overdue   = 10 * time.Second       // an answer that is later than asked for is none
	retryFast = 250 * time.Millisecond // after windsock was not reached; doubled each time,
	retrySlow = 5 * time.Second        // up to that
)

// Run waits, and says how it came out.
func (c *WaitCmd) Run(ctx context.Context, io stdio) error {
	end := time.Now().Add(c.Timeout)
	for retry := retryFast; ; {
		a, err := c.poll(ctx, min(max(time.Until(end), 0), onePoll))
		late := time.Until(end) <= 0
		switch {
		case err == nil && a.status == http.StatusOK:
			c.say(io, a, "is %s", a.Observed)
			return reached
		case err == nil && a.Type == "/problems/await-timeout":
			if late {
				c.say(io, a, "is %s, not %s, after %s", a.Observed, c.For, c.Timeout)
				return notReached
			}
			retry = retryFast
			continue
		case err == nil && a.status < http.StatusInternalServerError && a.status != http.StatusTooManyRequests:
			c.say(io, a, "cannot be waited for: %s", a.refusal())
			return notPossible
		case late && err == nil:
			c.say(io, a, "may be %s or not, after %s: %s", c.For, c.Timeout, a.refusal())
			return unreachable
		case late || ctx.Err() != nil:
			c.say(io, nil, "may be %s or not, after %s: %v", c.For, c.Timeout, err)
			return unreachable
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(retry, max(time.Until(end), 0))):
		}
		retry = min(2*retry, retrySlow)
	}
}

// poll asks windsock to answer once it is in that state, or the time is over.
func (c *WaitCmd) poll(ctx context.Context, timeout time.Duration) (*answered, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+overdue)
	defer cancel()
	q := url.Values{"await": {string(c.For)}, "timeout": {timeout.Round(time.Millisecond).String()}}
	return c.call(ctx, http.MethodGet, "?"+q.Encode())
}
