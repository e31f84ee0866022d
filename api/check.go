package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"windsock"

	"golang.org/x/sync/errgroup"
)

const (
	checkWorkers = 32
	checkTime    = 5 * time.Minute // for all of a deployment
)

// seen is what a look at one instance showed.
type seen struct {
	InstanceID string         `json:"instance_id"`
	Seen       windsock.State `json:"seen_state,omitempty"`
	Error      string         `json:"error,omitempty"` // why nobody could look
}

func (s *Server) checkInstance(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	i, err := s.Store.Instance(r.Context(), id)
	switch {
	case err != nil:
		return at("id", err)
	case s.Checker == nil:
		return errNoObserver
	case i.Probe == nil:
		return at("id", errNotProbed)
	}
	linger(w, checkTime)
	state, err := s.Checker.Check(r.Context(), i.ID)
	if errors.Is(err, windsock.ErrTooMany) {
		return fmt.Errorf("too many wait for a look: %w", windsock.ErrUnavailable)
	}
	if err != nil {
		return err
	}
	if i, err = s.Store.Instance(r.Context(), i.ID); err != nil {
		return at("id", err)
	}
	return answer(w, http.StatusOK, struct {
		seen
		Observed windsock.State `json:"observed_state"`
	}{seen{InstanceID: i.ID, Seen: state}, i.State})
}

// checkDeployment looks at every instance that has a probe.
func (s *Server) checkDeployment(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	d, err := s.Store.Deployment(r.Context(), id)
	switch {
	case err != nil:
		return at("id", err)
	case s.Checker == nil:
		return errNoObserver
	}
	linger(w, checkTime)
	ctx, cancel := s.untilStop(r.Context(), checkTime)
	defer cancel()
	looks, err := s.probed(ctx, d.ID)
	if err != nil {
		return err
	}
	if len(looks) == 0 {
		return at("id", errNotProbed)
	}
	var g errgroup.Group
	g.SetLimit(checkWorkers)
	for i := range looks {
		g.Go(func() error {
			s.look(ctx, r, &looks[i])
			return nil
		})
	}
	g.Wait()
	if d, err = s.Store.Deployment(r.Context(), d.ID); err != nil {
		return at("id", err)
	}
	return answer(w, http.StatusOK, struct {
		DeploymentID string         `json:"deployment_id"`
		Observed     windsock.State `json:"observed_state"`
		Instances    []seen         `json:"instances"` // those that have a probe
	}{d.ID, d.State, looks})
}

func (s *Server) look(ctx context.Context, r *http.Request, l *seen) {
	state, err := s.Checker.Check(ctx, l.InstanceID)
	switch {
	case err == nil:
		l.Seen = state
	case ctx.Err() != nil:
		l.Error = "there was no time left to look"
	default:
		l.Error = s.explain(r, err).Title
	}
}

// probed lists the instances of a deployment that have a probe.
func (s *Server) probed(ctx context.Context, deployment string) ([]seen, error) {
	f := windsock.Filter{Deployment: deployment, Limit: windsock.MaxPage}
	var list []seen
	for {
		page, err := s.Store.Instances(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if page[i].Probe != nil {
				list = append(list, seen{InstanceID: page[i].ID})
			}
		}
		if len(page) < f.Limit {
			return list, nil
		}
		f.After = page[len(page)-1].ID
	}
}
