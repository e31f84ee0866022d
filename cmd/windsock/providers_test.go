package main

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"windsock/observer"
)

func TestProvidersOfTheFile(t *testing.T) {
	c, err := LoadConfig(writeConfig(t, `
providers:
- {id: east, kind: openstack, cloud: prod, interval: 10s, full: 5m, pool: zone, group_by: project, metadata_key: app, notifications: "amqps://u:p@rabbit.example", exchanges: [nova], endpoints: {compute: "http://10.0.0.1:8774/v2.1"}}
- id: west
  kind: openstack
  self_check: {type: tcp, target: "10.0.0.1:53"}
- {id: static, kind: static, self_check: {type: http, target: "http://10.0.0.1/"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Providers) != 3 {
		t.Fatalf("there are %+v", c.Providers)
	}
	var o observer.Observer
	observed(&o, c.Providers, slog.New(slog.DiscardHandler))
	if len(o.Providers) != 2 || len(o.SelfChecks) != 2 || o.SelfChecks["west"].Target != "10.0.0.1:53" || o.SelfChecks["static"].Timeout == 0 {
		t.Errorf("observed are %+v, checked %+v", o.Providers, o.SelfChecks)
	}
	east := c.Providers[0].source(slog.New(slog.DiscardHandler))
	if east.ID != "east" || east.Kind != "openstack" || east.Every != 10*time.Second || east.Full != 5*time.Minute || east.Provider.Words()["ACTIVE"] != "running" {
		t.Errorf("the first is %+v", east)
	}
	if west := c.Providers[1].source(slog.New(slog.DiscardHandler)); west.ID != "west" || west.Every != 0 || west.Provider == nil || west.Provider == east.Provider {
		t.Errorf("the second is %+v", west)
	}
}

func TestProviderErrorsSayWhere(t *testing.T) {
	provider := "db: x\nproviders:\n- id: east\n  kind: openstack\n" // what follows is on the fifth line
	for text, want := range map[string]string{
		provider + "  interval: 10ms\n":                            "5: providers[0].interval: want at least a second, got 10ms",
		provider + "  interval: often\n":                           "5: providers[0].interval: want seconds or a duration",
		provider + "  interval: 1m\n  full: 30s\n":                 "6: providers[0].full: want at least the interval, got 30s",
		provider + "  pool: rack\n":                                `5: providers[0].pool: want project or zone, got "rack"`,
		provider + "  notifications: sesame\n":                     "5: providers[0].notifications: want amqp://",
		provider + "  flavour: large\n":                            "5: providers[0].flavour: there is no such field",
		provider + "  cloud: 5\n":                                  "5: providers[0].cloud: want text, got 5",
		provider + "  endpoints:\n    compute: there\n":            `6: providers[0].endpoints.compute: want a URL, got "there"`,
		provider + "- id: east\n  kind: openstack\n":               `5: providers[1].id: "east" is taken`,
		"providers:\n- {id: static, kind: openstack}\n":            `2: providers[0].id: "static" is taken`,
		"providers:\n- {id: east, kind: static}\n":                 `2: providers[0].id: "east" is taken`,
		"providers:\n- {id: static, kind: static, interval: 5s}\n": "2: providers[0].kind: of static only a self_check can be set",
		"providers:\n- {id: static, kind: static, cloud: prod}\n":  "2: providers[0].kind: of static only a self_check can be set",
		provider + "  self_check: {type: tcp}\n":                   `5: providers[0].self_check.target: want host:port, got ""`,
		"providers:\n- kind: openstack\n":                          "2: providers[0].id: is required",
		"providers:\n- id: east\n  kind: vmware\n":                 `3: providers[0].kind: want one of docker, libvirt, openstack, static; got "vmware"`,
		"providers:\n- id: east\n":                                 `2: providers[0].kind: want one of docker, libvirt, openstack, static; got ""`,
		"providers: {east: {kind: openstack}}\n":                   "1: providers: want a list, got a mapping",
		"providers:\n- id: a/b\n  kind: openstack\n":               "2: providers[0].id: want a letter or digit",
	} {
		if _, err := LoadConfig(writeConfig(t, text)); err == nil || !strings.Contains(err.Error(), "windsock.yaml:"+want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s\nthe error is %v, want %s", text, err, want)
		}
	}
}

// A cloud that cannot be reached is reported, and stops nothing.
func TestACloudThatCannotBeReached(t *testing.T) {
	t.Setenv("OS_CLIENT_CONFIG_FILE", writeConfig(t, `clouds: {gone: {auth: {auth_url: "http://127.0.0.1:1/v3", username: u, password: sesame, project_name: p, user_domain_name: Default, project_domain_name: Default}}}`))
	config := writeConfig(t, "providers:\n- {id: east, kind: openstack, cloud: gone, interval: 1s}\n- {id: west, kind: openstack, cloud: unheard-of}\ndeployments:\n- id: shop\n")
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", t.TempDir()+"/w.db", "--config", config)
	_, url, _ := strings.Cut(await(t, p.Err, "msg=ready"), "address=")
	url, _, _ = strings.Cut(url, " ")
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", path, resp.Status, err)
		}
		return string(body)
	}
	if shop := get("/api/deployments/shop"); !strings.Contains(shop, `"id":"shop"`) {
		t.Errorf("the deployment is %s", shop)
	}
	late := time.After(patience)
	for {
		list := get("/api/providers")
		if strings.Contains(list, "sesame") {
			t.Fatalf("a secret is shown: %s", list)
		}
		if strings.Count(list, "cannot sign in") == 2 {
			break
		}
		select {
		case <-late:
			t.Fatalf("the providers are %s", list)
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.Stop()
	p.exits(t, 0)
}
