package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"windsock"
)

// A Pinger sends a monitor a callback that only tries the way. A deliverer is one.
type Pinger interface {
	Ping(ctx context.Context, monitorID string) (windsock.Pong, error)
}

// pongTime is more than a pinger takes.
const pongTime = 15 * time.Second

func (s *Server) pingMonitor(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if _, err := s.Store.Monitor(r.Context(), id); err != nil {
		return at("id", err)
	}
	if s.Pinger == nil {
		return errNoDeliverer
	}
	linger(w, pongTime)
	ctx, cancel := s.untilStop(r.Context(), pongTime)
	defer cancel()
	pong, err := s.Pinger.Ping(ctx, id)
	switch {
	case errors.Is(err, windsock.ErrNobody):
		return errNoDeliverer
	case errors.Is(err, windsock.ErrTooMany):
		return fmt.Errorf("too many pings are under way: %w", windsock.ErrUnavailable)
	case err != nil:
		return at("id", err)
	}
	return answer(w, http.StatusOK, struct {
		Result    string `json:"result"`
		MonitorID string `json:"monitor_id"`
		windsock.Pong
	}{success, id, pong})
}
