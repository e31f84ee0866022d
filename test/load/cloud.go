package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	novaPage   = 1000 // servers; what Nova gives at most by default
	cloudPolls = 5
)

// A cloud is a Keystone and a Nova that answer with canned pages, as fast as they can.
type cloud struct {
	net.Listener
	mu     sync.Mutex
	pages  [][]byte
	down   int       // servers of the first that are stopped
	readAt time.Time // when the first page of a listing was
}

// novaRow is a server as Nova 2.69 shows it.
const novaRow = `{"id": "%s", "name": "web-%d", "status": "%s", "tenant_id": "8dda80375b2d4e969df3ab1c4ab92bd4", "user_id": "8a25d05c341f4cf79ba79f828e6d1998", "metadata": {"windsock:deployment": "deployment-%05d"}, "hostId": "c8dd0cd1eb24ff73840da23d267887267de96e3499a52077d40a224b", "image": {"id": "174296d8-f003-4877-95bf-6f61b289f184", "links": [{"rel": "bookmark", "href": "http://nova.example/images/174296d8-f003-4877-95bf-6f61b289f184"}]}, "flavor": {"vcpus": 1, "ram": 64, "disk": 1, "ephemeral": 0, "swap": 0, "original_name": "tiny", "extra_specs": {}}, "created": "2026-11-30T11:05:36Z", "updated": "2026-11-30T11:05:57Z", "addresses": {"shared": [{"version": 4, "addr": "10.64.2.33", "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:be:4f:4f"}]}, "accessIPv4": "", "accessIPv6": "", "links": [{"rel": "self", "href": "http://nova.example/v2.1/servers/%[1]s"}, {"rel": "bookmark", "href": "http://nova.example/servers/%[1]s"}], "OS-DCF:diskConfig": "MANUAL", "progress": 0, "OS-EXT-AZ:availability_zone": "nova", "config_drive": "", "key_name": null, "OS-SRV-USG:launched_at": "2026-11-30T11:05:57.000000", "OS-SRV-USG:terminated_at": null, "OS-EXT-STS:task_state": null, "OS-EXT-STS:vm_state": "%[5]s", "OS-EXT-STS:power_state": %[6]d, "os-extended-volumes:volumes_attached": [], "locked": false, "description": null, "tags": [], "trusted_image_certificates": null, "security_groups": [{"name": "default"}]}`

func newCloud() (*cloud, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cloud{Listener: l}
	for i := range *fleet / novaPage {
		c.pages = append(c.pages, c.page(i))
	}
	go http.Serve(l, c)
	return c, nil
}

func serverID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

