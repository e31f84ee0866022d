// Package software deploys components for real: a windsock, and an agent for each server,
// all processes of their own on this machine, with directories for disks.
package software

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windsock/test/program"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("WINDSOCK_TEST_SERVICE"); role != "" {
		serveAs(role)
	}
	os.Exit(program.Main(m))
}

type m = map[string]any

// A site is a windsock and the servers that it has agents on.
type site struct {
	*program.Server
	dir      string
	deployed []string
	agents   map[string]*program.Process
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{Server: program.Serve(t, "127.0.0.1:0", filepath.Join(dir, "windsock.db")), dir: dir, agents: map[string]*program.Process{}}
	t.Cleanup(func() {
		if t.Failed() {
			s.explain(t)
		}
	})
	return s
}

// restart starts windsock again, which must have ended, where it was.
func (s *site) restart(t *testing.T) {
	t.Helper()
	s.Server = program.Serve(t, s.Addr, filepath.Join(s.dir, "windsock.db"))
}

// home is the disk of a server.
func (s *site) home(server string) string { return filepath.Join(s.dir, server) }

// deploy adds the template and deploys it; its servers are instances named after the
// deployment and the server. They are not running yet.
func (s *site) deploy(t *testing.T, id, template string, files map[string]string, parameters m, servers ...string) {
	t.Helper()
	var added struct{ ID string }
	s.Must(t, "POST", "/api/deployables", m{"name": id, "template": template, "files": files}, &added, 201)
	instances := m{}
	for _, server := range servers {
		instances[server] = instance(id, server)
	}
	s.Must(t, "POST", "/api/deployments", m{"id": id, "flap": "off", "deployable": added.ID, "parameters": parameters, "instances": instances}, nil, 201)
	s.deployed = append(s.deployed, id)
}

func instance(deployment, server string) string { return deployment + "-" + server }

