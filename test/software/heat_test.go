package software

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// templates has public Heat templates, which are not part of this project.
var templates = cmp.Or(os.Getenv("WINDSOCK_TEST_HOT"), filepath.Join("..", "..", "..", "shared", "fixtures", "hot"))

func public(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(templates, name))
	if err != nil {
		t.Skipf("takes a public template: %v", err)
	}
	return string(data)
}

// The exchange of a key that heat-translator makes of TOSCA, with scripts of our own.
func TestPublicExchangeOfKeys(t *testing.T) {
	template := public(t, "hx-exchange-public-ssh-key.yaml")
	s := newSite(t)
	files := map[string]string{
		"artifacts/ssh/ssh_generate_keys.sh":     "#!/bin/sh\nset -e\ncd '" + s.home("server1") + "'\nssh-keygen -q -t ed25519 -N '' -f id\ncp id.pub \"$heat_outputs_path.public_key\"\n",
		"artifacts/ssh/ssh_import_public_key.sh": "#!/bin/sh\nprintf '%s' \"$public_key\" > '" + s.home("server2") + "/authorized_keys'\n",
	}
	s.deploy(t, "tosca", template, files, nil, "server1", "server2")
	s.boot(t, "tosca", "server1", "server2")
	s.await(t, "tosca", "running")
	made, trusted := lines(t, filepath.Join(s.home("server1"), "id.pub")), lines(t, filepath.Join(s.home("server2"), "authorized_keys"))
	if len(made) != 1 || len(trusted) != 1 || made[0] != trusted[0] {
		t.Errorf("made %q, trusted %q", made, trusted)
	}
}

// The two servers of heat-translator's web shop: each phase notes that it ran, and with
// which address of the database.
func TestPublicDatabaseAndWeb(t *testing.T) {
	template := public(t, "hx-nodejs-mongodb-two-instances.yaml")
	s := newSite(t)
	files, note := map[string]string{}, filepath.Join(s.dir, "phases")
	for _, name := range []string{"mongodb/create.sh", "mongodb/config.sh", "mongodb/start.sh", "mongodb/create_database.sh", "nodejs/create.sh", "nodejs/config.sh", "nodejs/start.sh"} {
		files[name] = "#!/bin/sh\necho " + name + " $mongodb_ip >> '" + note + "'\n"
	}
	s.deploy(t, "tosca", template, files, nil, "mongo_server", "app_server")
	s.Must(t, "PATCH", "/api/instances/tosca-mongo_server", m{"address": "10.0.0.7"}, nil, 200)
	s.boot(t, "tosca", "mongo_server", "app_server")
	s.await(t, "tosca", "running")
	at := map[string]int{}
	for i, line := range lines(t, note) {
		at[line] = i
	}
	order := []string{"mongodb/create.sh", "mongodb/config.sh 10.0.0.7", "mongodb/start.sh", "mongodb/create_database.sh", "nodejs/config.sh 10.0.0.7", "nodejs/start.sh"}
	for i, line := range order {
		if _, ran := at[line]; !ran || i > 0 && at[line] < at[order[i-1]] {
			t.Errorf("ran %v, want %q in this order", at, order)
		}
	}
	if len(at) != 7 {
		t.Errorf("ran %v, want each of the seven once", at)
	}
}

// A playbook on localhost, by the hook that the agent has for it.
func TestAnsible(t *testing.T) {
	if _, err := exec.LookPath("ansible-playbook"); err != nil {
		t.Skip("ansible-playbook is not installed")
	}
	s := newSite(t)
	playbook := `- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - copy: {dest: "{{ disk }}/greeting", content: "{{ greeting }}"}
    - copy: {dest: "{{ heat_outputs_path }}.length", content: "{{ greeting | length }}"}
`
	template, _ := json.Marshal(m{
		"heat_template_version": "2015-10-15",
		"resources": m{
			"one": m{"type": "OS::Nova::Server"},
			"config": m{"type": "OS::Heat::SoftwareConfig", "properties": m{
				"group": "ansible", "config": playbook, "inputs": []m{{"name": "disk"}, {"name": "greeting"}}, "outputs": []m{{"name": "length"}},
			}},
			"greet": m{"type": "OS::Heat::SoftwareDeployment", "properties": m{
				"config": m{"get_resource": "config"}, "server": m{"get_resource": "one"}, "input_values": m{"disk": s.home("one"), "greeting": "good morning"},
			}},
		},
		"outputs": m{"length": m{"value": m{"get_attr": []string{"greet", "length"}}}},
	})
	s.deploy(t, "play", string(template), nil, nil, "one")
	s.boot(t, "play", "one")
	s.await(t, "play", "running")
	greeting, err := os.ReadFile(filepath.Join(s.home("one"), "greeting"))
	if err != nil || strings.TrimSpace(string(greeting)) != "good morning" {
		t.Errorf("greeting %q (%v)", greeting, err)
	}
	if got := s.outputs(t, "play")["length"]; got != "12" {
		t.Errorf("length %v", got)
	}
}
