package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"windsock"
)

// anEngine is a Docker engine with one container, and says where it is.
func anEngine(t *testing.T) string {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		switch r.URL.Path {
		case "/v1.41/info":
			io.WriteString(w, `{"Name": "box-1", "SystemTime": "2026-11-30T16:00:00Z"}`)
		case "/v1.41/containers/json":
			io.WriteString(w, `[{"Id": "c1"}]`)
		case "/v1.41/containers/c1/json":
			io.WriteString(w, `{"Id": "c1", "Name": "/shop-web-1", "State": {"Status": "running"}, "HostConfig": {},
				"Config": {"Labels": {"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}}}`)
		}
	}))
	t.Cleanup(engine.Close)
	return strings.Replace(engine.URL, "http://", "tcp://", 1)
}

func TestDiscoverShowsWhatWouldBeDeclared(t *testing.T) {
	engine := anEngine(t)
	config := writeConfig(t, "providers:\n- {id: box, kind: docker, host: '"+engine+"'}\n")
	for _, args := range [][]string{{"--provider", "docker", "--set", "host=" + engine}, {"--provider", "box", "--config", config}} {
		status, out, errors := command(t, append([]string{"discover"}, args...)...)
		want := "deployment  node:box-1  box-1       box-1       -\ninstance    node:box-1  -           node:box-1  running\n" +
			"deployment  shop        shop        box-1       -\ninstance    c1          shop-web-1  shop/web    running\n2 deployments and 2 instances\n"
		if status != 0 || out != want {
			t.Errorf("%v ends with %d and prints\n%s%s; want\n%s", args, status, out, errors, want)
		}
	}
	status, out, _ := command(t, "discover", "--provider", "docker", "--set", "host="+engine, "--json")
	var l windsock.Listing
	if err := json.Unmarshal([]byte(out), &l); status != 0 || err != nil || l.Instances != 2 || l.Things[3].Assembly != "web" {
		t.Errorf("with --json it ends with %d and prints %s", status, out)
	}
}

func TestDiscoverSaysWhatIsWrong(t *testing.T) {
	config := writeConfig(t, "providers:\n- {id: box, kind: docker}\n")
	for text, args := range map[string][]string{
		"want one of docker, libvirt, openstack": {"--provider", "vmware"},
		"group_by: want host or none":            {"--provider", "docker", "--set", "group_by=all"},
		`unknown object member name "hots"`:      {"--provider", "docker", "--set", "hots=x"},
		`has no provider "east"`:                 {"--provider", "east", "--config", config},
		"did not come to its end":                {"--provider", "docker", "--set", "host=unix://" + config},
	} {
		if status, out, errors := command(t, append([]string{"discover"}, args...)...); status != 1 || !strings.Contains(errors, text) {
			t.Errorf("%v ends with %d and prints %s%s; want 1, and %q", args, status, out, errors, text)
		}
	}
}
