package api

import (
	"net/http"
	"time"

	"windsock"
)

// sumTime bounds how long the log may be read for one answer.
const sumTime = 30 * time.Second

// availability shows how long a subject was in which state.
func (s *Server) availability(kind windsock.Kind) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathText(r, "id")
		if err != nil {
			return err
		}
		q := queryOf(r)
		from, to := q.time("from"), q.time("to")
		if q.err != nil {
			return q.err
		}
		ctx, cancel := s.untilStop(r.Context(), sumTime)
		defer cancel()
		a, err := s.Store.Availability(ctx, windsock.Subject{Kind: kind, ID: id}, from, to)
		if err != nil {
			return at("id", err)
		}
		return represent(w, r, http.StatusOK, a)
	}
}
