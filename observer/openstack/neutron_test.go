package openstack

import (
	"net/http"
	"testing"

	"windsock"
)

// showFloating is one as Neutron shows it, of a server or of nobody.
func showFloating(address, server string) map[string]any {
	f := map[string]any{"id": "id-" + address, "floating_ip_address": address, "port_id": nil, "port_details": nil}
	if server != "" {
		f["port_id"], f["port_details"] = "port-"+server, map[string]any{"device_id": server, "device_owner": "compute:nova"}
	}
	return f
}

// Nova has a copy of the addresses that lags, and to get another is no change of a server
// to it.
func TestAddressesAreThoseThatNeutronHas(t *testing.T) {
	f := newFake(t)
	a, b, c := uuid("a"), uuid("b"), uuid("c")
	for _, id := range []string{a, b, c} {
		f.put(id, nil)
	}
	fixed := map[string]any{"addr": "10.64.2.33", "version": 4, "OS-EXT-IPS:type": "fixed"}
	f.put(c, map[string]any{"addresses": map[string]any{"shared": []any{fixed, map[string]any{"addr": "192.0.2.9", "version": 4, "OS-EXT-IPS:type": "floating"}}}})
	attach := func(list ...map[string]any) { f.with(func() { f.floating = list; clear(f.changed) }) }
	attach(showFloating("192.0.2.2", a), showFloating("192.0.2.1", a), showFloating("192.0.2.3", ""))
	p := f.provider(Config{})
	at := func(id, address string) string {
		return "instance " + id + ": running in project:" + project + " named web-1 at " + address
	}
	own := "deployment project:" + project + ": described named demo pool " + project
	expect(t, p.Observe, own, at(a, "192.0.2.1"), at(b, "10.64.2.33"), at(c, "192.0.2.9")) // of which Neutron knows nothing
	expect(t, p.Changes)

	attach(showFloating("192.0.2.2", a), showFloating("192.0.2.1", b), showFloating("192.0.2.3", ""))
	want := map[string]string{a: at(a, "192.0.2.2"), b: at(b, "192.0.2.1")}
	changes := func(when string, want map[string]string) {
		t.Helper()
		list, err := seen(t, p.Changes)
		got := map[string]string{}
		for _, line := range list {
			got[line[len("instance "):len("instance ")+36]] = line
		}
		if err != nil || len(list) != len(want) {
			t.Errorf("%s: shown %v, %v; want %v", when, list, err, want)
		}
		for id := range want {
			if got[id] != want[id] {
				t.Errorf("%s: shown %q, want %q", when, got[id], want[id])
			}
		}
	}
	f.with(func() { f.faults["/servers/"+a] = http.StatusBadGateway })
	if list, err := seen(t, p.Changes); status(err) != http.StatusBadGateway {
		t.Errorf("shown %v, %v", list, err)
	}
	f.with(func() { clear(f.faults) })
	changes("it was attached to another server", want)
	changes("nothing happened since", nil)
	if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: b}); err != nil || line(&s) != want[b] {
		t.Errorf("looked at as %s, %v", line(&s), err)
	}

	// Nova still has one that was taken away; Neutron's word counts.
	taken := showFloating("192.0.2.9", "")
	attach(showFloating("192.0.2.2", a), showFloating("192.0.2.1", b), taken)
	changes("it is not known to have had it", nil)

	// A Neutron that does not answer is no fault of the servers, and what it said holds.
	f.with(func() { f.faults["/neutron/"] = http.StatusServiceUnavailable })
	expect(t, p.Observe, own, at(a, "192.0.2.2"), at(b, "192.0.2.1"), at(c, "10.64.2.33"))
	attach(taken)
	changes("Neutron does not answer", nil)
	f.with(func() { clear(f.faults) })
	changes("two were taken away", map[string]string{a: at(a, "10.64.2.33"), b: at(b, "10.64.2.33")})
	expect(t, p.Observe, own, at(a, "10.64.2.33"), at(b, "10.64.2.33"), at(c, "10.64.2.33"))
}

// An old Neutron does not say whose port it is: then Nova's word is all there is.
func TestANeutronThatDoesNotSayWhosePortItIs(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), map[string]any{"addresses": map[string]any{"shared": []any{map[string]any{"addr": "192.0.2.9", "version": 4, "OS-EXT-IPS:type": "floating"}}}})
	old := showFloating("192.0.2.9", uuid("a"))
	delete(old, "port_details")
	f.with(func() { f.floating = []map[string]any{old} })
	expect(t, f.provider(Config{}).Observe, "deployment project:"+project+": described named demo pool "+project, "instance "+uuid("a")+": running in project:"+project+" named web-1 at 192.0.2.9")
}
