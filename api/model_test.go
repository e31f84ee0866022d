package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"windsock"
	"windsock/api"

	"github.com/google/go-cmp/cmp"
)

func TestDeploymentWithoutAnIDGetsOne(t *testing.T) {
	s := open(t)
	a := s.call("POST", "/api/deployments", `{"name":"x"}`).want(201)
	id, _ := a.field("id").(string)
	if len(id) != 36 || a.header.Get("Location") != "/api/deployments/"+id {
		t.Errorf("id %q, Location %q", id, a.header.Get("Location"))
	}
	s.call("POST", "/api/deployments", `{"id":"mine"}`).want(201).has(map[string]any{
		"id": "mine", "provider": "static", "expected_state": "running", "rule": "all", "quorum": 1.0,
	})
}

// An entity tag that one call gave is the one that the next compares.
func TestEntityTagsGuardWrites(t *testing.T) {
	for path, declaration := range map[string]string{"/api/deployments/shop": `{}`, "/api/instances/web-1": `{"deployment_id":"shop"}`} {
		t.Run(path, func(t *testing.T) {
			s := open(t)
			s.call("PATCH", path, `{"name":"<a & b>","metadata":{"ü":"\u2028"}}`).want(200) // what encoders escape in their own ways
			get := s.call("GET", path, "").want(200)
			tag := get.header.Get("ETag")
			if tag != windsock.ETagOf(get.body) {
				t.Fatalf("tag %s is not that of the body", tag)
			}
			s.call("GET", path, "", "If-None-Match", `"other", W/`+tag).want(304)
			s.call("GET", path, "", "If-None-Match", `"other"`).want(200)

			s.call("PATCH", path, `{"name":"a"}`, "If-Match", `"other"`).refused(412, "precondition-failed", "")
			patched := s.call("PATCH", path, `{"name":"b"}`, "If-Match", tag).want(200)
			s.call("PATCH", path, `{"name":"c"}`, "If-Match", tag).refused(412, "precondition-failed", "")
			s.call("GET", path, "").want(200).has(map[string]any{"name": "b"})

			put := s.call("PUT", path, declaration, "If-Match", patched.header.Get("ETag")).want(200)
			s.call("PUT", path, declaration, "If-None-Match", "*").refused(412, "precondition-failed", "")
			s.call("DELETE", path, "", "If-Match", tag).refused(412, "precondition-failed", "")
			s.call("DELETE", path, "", "If-Match", put.header.Get("ETag")).want(204)

			s.call("GET", path, "").refused(404, "not-found", "id")
			s.call("PUT", path, declaration, "If-Match", "*").refused(412, "precondition-failed", "")
			s.call("PUT", path, declaration, "If-None-Match", "*").want(201)
		})
	}
}

// Every GET has a tag, and 304 for who has it already.
func TestListingsHaveEntityTags(t *testing.T) {
	s := open(t)
	for _, path := range []string{
		"/api/deployments", "/api/instances", "/api/deployments/shop/instances", "/api/monitors/list", "/api/pools", "/api/providers", "/api/events", "/openapi.yaml",
	} {
		a := s.call("GET", path, "").want(200)
		if tag := a.header.Get("ETag"); tag != windsock.ETagOf(a.body) {
			t.Errorf("%s: tag %q is not that of the body", path, tag)
		}
		if b := s.call("GET", path, "", "If-None-Match", a.header.Get("ETag")).want(304); len(b.body) != 0 {
			t.Errorf("%s: 304 with a body", path)
		}
		if h := s.call("HEAD", path, "").want(200); h.header.Get("ETag") != a.header.Get("ETag") || len(h.body) != 0 {
			t.Errorf("HEAD %s: %v", path, h.header)
		}
	}
}

func TestInstancesArePagedAndFiltered(t *testing.T) {
	s := open(t)
	s.call("PUT", "/api/deployments/blog", `{"pool":"west","provider":"nova"}`).want(201)
	for i := range 7 {
		s.call("PUT", fmt.Sprintf("/api/instances/blog-%d", i), `{"deployment_id":"blog","assembly":"front"}`).want(201)
	}
	s.detect("web-1", "FAIL DETECTED").want(200)
	var got []string
	for path := "/api/instances?limit=3&deployment=blog"; path != ""; {
		a := s.call("GET", path, "").want(200)
		got = append(got, a.ids("instances")...)
		path = nextOf(a)
	}
	if d := cmp.Diff([]string{"blog-0", "blog-1", "blog-2", "blog-3", "blog-4", "blog-5", "blog-6"}, got); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	for query, want := range map[string][]string{
		"state=failed":                   {"web-1"},
		"drift=true":                     {"web-1"},
		"drift=false&pool=east":          {"web-2"},
		"stale=true":                     {},
		"provider=nova&limit=1":          {"blog-0"},
		"assembly=front&after=blog-5":    {"blog-6"},
		"pool=west&deployment=shop":      {},
		"pool=no%20such%20pool&limit=10": {},
	} {
		if d := cmp.Diff(want, s.call("GET", "/api/instances?"+query, "").want(200).ids("instances")); d != "" {
			t.Errorf("%s: (-want +got) %s", query, d)
		}
	}
	if d := cmp.Diff([]string{"shop"}, s.call("GET", "/api/deployments?pool=east&state=degraded&provider=static", "").want(200).ids("deployments")); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
	if d := cmp.Diff([]string{"web-1"}, s.call("GET", "/api/deployments/shop/instances?state=failed", "").want(200).ids("instances")); d != "" {
		t.Errorf("(-want +got) %s", d)
	}
}

