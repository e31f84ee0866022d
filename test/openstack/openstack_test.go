// Package openstack has windsock observe a real OpenStack, the one that up starts: what
// is done to servers and stacks there has to arrive as the right callbacks, and no others.
package openstack

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stacks"
)

// A cloud is what its users have of it.
type cloud struct {
	t                      testing.TB
	nova, novaAdmin, heat  *gophercloud.ServiceClient
	image, flavor, network string
}

func connect(t testing.TB) *cloud {
	c := &cloud{t: t, image: os.Getenv("OS_IMAGE_ID"), flavor: os.Getenv("OS_FLAVOR_ID"), network: os.Getenv("OS_NETWORK_ID")}
	c.nova, c.heat = c.signIn("member")
	c.nova.Microversion = "2.37" // networks may be none
	c.novaAdmin, _ = c.signIn("admin")
	return c
}

func (c *cloud) signIn(name string) (nova, heat *gophercloud.ServiceClient) {
	auth, where, _, err := clouds.Parse(clouds.WithLocations(filepath.Join(state, "etc/clouds.yaml")), clouds.WithCloudName(name))
	c.must(err)
	client, err := config.NewProviderClient(c.t.Context(), auth)
	c.must(err)
	nova, err = openstack.NewComputeV2(client, where)
	c.must(err)
	heat, err = openstack.NewOrchestrationV1(client, where)
	c.must(err)
	return nova, heat
}

func (c *cloud) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// boot asks for a server. It is deleted with the test.
func (c *cloud) boot(name string, networks any) (id string) {
	c.t.Helper()
	s, err := servers.Create(c.t.Context(), c.nova, servers.CreateOpts{
		Name: name, ImageRef: c.image, FlavorRef: c.flavor, Networks: networks, Metadata: map[string]string{"windsock:deployment": "shop"},
	}, nil).Extract()
	c.must(err)
	c.t.Cleanup(func() { servers.Delete(context.Background(), c.nova, s.ID) })
	return s.ID
}

// until waits for the status of a server to be this.
func (c *cloud) until(id, status string) {
	c.t.Helper()
	eventually(c.t, "server "+id+" is "+status, func() bool {
		s, err := servers.Get(c.t.Context(), c.nova, id).Extract()
		return err == nil && s.Status == status
	})
}

// deleted waits until there is no server with that id any more.
func (c *cloud) deleted(id string) {
	c.t.Helper()
	eventually(c.t, "server "+id+" is deleted", func() bool {
		_, err := servers.Get(c.t.Context(), c.nova, id).Extract()
		return gophercloud.ResponseCodeIs(err, 404)
	})
}

