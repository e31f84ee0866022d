package providertest

import (
	"testing"

	"windsock"
)

// testHosts has a provider that shows machines show each before what runs on it, and like any
// other instance when it is looked at alone.
func testHosts(t *testing.T, c Cloud) {
	fill(c, 2*PageSize)
	p := c.Provider()
	deployments, machines := map[string]bool{}, map[string]windsock.Sighting{}
	err := p.Observe(t.Context(), func(page []windsock.Sighting) error {
		for _, s := range page {
			host, node := windsock.NodeHost(s.ID)
			switch {
			case s.Kind == windsock.KindDeployment:
				deployments[s.ID] = true
				for _, on := range s.RunsOn {
					if _, of := windsock.NodeHost(on); !of || node || !deployments[on] {
						t.Errorf("%q is shown to run on %q", s.ID, on)
					}
				}
			case node:
				machines[host] = s
				if s.Deployment != s.ID || !deployments[s.ID] || s.Metadata[windsock.HostKey] != host || s.State != windsock.Running {
					t.Errorf("a machine is shown as %+v", s)
				}
			case machines[s.Metadata[windsock.HostKey]].ID == "" && len(machines) > 0:
				t.Errorf("%q is shown on %q, of all %v", s.ID, s.Metadata[windsock.HostKey], machines)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range machines {
		got, err := p.Check(t.Context(), want.Subject)
		if err != nil || got.State != want.State || got.Raw != want.Raw || got.Deployment != want.Deployment || got.Name != want.Name {
			t.Errorf("listed as %+v, looked at as %+v, %v", want, got, err)
		}
	}
}
