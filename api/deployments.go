package api

import (
	"net/http"

	"windsock"
)

func (s *Server) deployments() *model[windsock.DeploymentSpec, windsock.Deployment] {
	return &model[windsock.DeploymentSpec, windsock.Deployment]{
		Server:    s,
		kind:      windsock.KindDeployment,
		path:      "/api/deployments/",
		states:    windsock.DeploymentStates[:],
		id:        func(d *windsock.DeploymentSpec) *string { return &d.ID },
		idOf:      func(d *windsock.Deployment) string { return d.ID },
		observed:  func(d *windsock.Deployment) windsock.State { return d.State },
		complete:  (*windsock.DeploymentSpec).Complete,
		permit:    permitDeployment,
		putOne:    s.Store.PutDeployment,
		patchOne:  s.Store.PatchDeployment,
		removeOne: s.Store.DeleteDeployment,
		one:       s.Store.Deployment,
		some:      s.Store.Deployments,
	}
}

func permitDeployment(before, after *windsock.DeploymentSpec) error {
	if before != nil && after.ID != before.ID {
		return windsock.Invalid("id", "cannot be changed")
	}
	return nil
}

// listMembers shows the instances of one deployment.
func (s *Server) listMembers(instances *model[windsock.InstanceSpec, windsock.Instance]) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathText(r, "id")
		if err != nil {
			return err
		}
		d, err := s.Store.Deployment(r.Context(), id)
		if err != nil {
			return at("id", err)
		}
		return instances.page(w, r, d.ID)
	}
}

func (s *Server) listPools(w http.ResponseWriter, r *http.Request) error {
	pools, err := s.Store.Pools(r.Context())
	if err != nil {
		return err
	}
	return represent(w, r, http.StatusOK, struct {
		Pools []windsock.Pool `json:"pools"`
	}{orEmpty(pools)})
}