// servers returns the ids of all there are.
func (c *cloud) servers() (ids []string) {
	c.t.Helper()
	page, err := servers.List(c.nova, nil).AllPages(c.t.Context())
	c.must(err)
	all, err := servers.ExtractServers(page)
	c.must(err)
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// meddle sets what the hypervisor says of a guest, without Nova's doing; "" ends that.
func (c *cloud) meddle(id, power string) {
	c.t.Helper()
	path := filepath.Join(state, "guests", id)
	if power == "" {
		c.must(os.Remove(path))
		return
	}
	c.must(os.WriteFile(path+".new", []byte(power), 0o644))
	c.must(os.Rename(path+".new", path))
}

// stack creates a Heat stack of one server, and returns the ids of both.
func (c *cloud) stack(name string) (stack, server string) {
	c.t.Helper()
	template, err := json.Marshal(map[string]any{
		"heat_template_version": "2018-08-31",
		"resources": map[string]any{"web": map[string]any{"type": "OS::Nova::Server", "properties": map[string]any{
			"image": c.image, "flavor": c.flavor, "networks": []any{map[string]any{"network": c.network}}, "user_data_format": "RAW",
		}}},
		"outputs": map[string]any{"server": map[string]any{"value": map[string]any{"get_resource": "web"}}},
	})
	c.must(err)
	made, err := stacks.Create(c.t.Context(), c.heat, stacks.CreateOpts{Name: name, TemplateOpts: &stacks.Template{TE: stacks.TE{Bin: template}}}).Extract()
	c.must(err)
	c.t.Cleanup(func() { stacks.Delete(context.Background(), c.heat, name, made.ID) })
	eventually(c.t, "stack "+name+" is complete", func() bool {
		s, err := stacks.Get(c.t.Context(), c.heat, name, made.ID).Extract()
		if err != nil || s.Status != "CREATE_COMPLETE" {
			return false
		}
		server, _ = s.Outputs[0]["output_value"].(string)
		return true
	})
	return made.ID, server
}

const (
	start = "START DETECTED"
	fail  = "FAIL DETECTED"
	stop  = "STOP DETECTED"
)

// Everything is seen by two: one is told by notifications, and lists the cloud so seldom
// that it has to be these; the other has none of them.
func TestWhatHappensInTheCloudIsCalledBack(t *testing.T) {
	if state == "" {
		t.Skip("run test/openstack/up, and set WINDSOCK_TEST_OPENSTACK to its folder; make test-openstack does")
	}
	c := connect(t)
	old := c.servers() // of a run that did not end well
	told := observe(t, "told", "6h", "6h", amqpURL)
	polls := observe(t, "polls", "2s", "20s", "")
	both := watchers{told, polls}

	web := c.boot("web", []servers.Network{{UUID: c.network}})
	c.until(web, "ACTIVE")
	both.hear(t, web, start)
	both.hear(t, "shop", start)
	t.Run("a stop and a start", func(t *testing.T) {
		c.must(servers.Stop(t.Context(), c.nova, web).ExtractErr())
		c.until(web, "SHUTOFF")
		both.hear(t, web, stop)
		both.hear(t, "shop", stop) // as was asked for
		c.must(servers.Start(t.Context(), c.nova, web).ExtractErr())
		c.until(web, "ACTIVE")
		both.hear(t, web, start)
		both.hear(t, "shop", start)
	})
	t.Run("an error", func(t *testing.T) {
		c.must(servers.ResetState(t.Context(), c.novaAdmin, web, servers.StateError).ExtractErr())
		c.until(web, "ERROR")
		both.hear(t, web, fail)
		both.hear(t, "shop", fail)
		c.must(servers.ResetState(t.Context(), c.novaAdmin, web, servers.StateActive).ExtractErr())
		c.until(web, "ACTIVE")
		both.hear(t, web, start)
		both.hear(t, "shop", start)
	})
	t.Run("a guest that dies", func(t *testing.T) {
		c.meddle(web, "shutdown")
		c.until(web, "SHUTOFF") // Nova finds it
		both.hear(t, web, stop)
		both.hear(t, "shop", fail)
		c.meddle(web, "")
		c.must(servers.Start(t.Context(), c.nova, web).ExtractErr())
		c.until(web, "ACTIVE")
		both.hear(t, web, start)
		both.hear(t, "shop", start)
	})
	t.Run("a guest that is paused, which Nova goes on calling ACTIVE", func(t *testing.T) {
		c.meddle(web, "paused")
		both.hear(t, web, stop)
		both.hear(t, "shop", fail)
		c.meddle(web, "")
		both.hear(t, web, start)
		both.hear(t, "shop", start)
	})
	t.Run("a server that does not boot", func(t *testing.T) {
		broken := c.boot("broken", "none")
		c.until(broken, "ERROR")
		both.hear(t, broken, fail)
		both.hear(t, "shop", fail)
		c.must(servers.Delete(t.Context(), c.nova, broken).ExtractErr())
		c.deleted(broken)
		both.hear(t, broken, stop)
		both.hear(t, "shop", start)
	})
	t.Run("a stack", func(t *testing.T) {
		stack, server := c.stack("shelf")
		both.hear(t, server, start)
		both.hear(t, stack, start)
		c.must(stacks.Delete(t.Context(), c.heat, "shelf", stack).ExtractErr())
		c.deleted(server)
		both.hear(t, server, stop)
		both.hear(t, stack, stop)
	})
	c.must(servers.Delete(t.Context(), c.nova, web).ExtractErr())
	c.deleted(web)
	both.hear(t, web, stop)
	both.hear(t, "shop", stop)
	for _, w := range both {
		w.hearNoMore(t, old)
	}
}

// eventually waits until ok, which it asks again and again, or fails the test.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within two minutes: %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
