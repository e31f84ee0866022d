package observer

import (
	"context"
	"sync"
	"time"

	"windsock"
	"windsock/observer/probe"
)

// selfCheckLasts is how long what a self-check saw holds, so that a thousand failures at
// once need one.
const selfCheckLasts = time.Second

// A selfCheck looks at something of which is known that it works, from the same place, to
// tell whether it is we who cannot see: our network, our name server, the way to a
// provider.
type selfCheck struct {
	look func(context.Context) probe.Result

	mu   sync.Mutex
	at   time.Time
	seen probe.Result
}

func (o *Observer) prepareSelfChecks() {
	o.selfChecks = map[string]*selfCheck{}
	for provider, p := range o.SelfChecks {
		o.selfChecks[provider] = &selfCheck{look: func(ctx context.Context) probe.Result { return o.lookWith(ctx, p) }}
	}
}

// doubt returns what a look says that failed at something of a provider: nothing of it, if
// the self-check of the provider fails, too.
func (o *Observer) doubt(ctx context.Context, provider string, r probe.Result) probe.Result {
	c := o.selfChecks[provider]
	if c == nil || r.State != windsock.Failed {
		return r
	}
	if own := c.result(ctx); own.State != windsock.Running {
		return probe.Result{State: windsock.Unknown, Reason: "the self-check of " + provider + " fails, too: " + own.Reason}
	}
	return r
}

func (c *selfCheck) result(ctx context.Context) probe.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := time.Since(c.at); c.at.IsZero() || since >= selfCheckLasts {
		seen := c.look(ctx)
		if ctx.Err() != nil {
			return seen // it was broken off, which says nothing to others
		}
		c.seen, c.at = seen, time.Now()
	}
	return c.seen
}