// A merge patch merges, and null brings defaults back.
func TestPatchMerges(t *testing.T) {
	s := open(t)
	s.call("PUT", "/api/instances/web-1", `{"deployment_id":"shop","name":"web","expected_state":"stopped","metadata":{"a":"1","b":"2"},
		"probe":{"type":"http","target":"http://127.0.0.1:1/","interval":"30s","fails":5}}`).want(200)
	s.call("PATCH", "/api/instances/web-1", `{"expected_state":null,"metadata":{"a":null,"c":"3"},"probe":{"interval":null,"passes":3}}`, "Content-Type", patchType).want(200)
	a := s.call("GET", "/api/instances/web-1", "").want(200)
	a.has(map[string]any{
		"name": "web", "expected_state": "running", "metadata": map[string]any{"b": "2", "c": "3"},
		"probe": map[string]any{"type": "http", "target": "http://127.0.0.1:1/", "interval": "10s", "timeout": "5s", "fails": 5.0, "passes": 3.0},
	})
	s.call("PATCH", "/api/instances/web-1", `{"probe":null,"metadata":null,"id":"web-1","deployment_id":"shop"}`, "Content-Type", patchType).want(200).
		has(map[string]any{"probe": nil, "metadata": nil, "name": "web"})
	s.call("PATCH", "/api/instances/web-1", `{}`, "Content-Type", patchType).want(200)
}

func TestEvidenceIsCleared(t *testing.T) {
	s := open(t)
	s.detect("web-1", "FAIL DETECTED", "source", "a/b c").want(200)
	s.call("DELETE", "/api/instances/web-1/evidence/a%2Fb%20c", "").want(204)
	s.call("GET", "/api/instances/web-1", "").want(200).has(map[string]any{"observed_state": "unknown"})
	s.call("DELETE", "/api/instances/web-1/evidence/a%2Fb%20c", "").refused(404, "not-found", "source")
}

// Over HTTP nobody has a program run that does not lie in a plugin folder.
func TestExecProbesLieInPluginFolders(t *testing.T) {
	dir := t.TempDir()
	plugins, elsewhere := filepath.Join(dir, "plugins"), filepath.Join(dir, "plugins-old")
	for _, d := range []string{plugins, elsewhere} {
		check(t, os.Mkdir(d, 0o755))
		check(t, os.WriteFile(filepath.Join(d, "check_x"), []byte("#!/bin/sh\n"), 0o755))
	}
	check(t, os.Symlink("check_x", filepath.Join(plugins, "check_y")))
	check(t, os.Symlink(filepath.Join(elsewhere, "check_x"), filepath.Join(plugins, "check_out")))
	check(t, os.Symlink(plugins, filepath.Join(dir, "link")))
	s := open(t, func(srv *api.Server) { srv.Plugins = []string{filepath.Join(dir, "link")} })
	for command, ok := range map[string]bool{
		plugins + "/check_x":                true,
		plugins + "/check_y":                true,
		dir + "/link/check_x":               true,
		elsewhere + "/check_x":              false,
		plugins + "/check_out":              false,
		plugins + "/no_such_check":          false,
		plugins + "/../plugins-old/check_x": false,
		plugins + "/../plugins/check_x":     false,
		plugins:                             false,
		"/bin/sh":                           false,
	} {
		a := s.call("PUT", "/api/instances/web-1", fmt.Sprintf(`{"deployment_id":"shop","probe":{"type":"exec","command":[%q,"-w","5"]}}`, command))
		if ok {
			a.want(200)
		} else {
			a.refused(400, "invalid", "probe.command")
		}
	}
}

// What the configuration file declared may be patched around.
func TestForeignExecProbeSurvivesAPatch(t *testing.T) {
	s := open(t)
	_, _, err := s.store.PutInstance(t.Context(), windsock.InstanceSpec{
		ID: "web-1", DeploymentID: "shop", Probe: &windsock.Probe{Type: windsock.ProbeExec, Command: []string{"/opt/check", "a"}},
	}, windsock.Cond{})
	check(t, err)
	s.call("PATCH", "/api/instances/web-1", `{"name":"x"}`).want(200)
	s.call("PATCH", "/api/instances/web-1", `{"probe":{"command":["/opt/check","b"]}}`).refused(400, "invalid", "probe.command")
	s.call("PATCH", "/api/instances/web-1", `{"probe":{"interval":"20s"}}`).refused(400, "invalid", "probe.command")
	s.call("GET", "/api/instances/web-1", "").want(200).has(map[string]any{
		"probe": map[string]any{"type": "exec", "command": []any{"/opt/check", "a"}, "interval": "10s", "timeout": "5s", "fails": 2.0, "passes": 2.0},
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
