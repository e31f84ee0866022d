package api

import (
	"errors"
	"fmt"
	"net/http"

	"windsock"
)

const (
	signalPath = "/api/signal/"
	maxSignal  = 16 << 20 // bytes

)

// signal takes in what comes of a component. Who has its token may say so.
func (s *Server) signal(w http.ResponseWriter, r *http.Request) error {
	token, err := pathText(r, "token")
	if err != nil {
		return err
	}
	leave, err := enter(r, s.signals)
	if err != nil {
		return err
	}
	defer leave()
	body, err := readAll(w, r, maxSignal)
	if err != nil {
		return err
	}
	said, err := windsock.ParseSignal(r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	out, err := s.Software.Signal(r.Context(), windsock.Secret(token), said)
	switch {
	case errors.Is(err, windsock.ErrNotFound): // whatever it says of the token
		return at("token", fmt.Errorf("no component has this token: %w", windsock.ErrNotFound))
	case errors.Is(err, windsock.ErrFinal):
		return &told{
			fmt.Errorf("component %q is %s: %w", out.Component, out.State, windsock.ErrFinal),
			facts{Field: "token", DeploymentID: out.DeploymentID, Component: out.Component, State: out.State},
		}
	case err != nil:
		return err
	}
	return answer(w, http.StatusOK, out)
}
