package openstack

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"windsock"
	"windsock/observer/providertest"
)

// compute is a nova-compute as Nova lists it to administrators.
func compute(host, state string, forced bool) map[string]any {
	return map[string]any{
		"id": "7b1d6d5e-2a4b-4c58-9f0a-5b7f4b2e1c90", "binary": "nova-compute", "host": host, "zone": "nova", "status": "enabled",
		"state": state, "updated_at": "2026-11-30T11:05:56.000000", "disabled_reason": nil, "forced_down": forced,
	}
}

// staffed has the fake be an administrator's, with these hosts.
func staffed(t *testing.T, hosts ...string) *fake {
	f := newFake(t)
	f.services = []map[string]any{{"binary": "nova-scheduler", "host": "controller", "state": "up"}}
	for _, h := range hosts {
		f.services = append(f.services, compute(h, "up", false))
	}
	return f
}

// on makes a server of a deployment on a host, or has it move there.
func (f *fake) on(host, id, deployment string) {
	f.put(uuid(id), map[string]any{"name": id, "metadata": map[string]any{"windsock:deployment": deployment}, "OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:hypervisor_hostname": host + ".example"})
}

// runsOn has a look come to its end, and returns what it says last of a deployment, "?" being
// nothing, and how often it shows it.
func runsOn(t *testing.T, look func(*testing.T) []windsock.Sighting, deployment string) (on string, n int) {
	t.Helper()
	on = "not shown"
	for _, s := range look(t) {
		if s.Kind != windsock.KindDeployment || s.ID != deployment {
			continue
		}
		n++
		on = strings.Join(s.RunsOn, " ")
		if s.RunsOn == nil {
			on = "?"
		}
	}
	return on, n
}

func full(p *Provider) func(*testing.T) []windsock.Sighting {
	return func(t *testing.T) (list []windsock.Sighting) {
		t.Helper()
		if err := p.Observe(t.Context(), func(page []windsock.Sighting) error { list = append(list, page...); return nil }); err != nil {
			t.Fatal(err)
		}
		return list
	}
}

func changes(p *Provider) func(*testing.T) []windsock.Sighting {
	return func(t *testing.T) (list []windsock.Sighting) {
		t.Helper()
		if err := p.Changes(t.Context(), func(page []windsock.Sighting) error { list = append(list, page...); return nil }); err != nil {
			t.Fatal(err)
		}
		return list
	}
}

func TestWhatRunsOnOneHostDependsOnIt(t *testing.T) {
	f := staffed(t, "compute-1", "compute-2")
	f.on("compute-1", "web-1", "shop")
	f.on("compute-1", "web-2", "shop")
	f.on("compute-1", "till-1", "till")
	f.on("compute-2", "till-2", "till")
	p := f.provider(Config{})
	expected := func(step, deployment, want string, times int, look func(*testing.T) []windsock.Sighting) {
		t.Helper()
		if on, n := runsOn(t, look, deployment); on != want || n != times {
			t.Errorf("%s: %s is shown %d times, to run on %q; want %d, %q", step, deployment, n, on, times, want)
		}
	}
	expected("first", "shop", "node:compute-1", 2, full(p)) // it takes all servers to know
	expected("again", "shop", "node:compute-1", 1, full(p))
	expected("on two", "till", "", 1, full(p))
	f.with(func() { clear(f.changed) })
	expected("nothing changed", "shop", "not shown", 0, changes(p))
	f.on("compute-2", "web-2", "shop")
	expected("one moved", "shop", "", 2, changes(p))
	expected("one moved, listed", "shop", "", 1, full(p))
	f.on("compute-2", "web-1", "shop")
	f.with(func() { clear(f.changed); f.changed[uuid("web-1")] = true })
	expected("all moved", "shop", "", 1, changes(p)) // the other may be anywhere
	expected("all moved, listed", "shop", "node:compute-2", 2, full(p))
	f.on("", "web-1", "shop")
	expected("one is nowhere", "shop", "", 2, full(p))
	f.on("compute-2", "web-1", "shop")
	full(p)(t)
	f.with(func() { f.services = f.services[:2] })
	expected("its host vanished", "shop", "", 2, full(p))
}

