package api_test

import (
	"context"
	"testing"

	"windsock"
	"windsock/api"
)

func TestReplicasAreShown(t *testing.T) {
	s := open(t)
	list := s.call("GET", "/api/replicas", "").want(200).field("replicas").([]any)
	if len(list) != 1 {
		t.Fatalf("got %v, want the one that answers", list)
	}
}

// A process that has not the role api says how it is, and nothing else.
func TestWithoutTheRoleAPI(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Mute = true })
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/openapi.yaml", "/api/replicas"} {
		s.call("GET", path, "").want(200)
	}
	s.call("GET", "/api/instances", "").refused(503, "no-api", "")
	s.detect("web-1", "FAIL DETECTED").refused(503, "no-api", "")
}

func (nobody) Check(context.Context, windsock.Place) ([]windsock.Look, error) {
	return nil, windsock.ErrNobody
}

func (nobody) CheckAll(context.Context, []windsock.Place) ([]windsock.Looked, error) {
	return nil, windsock.ErrNobody
}

func TestWhatNobodyDoes(t *testing.T) {
	s := open(t, func(srv *api.Server) { srv.Checker = nobody{} })
	for _, path := range []string{"/api/instances/web-1/check", "/api/deployments/shop/check"} {
		s.call("POST", path, "").refused(503, "no-observer", "")
	}
}
