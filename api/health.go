package api

import (
	"context"
	"net/http"
	"time"
)

// A Beat says when a loop last went round.
type Beat struct {
	Name string
	Beat func() time.Time
	Max  time.Duration // a loop that was silent for longer is dead
}

// pingTime is how long the store may take for a small write before we are not ready.
const pingTime = 5 * time.Second

// livez says that this process answers at all.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) error {
	return answer(w, http.StatusOK, map[string]string{"status": "ok", "version": s.Version})
}

// readyz says that the store takes writes and every loop goes round.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	var failing []string
	ctx, cancel := context.WithTimeout(r.Context(), pingTime)
	defer cancel()
	if err := s.Store.Ping(ctx); err != nil {
		s.Logger.Warn("store is not ready", "error", err)
		failing = append(failing, "store")
	}
	for _, b := range s.Ready {
		if time.Since(b.Beat()) > b.Max {
			failing = append(failing, b.Name)
		}
	}
	if len(failing) > 0 {
		return &told{errNotReady, facts{Failing: failing}}
	}
	return answer(w, http.StatusOK, map[string]string{"status": "ok"})
}
