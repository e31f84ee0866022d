package api

import (
	"net/http"

	"windsock"
)

// showCaller tells a caller who he is and what he may do.
func (s *Server) showCaller(w http.ResponseWriter, r *http.Request) error {
	p := windsock.PrincipalOf(r.Context())
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusOK, struct {
		Name      string              `json:"name"`
		Role      windsock.Permission `json:"role"`
		Scope     windsock.Scope      `json:"scope"`
		MonitorID string              `json:"monitor_id,omitempty"`
	}{p.Name, p.Permission, p.Scope, p.MonitorID})
}
