package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"windsock"
)

// A Checker looks at things now. An observer is one.
type Checker interface {
	// Check returns no looks when nothing looks at it.
	Check(context.Context, windsock.Place) ([]windsock.Look, error)

	// CheckAll looks at a deployment, the first, and its members.
	CheckAll(context.Context, []windsock.Place) ([]windsock.Looked, error)
}

// checkTime is longer than a CheckAll takes.
const checkTime = 6 * time.Minute

// seen is what was seen of one thing.
type seen struct {
	Seen  windsock.State  `json:"seen_state,omitempty"`
	Error string          `json:"error,omitempty"` // why nobody could look
	Looks []windsock.Look `json:"looks"`           // each by another way
}

type seenInstance struct {
	ID string `json:"instance_id"`
	seen
}

func seenBy(looks []windsock.Look) seen {
	s := seen{Seen: windsock.Seen(looks), Looks: orEmpty(looks)}
	if s.Seen == "" && len(looks) > 0 {
		s.Error = looks[0].Error
	}
	return s
}

// mayLook reports whether a subject lies in the scope of who asks for a look at it.
func mayLook(r *http.Request, of windsock.Subject, deployment, provider, pool string) bool {
	return windsock.PrincipalOf(r.Context()).Scope.Covers(of, deployment, provider, pool)
}

var errOutside = fmt.Errorf("it does not lie in the scope of this token: %w", windsock.ErrForbidden)

func placeOf(i *windsock.Instance) windsock.Place {
	return windsock.Place{
		Subject:  windsock.Subject{Kind: windsock.KindInstance, ID: i.ID},
		Provider: i.Provider, ProviderID: i.ProviderID, Probed: i.Probe != nil,
	}
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
	case !mayLook(r, windsock.Subject{Kind: windsock.KindInstance, ID: i.ID}, i.DeploymentID, i.Provider, i.Pool):
		return at("id", errOutside)
	case s.Checker == nil:
		return errNoObserver
	}
	linger(w, checkTime)
	looks, err := s.Checker.Check(r.Context(), placeOf(&i))
	switch {
	case errors.Is(err, windsock.ErrNobody):
		return errNoObserver
	case errors.Is(err, windsock.ErrTooMany):
		return fmt.Errorf("too many wait for a look: %w", windsock.ErrUnavailable)
	case err != nil:
		return err
	case len(looks) == 0:
		return at("id", errUnobserved)
	}
	if i, err = s.Store.Instance(r.Context(), i.ID); err != nil {
		return at("id", err)
	}
	return answer(w, http.StatusOK, struct {
		seenInstance
		Observed windsock.State `json:"observed_state"`
	}{seenInstance{i.ID, seenBy(looks)}, i.State})
}

// checkDeployment looks at a deployment, and at its instances.
func (s *Server) checkDeployment(w http.ResponseWriter, r *http.Request) error {
	id, err := pathText(r, "id")
	if err != nil {
		return err
	}
	d, err := s.Store.Deployment(r.Context(), id)
	switch {
	case err != nil:
		return at("id", err)
	case !mayLook(r, windsock.Subject{Kind: windsock.KindDeployment, ID: d.ID}, d.ID, d.Provider, d.Pool):
		return at("id", errOutside)
	case s.Checker == nil:
		return errNoObserver
	}
	linger(w, checkTime)
	ctx, cancel := s.untilStop(r.Context(), checkTime)
	defer cancel()
	places, err := s.placesOf(ctx, &d)
	if err != nil {
		return err
	}
	all, err := s.Checker.CheckAll(ctx, places)
	switch {
	case errors.Is(err, windsock.ErrNobody):
		return errNoObserver
	case err != nil:
		return err
	}
	body := struct {
		ID string `json:"deployment_id"`
		seen
		Observed  windsock.State `json:"observed_state"`
		Instances []seenInstance `json:"instances"` // that anything looks at
	}{ID: d.ID, Instances: []seenInstance{}}
	looked := false
	for _, l := range all {
		found := seenBy(l.Looks)
		if l.Err != nil {
			found.Error = s.whyNot(r, l.Err)
		}
		looked = looked || len(found.Looks) > 0 || l.Err != nil
		switch {
		case l.Kind == windsock.KindDeployment:
			body.seen = found
		case len(found.Looks) > 0 || l.Err != nil:
			body.Instances = append(body.Instances, seenInstance{l.ID, found})
		}
	}
	if !looked {
		return at("id", errUnobserved)
	}
	if d, err = s.Store.Deployment(r.Context(), d.ID); err != nil {
		return at("id", err)
	}
	body.Observed = d.State
	return answer(w, http.StatusOK, body)
}

// whyNot is why one of many could not be looked at.
func (s *Server) whyNot(r *http.Request, err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "there was no time left to look"
	}
	return s.explain(r, err).Title
}

// placesOf is where a deployment and its instances are to be looked for.
func (s *Server) placesOf(ctx context.Context, d *windsock.Deployment) ([]windsock.Place, error) {
	places := []windsock.Place{{
		Subject:  windsock.Subject{Kind: windsock.KindDeployment, ID: d.ID},
		Provider: d.Provider, ProviderID: d.ProviderID,
	}}
	f := windsock.Filter{Deployment: d.ID, Limit: windsock.MaxPage}
	for {
		page, err := s.Store.Instances(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			places = append(places, placeOf(&page[i]))
		}
		if len(page) < f.Limit {
			return places, nil
		}
		f.After = page[len(page)-1].ID
	}
}
