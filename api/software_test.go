package api_test

import (
	"context"
	"testing"

	"windsock"
	"windsock/api"
	"windsock/store"

	"github.com/google/go-cmp/cmp"
)

// declaring notes what is declared of deployments, beside a store.
type declaring struct {
	*store.Store
	spec windsock.DeploymentSpec
}

func (d *declaring) PutDeployment(_ context.Context, spec windsock.DeploymentSpec, _ windsock.Cond) (windsock.Deployment, bool, error) {
	d.spec = spec
	return d.shown(), false, nil
}

func (d *declaring) PatchDeployment(_ context.Context, _ string, _ windsock.Cond, change func(*windsock.DeploymentSpec) error) (windsock.Deployment, error) {
	err := change(&d.spec)
	return d.shown(), err
}

func (d *declaring) shown() windsock.Deployment {
	return windsock.Deployment{DeploymentSpec: d.spec, Observed: windsock.Observed{State: windsock.Unknown, Sources: []string{}}, Instances: map[windsock.State]int{}}
}

// The parameters of a deployable are merged by names. A value is one, and null in it is
// a value, too.
func TestParametersAreMergedByName(t *testing.T) {
	kept := new(declaring)
	s := open(t, func(srv *api.Server) {
		kept.Store = srv.Store.(*store.Store)
		srv.Store = kept
	})
	s.call("PUT", "/api/deployments/shop", `{"deployable":"d1","parameters":{"name":"db","port":80,"conf":{"a":null,"b":[1,null]},"none":null},"instances":{"server_a":"web-1"}}`).want(200).
		has(map[string]any{"deployable": "d1", "parameters": map[string]any{"name": "db", "port": 80.0, "conf": map[string]any{"a": nil, "b": []any{1.0, nil}}}})
	if d := cmp.Diff(map[string]string{"server_a": "web-1"}, kept.spec.Members); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	s.call("PATCH", "/api/deployments/shop", `{"parameters":{"name":null,"conf":{"c":1},"size":"big"}}`, "Content-Type", patchType).want(200)
	if d := cmp.Diff(map[string]any{"port": 80.0, "conf": map[string]any{"c": 1.0}, "size": "big"}, kept.spec.Parameters); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	s.call("PATCH", "/api/deployments/shop", `{"deployable":"d2"}`, "Content-Type", patchType).want(200)
	if kept.spec.Deployable != "d2" || len(kept.spec.Parameters) != 3 {
		t.Errorf("got %+v", kept.spec)
	}
	s.call("PATCH", "/api/deployments/shop", `{"deployable":null,"parameters":null,"instances":null}`, "Content-Type", patchType).want(200)
	if kept.spec.Deployable != "" || kept.spec.Parameters != nil {
		t.Errorf("got %+v", kept.spec)
	}
}