func TestAServerSaysOnWhichHostItIs(t *testing.T) {
	f := staffed(t, "compute-1")
	f.on("compute-1", "web-1", "shop")
	f.put(uuid("metal"), map[string]any{"metadata": map[string]any{"windsock:deployment": "shop"}, "OS-EXT-SRV-ATTR:host": "compute-1", "OS-EXT-SRV-ATTR:hypervisor_hostname": uuid("ironic")})
	p := f.provider(Config{})
	list := full(p)(t)
	for id, want := range map[string]string{"web-1": "compute-1", "metal": ""} {
		i := slices.IndexFunc(list, func(s windsock.Sighting) bool { return s.ID == uuid(id) })
		if got := list[i].Metadata[windsock.HostKey]; got != want {
			t.Errorf("%s is on %q, want %q", id, got, want)
		}
	}
	if on, _ := runsOn(t, full(p), "shop"); on != "" {
		t.Errorf("with a machine of its own it runs on %q", on)
	}
}

func TestHowAHostIs(t *testing.T) {
	f := staffed(t, "compute-1")
	p := f.provider(Config{Pool: "zone"})
	for name, c := range map[string]struct {
		service map[string]any
		want    windsock.State
		raw     string
	}{
		"heard of":                     {compute("compute-1", "up", false), windsock.Running, "up"},
		"not heard of":                 {compute("compute-1", "down", false), windsock.Unknown, "down"},
		"forced down":                  {compute("compute-1", "down", true), windsock.Failed, "forced down"},
		"in a cell that is down":       {map[string]any{"binary": "nova-compute", "host": "compute-1", "status": "UNKNOWN"}, windsock.Unknown, ""},
		"in a word that we don't know": {compute("compute-1", "sideways", false), windsock.Unknown, "sideways"},
	} {
		f.with(func() { f.services[1] = c.service })
		list := full(p)(t)
		if len(list) != 2 {
			t.Fatalf("%s: %+v", name, list)
		}
		seen, err := p.Check(t.Context(), list[1].Subject)
		if s := list[1]; s.State != c.want || s.Raw != c.raw || (s.State != windsock.Running) != (s.Reason != "") || err != nil || seen.State != s.State || seen.Reason != s.Reason {
			t.Errorf("%s: listed as %+v, looked at as %+v, %v", name, s, seen, err)
		}
	}
	if _, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "node:nobody"}); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("a host that is not there: %v", err)
	}
}

// Nobody could look is never it is down, nor that nothing runs there any more.
func TestHostsThatCannotBeReadAnyMore(t *testing.T) {
	f := staffed(t, "compute-1")
	f.on("compute-1", "web-1", "shop")
	p := f.provider(Config{})
	full(p)(t)
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		f.with(func() { f.faults["os-services"] = code })
		list := full(p)(t)
		if i := list[1]; i.ID != "node:compute-1" || i.State != windsock.Unknown {
			t.Errorf("HTTP %d: the host is shown as %+v", code, i)
		}
		if on, _ := runsOn(t, full(p), "shop"); on != "node:compute-1" {
			t.Errorf("HTTP %d: it runs on %q", code, on)
		}
	}
	if _, err := seen(t, f.provider(Config{}).Observe); err == nil {
		t.Error("at the start all was listed, and so the hosts are gone")
	}
	f.with(func() { f.faults["os-services"] = http.StatusForbidden })
	if on, n := runsOn(t, full(f.provider(Config{})), "shop"); on != "?" || n != 1 {
		t.Errorf("who may not see hosts is shown %d times that it runs on %q", n, on)
	}
}

// Where a server is in a cell that does not answer nobody knows.
func TestACellThatIsDownHidesWhereThingsAre(t *testing.T) {
	f := staffed(t, "compute-1")
	f.on("compute-1", "web-1", "shop")
	f.on("compute-1", "web-2", "shop")
	p := f.provider(Config{})
	full(p)(t)
	f.with(func() { f.down = 1 })
	if on, _ := runsOn(t, full(p), "shop"); on != "node:compute-1" {
		t.Errorf("it runs on %q", on)
	}
	f.on("elsewhere", "web-2", "shop")
	if on, _ := runsOn(t, full(p), "shop"); on != "node:compute-1" {
		t.Errorf("it runs on %q", on)
	}
}

// administered is the fake as the suite of all providers drives it, with hosts.
type administered struct{ suite }

func (a administered) Put(i providertest.Instance) {
	a.suite.Put(i)
	a.with(func() {
		for _, s := range a.servers {
			s["OS-EXT-SRV-ATTR:host"] = "compute-1"
		}
	})
}

func TestProviderForAdministrators(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Cloud { return administered{suite{staffed(t, "compute-1")}} })
}
