package api

import (
	"context"
	"net/http"

	"windsock"
)

// Silences keeps what callbacks wait for, because somebody wants it so.
type Silences interface {
	AddSilence(context.Context, windsock.SilenceSpec) (windsock.Silence, error)
	EndSilence(ctx context.Context, id string) error
	Silence(ctx context.Context, id string) (windsock.Silence, error)
	Silences(ctx context.Context, after string, limit int) ([]windsock.Silence, error)
}

// addSilence has callbacks wait. Who calls is its author, if he had to say who he is.
func (s *Server) addSilence(w http.ResponseWriter, r *http.Request) error {
	var spec windsock.SilenceSpec
	if err := decode(w, r, &spec); err != nil {
		return err
	}
	if caller := windsock.PrincipalOf(r.Context()).Name; caller != "" {
		spec.Author = caller
	}
	added, err := s.Store.AddSilence(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/silences/"+added.ID)
	return represent(w, r, http.StatusCreated, added)
}

func (s *Server) listSilences(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	found, err := s.Store.Silences(r.Context(), q.Get("after"), limit)
	if err != nil {
		return err
	}
	return represent(w, r, http.StatusOK, struct {
		Silences []windsock.Silence `json:"silences"`
		Next     string             `json:"next,omitempty"`
	}{orEmpty(found), nextPage(w, r, found, limit, func(s *windsock.Silence) string { return s.ID })})
}

func (s *Server) showSilence(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	found, err := s.Store.Silence(r.Context(), id)
	if err != nil {
		return at("id", err)
	}
	return represent(w, r, http.StatusOK, found)
}

// endSilence ends it now. To end one that has ended changes nothing.
func (s *Server) endSilence(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	if err := s.Store.EndSilence(r.Context(), id); err != nil {
		return at("id", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
