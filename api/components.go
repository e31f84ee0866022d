package api

import (
	"context"
	"net/http"
	"slices"

	"windsock"
)

// Software is what is to be configured where. *store.Store is one.
type Software interface {
	Deployables
	Components
}

// Deployables keeps descriptions of software, and reads them.
type Deployables interface {
	// AddDeployable returns a windsock.FieldError for "template" that has the findings in
	// its summary when it cannot be deployed.
	AddDeployable(context.Context, windsock.Deployable) (windsock.Deployable, error)
	Deployable(ctx context.Context, id string) (windsock.Deployable, error)
	Deployables(ctx context.Context, after string, limit int) ([]windsock.Deployable, error) // without source and files
	RemoveDeployable(ctx context.Context, id string) error                                   // ErrConflict: a deployment is made by it
}

// Components keeps what is to be run where, and takes in that it was.
type Components interface {
	Components(ctx context.Context, deploymentID string) (windsock.ComponentGraph, error)
	Component(ctx context.Context, deploymentID, name string) (windsock.Component, error)
	RetryComponent(ctx context.Context, deploymentID, name string) (windsock.Component, error)  // ErrConflict: it is not over
	CancelComponent(ctx context.Context, deploymentID, name string) (windsock.Component, error) // ErrConflict: it is over
	Outputs(ctx context.Context, deploymentID string) (map[string]any, error)                   // null: not known yet
	Handles(ctx context.Context, deploymentID, base string) (map[string]string, error)          // where to signal; the URLs begin with base

	// IssueToken makes the token by which an instance is told what to run; the one before
	// is void.
	IssueToken(ctx context.Context, instanceID string) (windsock.Secret, error)
	// Work returns ErrUnauthorized when the token is not the instance's. Its signal URLs
	// begin with base.
	Work(ctx context.Context, instanceID string, token windsock.Secret, base string) (windsock.Work, error)
	// WorkRevision returns the same without the components.
	WorkRevision(ctx context.Context, instanceID string, token windsock.Secret) (windsock.Work, error)
	// AwaitWork returns once the instance's revision is not the given one any more, or the
	// error of ctx.
	AwaitWork(ctx context.Context, instanceID string, revision int64) error
	// Signal returns ErrNotFound for a token that never was one, ErrFinal, with the
	// outcome, when all was over.
	Signal(ctx context.Context, token windsock.Secret, s windsock.Signal) (windsock.SignalOutcome, error)
}

// software serves with h if there is any.
func (s *Server) software(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.Software == nil {
			return errNoSoftware
		}
		return h(w, r)
	}
}

// deploymentOf returns the id of the deployment that the path names.
func (s *Server) deploymentOf(r *http.Request) (string, error) {
	id, err := pathText(r, "id")
	if err != nil {
		return "", err
	}
	d, err := s.Store.Deployment(r.Context(), id)
	return d.ID, at("id", err)
}

// listComponents shows the graph of a deployment, or some components of it.
func (s *Server) listComponents(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	state, instance := windsock.ComponentState(q.Get("state")), q.Get("instance")
	if states := windsock.ComponentStates[:]; state != "" && !slices.Contains(states, state) {
		return windsock.Invalid("state", "want one of %v, got %q", states, windsock.Clip(string(state)))
	}
	id, err := s.deploymentOf(r)
	if err != nil {
		return err
	}
	graph, err := s.Software.Components(r.Context(), id)
	if err != nil {
		return at("id", err)
	}
	for i := range graph.Components {
		graph.Components[i].After = orEmpty(graph.Components[i].After)
	}
	graph.CriticalPath = orEmpty(graph.CriticalPath)
	graph.Components = slices.DeleteFunc(orEmpty(graph.Components), func(c windsock.Component) bool {
		return state != "" && c.State != state || instance != "" && c.InstanceID != instance
	})
	return represent(w, r, http.StatusOK, graph)
}

// component shows one, after f did with it what it does.
func (s *Server) component(f func(c Components, ctx context.Context, deploymentID, name string) (windsock.Component, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, err := pathText(r, "name")
		if err != nil {
			return err
		}
		id, err := s.deploymentOf(r)
		if err != nil {
			return err
		}
		c, err := f(s.Software, r.Context(), id, name)
		if err != nil {
			return at("name", err)
		}
		c.After = orEmpty(c.After)
		return represent(w, r, http.StatusOK, c)
	}
}

// showOutputs shows what a deployment as a whole tells.
func (s *Server) showOutputs(w http.ResponseWriter, r *http.Request) error {
	id, err := s.deploymentOf(r)
	if err != nil {
		return err
	}
	outputs, err := s.Software.Outputs(r.Context(), id)
	if err != nil {
		return at("id", err)
	}
	if outputs == nil {
		outputs = map[string]any{}
	}
	return represent(w, r, http.StatusOK, struct {
		DeploymentID string         `json:"deployment_id"`
		Outputs      map[string]any `json:"outputs"`
	}{id, outputs})
}

// showHandles shows where a deployment's wait conditions are signalled to: what creates its
// servers has to tell them.
func (s *Server) showHandles(w http.ResponseWriter, r *http.Request) error {
	id, err := s.deploymentOf(r)
	if err != nil {
		return err
	}
	base, err := s.publicURL(r)
	if err != nil {
		return err
	}
	handles, err := s.Software.Handles(r.Context(), id, base)
	if err != nil {
		return at("id", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusOK, struct {
		DeploymentID string            `json:"deployment_id"`
		Handles      map[string]string `json:"handles"`
	}{id, handles})
}
