package api

import (
	"context"
	"net/http"

	"windsock"
)

// Tokens keeps the tokens of callers.
type Tokens interface {
	AddToken(context.Context, windsock.TokenSpec) (windsock.Token, windsock.Secret, error)
	Tokens(context.Context) ([]windsock.Token, error)
	RevokeToken(ctx context.Context, id string) error // or name
}

// addToken makes a token, and shows it this once.
func (s *Server) addToken(w http.ResponseWriter, r *http.Request) error {
	var spec windsock.TokenSpec
	if err := decode(w, r, &spec, typeForm); err != nil {
		return err
	}
	token, secret, err := s.Store.AddToken(r.Context(), spec)
	if err != nil {
		return at(tokenField(err), err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusCreated, struct {
		windsock.Token
		Secret string `json:"token"`
	}{token, string(secret)})
}

// tokenField is which field of a token contradicts what is there.
func tokenField(err error) string {
	if problemOf(err).Status == http.StatusNotFound {
		return "monitor_id"
	}
	return "name"
}

func (s *Server) listTokens(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Store.Tokens(r.Context())
	if err != nil {
		return err
	}
	return represent(w, r, http.StatusOK, struct {
		Tokens []windsock.Token `json:"tokens"`
	}{list})
}

func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	if err := s.Store.RevokeToken(r.Context(), id); err != nil {
		return at("id", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
