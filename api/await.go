package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"windsock"
)

const (
	defaultAwait = time.Minute
	maxAwait     = 5 * time.Minute

	// settle is how long one who waits looks away after news that was not what he waits
	// for, so that a hundred of them do not read the store at every commit.
	settle = 25 * time.Millisecond
)

// await returns the thing once it is in the state that the query awaits, at once when it
// awaits none. When time runs out the answer is 504 and not 408, on which clients repeat
// the request unasked (RFC 9110, section 15.5.9).
func (m *model[S, V]) await(w http.ResponseWriter, r *http.Request, id string) (V, error) {
	var none V
	q := queryOf(r)
	want := q.state("await", m.states)
	timeout := q.duration("timeout", defaultAwait, maxAwait)
	if want == "" && q.Has("timeout") {
		q.refuse("timeout", "is of use with await only")
	}
	if q.err != nil {
		return none, q.err
	}
	if want == "" {
		return m.one(r.Context(), id)
	}
	linger(w, timeout)
	ctx, cancel := m.untilStop(r.Context(), timeout)
	defer cancel()
	for pause := time.Duration(0); ; pause = settle {
		head := m.Store.Head() // before the look, so that no change after it is missed
		v, err := m.one(r.Context(), id)
		if err != nil || m.observed(&v) == want {
			return v, err
		}
		err = m.news(ctx, head, pause)
		gone := m.known(r.Context())
		switch {
		case gone != nil:
			return none, gone
		case err == nil:
			continue
		case m.Stop.Err() != nil:
			return none, fmt.Errorf("stopping: %w", windsock.ErrUnavailable)
		case ctx.Err() != nil:
			return none, &told{errAwait, facts{Observed: m.observed(&v)}}
		}
		return none, err
	}
}

// news blocks for a while and then until there is an event after the given one.
func (s *Server) news(ctx context.Context, after int64, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return s.Store.Wait(ctx, after)
	}
}
