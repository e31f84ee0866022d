package deploy

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The dashboard has nothing but what Grafana's own types know, and all that these need: of a
// dashboard, of each kind of panel in it, and of queries for Prometheus.
func TestGrafanaKnowsTheDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	data, err := os.ReadFile("../../deploy/grafana/windsock.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := new(dashboard.Dashboard).UnmarshalJSONStrict(data); err != nil && err.Error() != "" { // of no faults it makes an error, too
		t.Error(err)
	}
	var d dashboard.Dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	for _, p := range d.Panels {
		if p.Panel != nil && p.Panel.Type != "row" && len(p.Panel.Targets) == 0 {
			t.Errorf("%q asks for nothing", *p.Panel.Title)
		}
	}
}
