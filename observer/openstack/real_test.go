package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"windsock"
)

// real is a cloud that runs OpenStack, with what it takes to change it.
type real struct {
	t *testing.T
	*session
	prefix string
}

// newReal signs in to the cloud of the OS_* variables, which has an image, a flavor and a
// network to make servers of.
func newReal(t *testing.T) *real {
	if os.Getenv("OS_AUTH_URL") == "" {
		t.Skip("OS_AUTH_URL is not set: there is no OpenStack to test with")
	}
	c := Config{Cloud: os.Getenv("OS_CLOUD")}
	s, err := c.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &real{t, s, fmt.Sprintf("windsock-%06x", rand.IntN(1<<24))}
}

// do asks a service to do something, and decodes what it answers.
func (r *real) do(s *gophercloud.ServiceClient, method, path string, body, into any) {
	r.t.Helper()
	opts := &gophercloud.RequestOpts{JSONBody: body, OkCodes: []int{200, 201, 202, 204}, KeepResponseBody: true}
	resp, err := s.Request(context.WithoutCancel(r.t.Context()), method, s.Endpoint+path, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			r.t.Fatal(err)
		}
	}
}

// flavor returns the id of the first flavor.
func (r *real) flavor() string {
	var list struct{ Flavors []struct{ ID, Name string } }
	r.do(r.nova, http.MethodGet, "flavors", nil, &list)
	if len(list.Flavors) == 0 {
		r.t.Skip("there is no flavor")
	}
	return list.Flavors[0].ID
}

// image returns the id of an image.
func (r *real) image() string {
	at, err := r.client.EndpointLocator(gophercloud.EndpointOpts{Type: "image", Availability: gophercloud.AvailabilityPublic})
	if err != nil {
		r.t.Fatal(err)
	}
	var list struct{ Images []struct{ ID string } }
	r.do(&gophercloud.ServiceClient{ProviderClient: r.client, Endpoint: at}, http.MethodGet, "v2/images", nil, &list)
	if len(list.Images) == 0 {
		r.t.Skip("there is no image")
	}
	return list.Images[0].ID
}

// until has what changed be shown until something is in that state.
func (r *real) until(p *Provider, id string, want windsock.State) windsock.Sighting {
	r.t.Helper()
	return r.untilIt(p, id, "is "+string(want), func(s *windsock.Sighting) bool { return s.State == want })
}