// boot says that the servers run, and starts their agents.
func (s *site) boot(t *testing.T, deployment string, servers ...string) {
	t.Helper()
	for _, server := range servers {
		id := instance(deployment, server)
		s.Must(t, "POST", "/api/monitors/deployment/instance/"+id, m{"state": "START DETECTED", "source": "cloud"}, nil, 200)
		if err := os.MkdirAll(s.home(server), 0o700); err != nil {
			t.Fatal(err)
		}
		var issued struct{ Token string }
		s.Must(t, "POST", "/api/instances/"+id+"/token", nil, &issued, 201)
		if err := os.WriteFile(s.home(id)+".token", []byte(issued.Token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.startAgent(t, id)
	}
}

func (s *site) startAgent(t *testing.T, id string) {
	t.Helper()
	s.agents[id] = program.Start(t, "agent", "--url", "http://"+s.Addr, "--instance", id, "--token-file", s.home(id)+".token",
		"--hooks", filepath.Join(s.dir, "hooks"), "--state", s.home(id)+".state")
}

type component struct {
	Name       string
	InstanceID string `json:"instance_id"`
	State      string
	Action     string
	Reason     string
	Run        int
	FinishedAt string `json:"finished_at"`
	Outputs    map[string]any
}

// components are those of a deployment, by their names.
func (s *site) components(t *testing.T, deployment string) map[string]component {
	t.Helper()
	var graph struct{ Components []component }
	s.Must(t, "GET", "/api/deployments/"+deployment+"/components", nil, &graph, 200)
	byName := map[string]component{}
	for _, c := range graph.Components {
		byName[c.Name] = c
	}
	return byName
}

// await waits until the deployment is in that state, and returns the reason.
func (s *site) await(t *testing.T, deployment, state string) (reason string) {
	t.Helper()
	var d struct {
		State  string `json:"observed_state"`
		Reason string
	}
	program.Eventually(t, deployment+" is "+state, func() bool {
		s.Must(t, "GET", "/api/deployments/"+deployment, nil, &d, 200)
		return d.State == state
	})
	return d.Reason
}

// explain logs all that there is to know.
func (s *site) explain(t *testing.T) {
	for _, id := range s.deployed {
		var graph struct{ Components []json.RawMessage }
		s.Call(context.Background(), "GET", "/api/deployments/"+id+"/components", nil, &graph)
		for _, c := range graph.Components {
			t.Log(string(c))
		}
	}
	t.Log("windsock:\n", s.Logged())
	for id, a := range s.agents {
		t.Log(id, ":\n", a.Logged())
	}
}

// outputs are the values that a deployment as a whole shows.
func (s *site) outputs(t *testing.T, deployment string) (values m) {
	t.Helper()
	var answer struct{ Outputs m }
	s.Must(t, "GET", "/api/deployments/"+deployment+"/outputs", nil, &answer, 200)
	return answer.Outputs
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// lines are those of a file that scripts append to; none if it is not there.
func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// A key that is made on one server is trusted on another; what the first signs with it is
// verified there.
func TestExchangeOfKeys(t *testing.T) {
	s := newSite(t)
	s.deploy(t, "keys", testdata(t, "keys.yaml"), nil, m{"disks": s.dir}, "client", "server")
	s.boot(t, "keys", "client", "server")
	s.await(t, "keys", "running")
	key, err := os.ReadFile(filepath.Join(s.home("client"), "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := os.ReadFile(filepath.Join(s.home("server"), "trusted"))
	if err != nil || !strings.Contains(string(trusted), strings.TrimSpace(string(key))) {
		t.Errorf("the server trusts %s (%v), the client's key is %s", trusted, err, key)
	}
	if got := s.outputs(t, "keys")["verdict"]; got != "Good" {
		t.Errorf("verdict %v, want Good", got)
	}
}

// A web service that is configured with where its database is answers with what is in it.
func TestDatabaseAndWeb(t *testing.T) {
	s := newSite(t)
	files := map[string]string{}
	for _, name := range []string{"db/install.sh", "db/start.sh", "db/fill.sh", "web/install.sh", "web/configure.sh", "web/start.sh"} {
		files[name] = testdata(t, "shop/"+name)
	}
	s.deploy(t, "shop", testdata(t, "shop/shop.yaml"), files, m{"disks": s.dir, "service": os.Args[0], "db_password": "sesame"}, "db_server", "web_server")
	s.boot(t, "shop", "web_server") // which has to wait
	s.boot(t, "shop", "db_server")
	defer stopServices(t, s.dir)
	s.await(t, "shop", "running")
	url, _ := s.outputs(t, "shop")["url"].(string)
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if string(body) != "three apples" {
		t.Errorf("%s answers %q", url, body)
	}
	var shown struct{ Parameters m }
	s.Must(t, "GET", "/api/deployments/shop", nil, &shown, 200)
	if shown.Parameters["db_password"] == "sesame" {
		t.Error("the hidden parameter is shown")
	}
	for _, p := range append(slices.Collect(maps.Values(s.agents)), s.Process) {
		if strings.Contains(p.Logged(), "sesame") {
			t.Errorf("the hidden parameter is logged:\n%s", p.Logged())
		}
	}
}

// A chain of eight across five servers, each of which adds to what the one before made.
func TestChain(t *testing.T) {
	s := newSite(t)
	var servers []string
	for i := range 5 {
		servers = append(servers, fmt.Sprint("s", i))
	}
	s.deploy(t, "chain", chain(8, servers), nil, nil, servers...)
	s.boot(t, "chain", servers...)
	s.await(t, "chain", "running")
	if got := s.outputs(t, "chain")["all"]; got != "0>1>2>3>4>5>6>7" {
		t.Errorf("the chain made %v", got)
	}
	var graph struct {
		CriticalPath []string `json:"critical_path"`
	}
	s.Must(t, "GET", "/api/deployments/chain/components", nil, &graph, 200)
	if len(graph.CriticalPath) != 8 {
		t.Errorf("critical path %v, want all eight", graph.CriticalPath)
	}
}

// chain is a template of n components, each of which needs the one before.
func chain(n int, servers []string) string {
	resources := m{}
	for _, server := range servers {
		resources[server] = m{"type": "OS::Nova::Server"}
	}
	resources["link"] = m{"type": "OS::Heat::SoftwareConfig", "properties": m{
		"group":   "script",
		"inputs":  []m{{"name": "before", "default": ""}, {"name": "own"}},
		"outputs": []m{{"name": "all"}},
		"config":  "#!/bin/sh\nprintf '%s%s' \"$before\" \"$own\" > \"$heat_outputs_path.all\"\n",
	}}
	for i := range n {
		inputs := m{"own": fmt.Sprint(i)}
		if i > 0 {
			inputs["before"] = m{"list_join": []any{"", []any{m{"get_attr": []string{link(i - 1), "all"}}, ">"}}}
		}
		resources[link(i)] = m{"type": "OS::Heat::SoftwareDeployment", "properties": m{
			"config": m{"get_resource": "link"}, "server": m{"get_resource": servers[i%len(servers)]}, "input_values": inputs,
		}}
	}
	template, _ := json.Marshal(m{
		"heat_template_version": "2015-10-15", "resources": resources,
		"outputs": m{"all": m{"value": m{"get_attr": []string{link(n - 1), "all"}}}},
	})
	return string(template)
}

func link(i int) string { return fmt.Sprint("link", i) }

// One that fails is named with its reason, is no obstacle to others, and can be retried;
// one that never signals is out of time and says so.
func TestFailures(t *testing.T) {
	s := newSite(t)
	s.deploy(t, "shaky", testdata(t, "shaky.yaml"), nil, m{"disks": s.dir}, "one")
	s.boot(t, "shaky", "one")
	reason := s.await(t, "shaky", "failed")
	program.Eventually(t, "all but the dependant are over", func() bool {
		c := s.components(t, "shaky")
		return c["fine"].State == "complete" && c["broken"].State == "failed" && c["slow"].State == "timed_out" && c["missing"].State == "failed"
	})
	c := s.components(t, "shaky")
	if c["after"].State != "waiting" {
		t.Errorf("the dependant of what failed is %s", c["after"].State)
	}
	if !strings.Contains(c["broken"].Reason, "no room") || !strings.Contains(c["missing"].Reason, "juggle") {
		t.Errorf("reasons %q, %q", c["broken"].Reason, c["missing"].Reason)
	}
	if !strings.Contains(reason, "component") {
		t.Errorf("the deployment failed because %q", reason)
	}
	if err := os.WriteFile(filepath.Join(s.home("one"), "room"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "POST", "/api/deployments/shaky/components/broken/retry", nil, nil, 200)
	program.Eventually(t, "the dependant is complete", func() bool { return s.components(t, "shaky")["after"].State == "complete" })
	for _, name := range []string{"slow", "missing"} {
		s.Must(t, "POST", "/api/deployments/shaky/components/"+name+"/retry", nil, nil, 200)
		s.Must(t, "POST", "/api/deployments/shaky/components/"+name+"/cancel", nil, nil, 200)
	}
	s.await(t, "shaky", "running")
}

// An update runs what changed and what depends on outputs that changed; the end undoes all
// in reverse order.
func TestUpdateAndDelete(t *testing.T) {
	s := newSite(t)
	s.deploy(t, "site", testdata(t, "lifecycle.yaml"), nil, m{"disks": s.dir, "port": 80, "greeting": "hello"}, "one")
	s.boot(t, "site", "one")
	s.await(t, "site", "running")
	history := filepath.Join(s.home("one"), "history")
	if got := lines(t, history); !slices.Equal(got, []string{"base CREATE", "db CREATE 80", "web CREATE db:80", "page CREATE hello"}) &&
		!slices.Equal(got, []string{"base CREATE", "db CREATE 80", "page CREATE hello", "web CREATE db:80"}) &&
		!slices.Equal(got, []string{"base CREATE", "page CREATE hello", "db CREATE 80", "web CREATE db:80"}) {
		t.Fatalf("created: %q", got)
	}
	os.Remove(history)
	s.Must(t, "PATCH", "/api/deployments/site", m{"parameters": m{"port": 81}}, nil, 200)
	program.Eventually(t, "the web is updated", func() bool { return s.components(t, "site")["web"].Run == 2 })
	s.await(t, "site", "running")
	if got := lines(t, history); !slices.Equal(got, []string{"db UPDATE 81", "web UPDATE db:81"}) {
		t.Errorf("updated: %q", got)
	}
	os.Remove(history)
	s.Must(t, "PATCH", "/api/deployments/site", m{"expected_state": "gone"}, nil, 200)
	program.Eventually(t, "the base is deleted", func() bool {
		c := s.components(t, "site")["base"]
		return c.Action == "DELETE" && c.State == "complete"
	})
	got := lines(t, history)
	if len(got) != 3 || got[0] != "web DELETE" || got[1] != "db DELETE" || got[2] != "base DELETE" {
		t.Errorf("deleted: %q", got)
	}
}
