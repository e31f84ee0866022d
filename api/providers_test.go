package api_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"windsock"
	"windsock/api"
)

// listed is a Lister that observes static and always shows the same.
type listed windsock.Listing

func (listed) Words(id string) map[string]windsock.State {
	if id != "static" {
		return nil
	}
	return map[string]windsock.State{"ACTIVE": windsock.Running, "UPDATE_FAILED": windsock.Degraded}
}

func (l listed) Listing(_ context.Context, id string) (windsock.Listing, error) {
	switch {
	case id != "static":
		return windsock.Listing{}, fmt.Errorf("provider %q: %w", id, windsock.ErrNotFound)
	case l.Error == "panic":
		return windsock.Listing{}, errors.New("our own fault")
	}
	l.Provider = id
	return windsock.Listing(l), nil
}

func TestProvidersAreShownWithTheirWords(t *testing.T) {
	l := listed{Error: "HTTP 503", Things: []windsock.Shown{}}
	for i := range 3 {
		l.Things = append(l.Things, windsock.Shown{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: fmt.Sprint(i)}, State: windsock.Running})
	}
	s := open(t, func(srv *api.Server) { srv.Lister = &l })
	for _, id := range []string{"static", "removed"} {
		check(t, s.store.SaveProvider(t.Context(), windsock.ProviderStatus{ID: id, Kind: "cloud", Watched: 7, Instances: 7, LastError: "HTTP 503"}))
	}
	words := map[string]any{"ACTIVE": "running", "UPDATE_FAILED": "degraded"}
	s.call("GET", "/api/providers/static", "").want(200).has(map[string]any{"id": "static", "instances": 7.0, "last_error": "HTTP 503", "words": words})
	s.call("GET", "/api/providers/removed", "").want(200).has(map[string]any{"id": "removed", "words": nil})
	if got := s.call("GET", "/api/providers", "").want(200).ids("providers"); len(got) != 2 {
		t.Errorf("shows %v", got)
	}

	a := s.call("GET", "/api/providers/static?dry_run=true&limit=2", "").want(200).has(map[string]any{"provider": "static", "error": "HTTP 503"})
	if got := a.ids("things"); len(got) != 2 {
		t.Errorf("of three things, two asked for, shows %v", got)
	}
	s.call("GET", "/api/providers/removed?dry_run=true", "").refused(409, "not-observed", "id")
	l.Error = "panic"
	s.call("GET", "/api/providers/static?dry_run=true", "").refused(500, "internal", "")
	s.server.Lister = nil
	s.call("GET", "/api/providers/static?dry_run=true", "").refused(503, "no-observer", "")
	s.call("GET", "/api/providers/static", "").want(200).has(map[string]any{"words": nil})
}
