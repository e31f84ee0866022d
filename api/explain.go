package api

import (
	"net/http"

	"windsock"
)

// explainEvent says why an event was, will be or will not be told to a monitor.
func (s *Server) explainEvent(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	if !q.Has("event") {
		return windsock.Invalid("event", "is required: the seq or the id of an event")
	}
	id := r.PathValue("id")
	if _, err := s.Store.Monitor(r.Context(), id); err != nil {
		return at("id", err)
	}
	x, err := s.Store.Explain(r.Context(), id, q.Get("event"))
	if err != nil {
		return at("event", err)
	}
	return represent(w, r, http.StatusOK, x)
}
