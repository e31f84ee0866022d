package api

import (
	"net/http"

	"windsock"
)

// listReplicas shows the processes that share the store, and what each holds.
func (s *Server) listReplicas(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Store.Replicas(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, struct {
		Replicas []windsock.Replica `json:"replicas"`
	}{list})
}
