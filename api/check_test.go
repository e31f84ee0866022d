package api_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"windsock"
	"windsock/api"

	"github.com/google/go-cmp/cmp"
)

var running = windsock.Look{Source: "probe", State: windsock.Running}

// eyes see as a table says.
type eyes map[string][]windsock.Look

func (e eyes) Check(_ context.Context, at windsock.Place) ([]windsock.Look, error) {
	if looks := e[at.ID]; len(looks) > 0 && looks[0].Source == "" {
		return nil, errors.New(looks[0].Error)
	}
	return e[at.ID], nil
}

func (e eyes) CheckAll(ctx context.Context, all []windsock.Place) ([]windsock.Looked, error) {
	found := make([]windsock.Looked, len(all))
	for i, at := range all {
		found[i].Subject = at.Subject
		found[i].Looks, found[i].Err = e.Check(ctx, at)
	}
	return found, nil
}

func TestCheckAnswersWhatEachSaw(t *testing.T) {
	e := eyes{}
	s := open(t, func(srv *api.Server) { srv.Checker = e })
	s.call("POST", "/api/deployments/shop/check", "").refused(409, "not-probed", "id")
	s.call("POST", "/api/instances/web-1/check", "").refused(409, "not-probed", "id")

	e["web-1"] = []windsock.Look{{Source: "provider:east", State: windsock.Running, Raw: "ACTIVE"}, {Source: "probe", State: windsock.Failed, Reason: "no answer"}}
	looks := []any{
		map[string]any{"source": "provider:east", "seen_state": "running", "raw": "ACTIVE"},
		map[string]any{"source": "probe", "seen_state": "failed", "reason": "no answer"},
	}
	s.call("POST", "/api/instances/web-1/check", "").want(200).
		has(map[string]any{"instance_id": "web-1", "seen_state": "failed", "observed_state": "unknown", "error": nil, "looks": looks})

	e["shop"] = []windsock.Look{{Source: "provider:east", Error: "HTTP 503"}}
	s.call("POST", "/api/deployments/shop/check", "").want(200).has(map[string]any{
		"deployment_id": "shop", "observed_state": "unknown", "seen_state": nil, "error": "HTTP 503",
		"looks":     []any{map[string]any{"source": "provider:east", "error": "HTTP 503"}},
		"instances": []any{map[string]any{"instance_id": "web-1", "seen_state": "failed", "looks": looks}},
	})

	e["web-2"] = []windsock.Look{{Error: "no eyes"}}
	got := s.call("POST", "/api/deployments/shop/check", "").want(200).field("instances").([]any)
	if d := cmp.Diff(map[string]any{"instance_id": "web-2", "error": "windsock failed", "looks": []any{}}, got[1]); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
}

// places is a Checker that notes where it is to look.
type places []windsock.Place

func (p *places) Check(_ context.Context, at windsock.Place) ([]windsock.Look, error) {
	*p = append(*p, at)
	return nil, fmt.Errorf("checks: %w", windsock.ErrTooMany)
}

func (p *places) CheckAll(_ context.Context, all []windsock.Place) ([]windsock.Looked, error) {
	*p = append(*p, all...)
	return nil, windsock.ErrUnavailable
}

func TestWhereACheckLooks(t *testing.T) {
	var p places
	s := open(t, func(srv *api.Server) { srv.Checker = &p })
	s.call("PUT", "/api/deployments/nova", `{"provider":"east","provider_id":"stack-7"}`).want(201)
	s.call("PUT", "/api/instances/a", `{"deployment_id":"nova","provider_id":"srv-1"}`).want(201)
	s.call("PUT", "/api/instances/b", `{"deployment_id":"nova","probe":{"type":"tcp","target":"127.0.0.1:1"}}`).want(201)
	s.call("POST", "/api/instances/srv-1/check", "").refused(503, "unavailable", "")
	s.call("POST", "/api/deployments/stack-7/check", "").refused(503, "unavailable", "")
	a := windsock.Place{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "a"}, Provider: "east", ProviderID: "srv-1"}
	b := windsock.Place{Subject: windsock.Subject{Kind: windsock.KindInstance, ID: "b"}, Provider: "east", Probed: true}
	d := windsock.Place{Subject: windsock.Subject{Kind: windsock.KindDeployment, ID: "nova"}, Provider: "east", ProviderID: "stack-7"}
	if diff := cmp.Diff(places{a, d, a, b}, p); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}
