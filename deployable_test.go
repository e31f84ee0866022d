package windsock

import "testing"

func TestDeploymentOfADeployable(t *testing.T) {
	good := DeploymentSpec{ID: "shop", Deployable: "d1", Parameters: map[string]any{"port": 80.0}, Members: map[string]string{"server_a": "web-1", "server b": "web-2"}}
	if err := good.Complete(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*DeploymentSpec)
		field  string
	}{
		"parameters of nothing":         {func(d *DeploymentSpec) { d.Deployable, d.Members = "", nil }, "parameters"},
		"instances of nothing":          {func(d *DeploymentSpec) { d.Deployable, d.Parameters = "", nil }, "instances"},
		"a deployable of great length":  {func(d *DeploymentSpec) { d.Deployable = long(256) }, "deployable"},
		"a parameter without a name":    {func(d *DeploymentSpec) { d.Parameters = map[string]any{"": 1} }, "parameters"},
		"a parameter that is no text":   {func(d *DeploymentSpec) { d.Parameters = map[string]any{"a\x00": 1} }, "parameters"},
		"a server without a name":       {func(d *DeploymentSpec) { d.Members = map[string]string{"": "web-1"} }, "instances"},
		"a server whose id is none":     {func(d *DeploymentSpec) { d.Members = map[string]string{"server_a": "a/b"} }, "instances/server_a"},
		"one instance for two servers":  {func(d *DeploymentSpec) { d.Members = map[string]string{"server_a": "web-1", "server_b": "web-1"} }, "instances/server_b"},
		"a server that no instance has": {func(d *DeploymentSpec) { d.Members = map[string]string{"server_a": ""} }, "instances/server_a"},
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			c.change(&d)
			refuses(t, d.Complete(), c.field)
		})
	}
}
