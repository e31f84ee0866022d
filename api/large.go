package api

import (
	"fmt"
	"net/http"
	"time"

	"windsock"
)

// Who may send a large body may not be known before it is read, and each takes memory many
// times its size. So only a few are taken in at a time.
const (
	largeBody   = 1 << 20 // bytes
	largeBodies = 8
	largeWait   = 10 * time.Second
)

type places chan struct{}

// enter waits for a place, if the body of a request is a large one.
func enter(r *http.Request, p places) (leave func(), err error) {
	if 0 <= r.ContentLength && r.ContentLength <= largeBody {
		return func() {}, nil
	}
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-time.After(largeWait):
		return nil, fmt.Errorf("too many large bodies: %w", windsock.ErrUnavailable)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