func (c *cloud) page(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"servers": [`)
	for i := n * novaPage; i < (n+1)*novaPage; i++ {
		if i > n*novaPage {
			b.WriteString(", ")
		}
		status, vm, power := "ACTIVE", "active", 1
		if i < c.down {
			status, vm, power = "ERROR", "error", 0
		}
		fmt.Fprintf(&b, novaRow, serverID(i), i, status, i/10, vm, power)
	}
	b.WriteString(`]`)
	if n < *fleet/novaPage-1 {
		b.WriteString(`, "servers_links": [{"rel": "next", "href": "http://nova.example/v2.1/servers/detail?marker=x"}]`)
	}
	b.WriteString(`}`)
	return []byte(b.String())
}

// fail has the first so many servers be in error.
func (c *cloud) fail(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = n
	for i := range (n + novaPage - 1) / novaPage {
		c.pages[i] = c.page(i)
	}
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/v3/auth"):
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{
			"expires_at": "2036-11-30T11:58:29.000000Z",
			"project":    map[string]any{"id": "8dda80375b2d4e969df3ab1c4ab92bd4", "name": "demo"},
			"catalog": []any{map[string]any{"type": "compute", "endpoints": []any{
				map[string]any{"interface": "public", "region": "r", "region_id": "r", "url": "http://" + c.Addr().String() + "/v2.1"},
			}}},
		}})
	case path == "/v2.1/":
		io.WriteString(w, `{"version": {"id": "v2.1", "version": "2.93", "min_version": "2.1"}}`)
	case r.URL.Query().Has("changes-since"):
		io.WriteString(w, `{"servers": []}`)
	case strings.HasSuffix(path, "/servers/detail"):
		n := 0
		if marker := r.URL.Query().Get("marker"); marker != "" {
			last, _ := strconv.Atoi(marker[len(marker)-12:])
			n = last/novaPage + 1
		}
		c.mu.Lock()
		page := c.pages[n]
		if n == 0 {
			c.readAt = time.Now()
		}
		c.mu.Unlock()
		w.Write(page)
	default:
		http.NotFound(w, r)
	}
}

// clouded measures what it costs to observe a cloud by full listings.
func clouded(dir, binary string) error {
	c, err := newCloud()
	if err != nil {
		return err
	}
	defer c.Close()
	clouds := filepath.Join(dir, "clouds.yaml")
	config := filepath.Join(dir, "cloud.yaml")
	for path, text := range map[string]string{
		clouds: fmt.Sprintf(`clouds: {load: {region_name: r, auth: {auth_url: "http://%s/v3", username: u, password: p, project_name: demo, user_domain_name: Default, project_domain_name: Default}}}`, c.Addr()),
		config: "providers: [{id: east, kind: openstack, cloud: load, interval: 5s, full: 5s, group_by: project}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	os.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	db := database(dir)
	if err := empty(dir); err != nil {
		return err
	}
	began := time.Now()
	p, err := start(binary, "serve", "--listen", "ADDR", "--db", db, "--config", config, "--log-level", "warn")
	if err != nil {
		return err
	}
	defer func() { p.stop() }()
	if err := listings(p, 1); err != nil {
		return err
	}
	fmt.Printf("first listing of %d servers %8.1f s      (they are declared, %.1f s of CPU)\n", *fleet, time.Since(began).Seconds(), cpuSeconds(p.Process.Pid))

	p.stop() // what that took is not what looking again takes
	if p, err = start(binary, "serve", "--listen", "ADDR", "--db", db, "--log-level", "warn"); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	idle := rss(p.Process.Pid)
	p.stop()
	if p, err = start(binary, "serve", "--listen", "ADDR", "--db", db, "--config", config, "--log-level", "warn"); err != nil {
		return err
	}
	if err := listings(p, 2); err != nil { // in the first it learns what it knew
		return err
	}
	const commits, events = "windsock_commit_duration_seconds_count", `windsock_events_total{type="instance.state"}`
	var cpu, written []float64
	most := 0.0
	for range cloudPolls {
		before, rows := cpuSeconds(p.Process.Pid), metric(p.addr, commits)
		if err := listings(p, 1); err != nil {
			return err
		}
		cpu, written = append(cpu, cpuSeconds(p.Process.Pid)-before), append(written, metric(p.addr, commits)-rows)
		most = max(most, rss(p.Process.Pid))
	}
	fmt.Printf("a listing, unchanged            %8.2f s      of CPU (%.1f us a server; median of %d)\n", median(cpu), median(cpu)/float64(*fleet)*1e6, len(cpu))
	fmt.Printf("commits meanwhile               %8.0f        (one is the provider's status; every 2 s one says that windsock is alive)\n", median(written))
	fmt.Printf("memory above idle               %8.1f MiB    (%.1f MiB idle with the same database, %.1f MiB at most)\n", (most-idle)/(1<<20), idle/(1<<20), most/(1<<20))

	const changes = 1000
	was := metric(p.addr, events)
	c.fail(changes)
	for metric(p.addr, events) < was+changes {
		time.Sleep(10 * time.Millisecond)
	}
	c.mu.Lock()
	took := time.Since(c.readAt)
	c.mu.Unlock()
	fmt.Printf("%d changes in it              %8.2f s      from the page that shows them to the last event\n", changes, took.Seconds())
	return nil
}

// listings waits for so many listings of the provider to come to their end.
func listings(p *process, n int) error {
	const series = `windsock_provider_listing_duration_seconds_count{provider="east"}`
	until := metric(p.addr, series) + float64(n)
	for deadline := time.Now().Add(15 * time.Minute); metric(p.addr, series) < until; time.Sleep(250 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the cloud is not listed")
		}
	}
	return nil
}
