// Package deploy reads what is in deploy/ as those do for whom it is made. It needs neither an
// engine nor a cluster.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project loads the file as Compose does, which also checks it by the schema of the specification.
func project(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"../../deploy/compose/compose.yaml"}, cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeIsConfined(t *testing.T) {
	p := project(t)
	if w, err := p.GetService("windsock"); err != nil || *w.Deploy.Replicas < 2 {
		t.Errorf("windsock: %v replicas, %v", w.Deploy.Replicas, err)
	}
	for name, s := range p.Services {
		if s.Restart != "unless-stopped" || !s.ReadOnly || s.HealthCheck == nil {
			t.Errorf("%s: restart %q, read-only %v, healthcheck %v", name, s.Restart, s.ReadOnly, s.HealthCheck)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" || name != "windsock" {
				t.Errorf("%s: port %s of %q is published", name, port.Published, port.HostIP)
			}
		}
		if _, inside := s.Networks["inside"]; !inside || name != "windsock" && len(s.Networks) > 1 {
			t.Errorf("%s: in the networks %v", name, s.NetworksByPriority())
		}
		for key, value := range s.Environment {
			if secret := strings.Contains(key, "PASSWORD") || strings.Contains(key, "TOKEN"); secret && !strings.HasPrefix(*value, "/run/secrets/") {
				t.Errorf("%s: %s is no file", name, key)
			}
		}
	}
	if !p.Networks["inside"].Internal {
		t.Error("the database may go out")
	}
}

func TestComposeNamesFilesThatAreThere(t *testing.T) {
	p := project(t)
	if promtool, err := exec.LookPath("promtool"); err == nil { // CI has it
		if out, err := exec.Command(promtool, "check", "config", "--syntax-only", p.Configs["prometheus"].File).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	for name, c := range p.Configs {
		if _, err := os.Stat(c.File); err != nil {
			t.Errorf("config %s: %v", name, err)
		}
	}
	for name, s := range p.Secrets {
		if filepath.Base(filepath.Dir(s.File)) != "secrets" {
			t.Errorf("secret %s is in %s, which git does not ignore", name, s.File)
		}
	}
}