// untilIt has what changed be shown until something is as wanted.
func (r *real) untilIt(p *Provider, id, wanted string, ok func(*windsock.Sighting) bool) windsock.Sighting {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	var last windsock.Sighting
	for {
		err := p.Changes(ctx, func(page []windsock.Sighting) error {
			for _, s := range page {
				if s.ID == id {
					last = s
				}
			}
			return nil
		})
		if err != nil {
			r.t.Fatalf("%s: %v; last it was %+v", id, err, last)
		}
		if ok(&last) {
			return last
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("%s is %+v, want that it %s", id, last, wanted)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (r *real) provider() *Provider {
	p, err := New(Config{Cloud: os.Getenv("OS_CLOUD")}, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := p.Observe(r.t.Context(), func([]windsock.Sighting) error { return nil }); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func TestRealServer(t *testing.T) {
	r := newReal(t)
	p := r.provider()
	var made struct{ Server struct{ ID string } }
	r.do(r.nova, http.MethodPost, "servers", map[string]any{"server": map[string]any{
		"name": r.prefix, "flavorRef": r.flavor(), "imageRef": r.image(), "networks": "none", "metadata": map[string]string{"windsock:deployment": r.prefix},
	}}, &made)
	id := made.Server.ID
	t.Cleanup(func() {
		if s, err := r.server(context.Background(), id); err == nil && s.Status != "DELETED" {
			r.do(r.nova, http.MethodDelete, "servers/"+id, nil, nil)
		}
	})
	if s := r.until(p, id, windsock.Running); s.Deployment != r.prefix || s.Name != r.prefix || s.Raw != "ACTIVE active" {
		t.Errorf("it runs as %+v", s)
	}
	r.do(r.nova, http.MethodPost, "servers/"+id+"/action", map[string]any{"os-stop": nil}, nil)
	if s := r.until(p, id, windsock.Stopped); s.Raw != "SHUTOFF stopped power=4" || !s.Requested {
		t.Errorf("it is stopped as %+v", s)
	}
	r.do(r.nova, http.MethodPost, "servers/"+id+"/action", map[string]any{"os-start": nil}, nil)
	r.until(p, id, windsock.Running)
	t.Run("broken by an administrator", func(t *testing.T) { r.reset(t, p, id) })
	r.do(r.nova, http.MethodDelete, "servers/"+id, nil, nil)
	if s := r.until(p, id, windsock.Gone); !s.Requested {
		t.Errorf("it is gone as %+v", s)
	}
	subject := windsock.Subject{Kind: windsock.KindInstance, ID: id}
	if s, err := p.Check(t.Context(), subject); err != nil || s.State != windsock.Gone || !s.Requested {
		t.Errorf("looked at it is %+v, %v", s, err)
	}
}

// reset has an administrator, who is in clouds.yaml by the name of OS_ADMIN_CLOUD, say
// that the server is in error.
func (r *real) reset(t *testing.T, p *Provider, id string) {
	if os.Getenv("OS_ADMIN_CLOUD") == "" {
		t.Skip("OS_ADMIN_CLOUD is not set: nobody may reset a state")
	}
	c := Config{Cloud: os.Getenv("OS_ADMIN_CLOUD")}
	s, err := c.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	admin := &real{t, s, r.prefix}
	admin.do(s.nova, http.MethodPost, "servers/"+id+"/action", map[string]any{"os-resetState": map[string]any{"state": "error"}}, nil)
	r.until(p, id, windsock.Failed)
	all, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	err = all.Observe(t.Context(), func(page []windsock.Sighting) error {
		for _, s := range page {
			found = found || s.ID == id && s.State == windsock.Failed
		}
		return nil
	})
	if err != nil || !found {
		t.Errorf("the administrator, who sees all projects, sees it: %t, %v", found, err)
	}
	admin.do(s.nova, http.MethodPost, "servers/"+id+"/action", map[string]any{"os-resetState": map[string]any{"state": "active"}}, nil)
	r.until(p, id, windsock.Running)

	// To everybody else the servers of a host that is down are ACTIVE.
	var hosts struct{ Services []struct{ ID string } }
	admin.do(s.nova, http.MethodGet, "os-services?binary=nova-compute", nil, &hosts)
	down := func(yes bool) {
		admin.do(s.nova, http.MethodPut, "os-services/"+hosts.Services[0].ID, map[string]any{"forced_down": yes}, nil)
	}
	down(true)
	defer down(false)
	subject := windsock.Subject{Kind: windsock.KindInstance, ID: id}
	if s, err := all.Check(t.Context(), subject); err != nil || s.State != windsock.Unknown || s.Raw != "ACTIVE active host=DOWN" {
		t.Errorf("to the administrator it is %+v, %v", s, err)
	}
	if s, err := p.Check(t.Context(), subject); err != nil || s.State != windsock.Running {
		t.Errorf("to its owner it is %+v, %v", s, err)
	}
}

func TestRealStack(t *testing.T) {
	r := newReal(t)
	if r.heat == nil {
		t.Skip("the cloud has no Heat")
	}
	p := r.provider()
	vm := map[string]any{"type": "OS::Nova::Server", "properties": map[string]any{"flavor": r.flavor(), "image": r.image(), "networks": []any{map[string]any{"allocate_network": "none"}}}}
	group := map[string]any{"type": "OS::Heat::ResourceGroup", "properties": map[string]any{"count": 2, "resource_def": vm}}
	var made struct{ Stack struct{ ID string } }
	r.do(r.heat, http.MethodPost, "stacks", map[string]any{"stack_name": r.prefix, "template": map[string]any{
		"heat_template_version": "2018-08-31", "resources": map[string]any{"db": vm, "web": group},
	}}, &made)
	id := made.Stack.ID
	t.Cleanup(func() {
		if s, err := r.stack(context.Background(), id); err == nil && stackWords[s.Status] != windsock.Gone {
			r.do(r.heat, http.MethodDelete, "stacks/"+r.prefix+"/"+id, nil, nil)
		}
	})
	if s := r.until(p, id, windsock.Running); s.Name != r.prefix || s.Pool != r.project.ID {
		t.Errorf("it runs as %+v", s)
	}
	parts := map[string]int{}
	err := p.Observe(t.Context(), func(page []windsock.Sighting) error {
		for _, s := range page {
			if s.Deployment == id {
				parts[s.Assembly+" "+string(s.State)]++
			}
		}
		return nil
	})
	if err != nil || parts["web running"] != 2 || parts["db running"] != 1 {
		t.Errorf("its servers are %v, %v", parts, err)
	}
	r.do(r.heat, http.MethodDelete, "stacks/"+r.prefix+"/"+id, nil, nil)
	if s := r.until(p, id, windsock.Gone); !s.Requested {
		t.Errorf("it is gone as %+v", s)
	}
}

// Neutron gives and takes addresses, which to Nova is no change of the server, and which it
// may not be told.
func TestRealFloatingIP(t *testing.T) {
	r := newReal(t)
	if r.neutron == nil {
		t.Skip("the cloud has no Neutron")
	}
	network := func(external bool) string {
		var list struct{ Networks []struct{ ID string } }
		r.do(r.neutron, http.MethodGet, fmt.Sprintf("networks?router:external=%t", external), nil, &list)
		if len(list.Networks) == 0 {
			t.Skip("there is no network with floating IPs, or none without")
		}
		return list.Networks[0].ID
	}
	inside, outside := network(false), network(true)
	p := r.provider()
	var made struct{ Server struct{ ID string } }
	r.do(r.nova, http.MethodPost, "servers", map[string]any{"server": map[string]any{
		"name": r.prefix, "flavorRef": r.flavor(), "imageRef": r.image(), "networks": []any{map[string]any{"uuid": inside}}, "metadata": map[string]string{"windsock:deployment": r.prefix},
	}}, &made)
	id := made.Server.ID
	t.Cleanup(func() { r.do(r.nova, http.MethodDelete, "servers/"+id, nil, nil) })
	fixed := r.untilIt(p, id, "has an address", func(s *windsock.Sighting) bool { return s.State == windsock.Running && s.Address != "" }).Address

	var ports struct{ Ports []struct{ ID string } }
	r.do(r.neutron, http.MethodGet, "ports?device_id="+id, nil, &ports)
	var f struct {
		IP struct {
			ID      string `json:"id"`
			Address string `json:"floating_ip_address"`
		} `json:"floatingip"`
	}
	r.do(r.neutron, http.MethodPost, "floatingips", map[string]any{"floatingip": map[string]any{"floating_network_id": outside, "port_id": ports.Ports[0].ID}}, &f)
	t.Cleanup(func() { r.do(r.neutron, http.MethodDelete, "floatingips/"+f.IP.ID, nil, nil) })
	at := func(address string) {
		t.Helper()
		r.untilIt(p, id, "is at "+address, func(s *windsock.Sighting) bool { return s.State == windsock.Running && s.Address == address })
		if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id}); err != nil || s.Address != address {
			t.Errorf("looked at it is %+v, %v; want it at %s", s, err, address)
		}
	}
	at(f.IP.Address)
	r.do(r.neutron, http.MethodPut, "floatingips/"+f.IP.ID, map[string]any{"floatingip": map[string]any{"port_id": nil}}, nil)
	at(fixed)
}
