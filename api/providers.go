package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"windsock"
)

// A Lister knows the providers that are observed. An observer is one.
type Lister interface {
	// Words says which state each of a provider's own words stands for; nil when it is not
	// observed.
	Words(provider string) map[string]windsock.State

	// Listing shows what a provider shows now; ErrNotFound when it is not observed.
	Listing(ctx context.Context, provider string) (windsock.Listing, error)
}

// provider is how one is shown.
type provider struct {
	windsock.ProviderStatus
	Words map[string]windsock.State `json:"words,omitempty"`
}

func (s *Server) providers(ctx context.Context) ([]provider, error) {
	list, err := s.Store.Providers(ctx)
	shown := make([]provider, len(list))
	for i, status := range list {
		shown[i].ProviderStatus = status
		if s.Lister != nil {
			shown[i].Words = s.Lister.Words(status.ID)
		}
	}
	return shown, err
}

func (s *Server) listProviders(w http.ResponseWriter, r *http.Request) error {
	list, err := s.providers(r.Context())
	if err != nil {
		return err
	}
	return represent(w, r, http.StatusOK, struct {
		Providers []provider `json:"providers"`
	}{list})
}

// oneProvider is the one that the path names.
func (s *Server) oneProvider(r *http.Request) (p provider, err error) {
	id, err := pathText(r, "id")
	if err != nil {
		return p, err
	}
	list, err := s.providers(r.Context())
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(list, func(p provider) bool { return p.ID == id })
	if i < 0 {
		return p, at("id", fmt.Errorf("provider %q: %w", id, windsock.ErrNotFound))
	}
	return list[i], nil
}

// showProvider shows a provider or, in a dry run, what it would declare now.
func (s *Server) showProvider(w http.ResponseWriter, r *http.Request) error {
	q := queryOf(r)
	dry, limit := q.flag("dry_run"), q.limit()
	if q.err != nil {
		return q.err
	}
	p, err := s.oneProvider(r)
	switch {
	case err != nil:
		return err
	case dry != nil && *dry:
		return s.showListing(w, r, p.ID, limit)
	}
	return represent(w, r, http.StatusOK, p)
}

// showListing lists a provider now, and records nothing of it.
func (s *Server) showListing(w http.ResponseWriter, r *http.Request, id string, limit int) error {
	if s.Lister == nil {
		return errNoObserver
	}
	linger(w, checkTime)
	ctx, cancel := s.untilStop(r.Context(), checkTime)
	defer cancel()
	l, err := s.Lister.Listing(ctx, id)
	switch {
	case errors.Is(err, windsock.ErrNotFound):
		return at("id", errUnlisted)
	case errors.Is(err, windsock.ErrNobody):
		return errNoObserver
	case err != nil:
		return err
	}
	l.Things = l.Things[:min(len(l.Things), limit)]
	return represent(w, r, http.StatusOK, l)
}
