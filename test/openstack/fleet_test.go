package openstack

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

var fleet = flag.Int("fleet", 500, "servers of BenchmarkFleet")

const (
	together = 10               // servers that are asked for at once
	building = 40               // at most, lest Nova's services time out on each other
	patience = 15 * time.Minute // for all to boot; as many as are up by then are observed; and for all to be gone
	times    = 7                // that everything is measured; the medians are told
)

// BenchmarkFleet measures what it costs to observe a fleet in the real cloud, which it boots
// and deletes, and how soon a change there is called back.
func BenchmarkFleet(b *testing.B) {
	if state == "" {
		b.Skip("run test/openstack/up, and set WINDSOCK_TEST_OPENSTACK to its folder")
	}
	c := connect(b)
	web := c.boot("web", "none")
	c.until(web, "ACTIVE")
	n := c.fill(web, *fleet)
	b.Run("idle", func(b *testing.B) { observe(b, "idle", "6h", "6h", "").cost(b, n, 5*time.Second) })
	b.Run("listing", func(b *testing.B) { observe(b, "listing", "5s", "5s", "").cost(b, n, 5*time.Second) })
	b.Run("changes", func(b *testing.B) { observe(b, "changes", "2s", "6h", "").cost(b, n, 2*time.Second) })
	b.Run("polled", func(b *testing.B) { c.flip(b, observe(b, "polled", "2s", "6h", ""), web) })
	b.Run("told", func(b *testing.B) { c.flip(b, observe(b, "told", "6h", "6h", amqpURL), web) })
}

// fill boots n servers in deployments of ten, and returns how many are up.
func (c *cloud) fill(like string, n int) (up int) {
	c.t.Helper()
	s, err := servers.Get(c.t.Context(), c.nova, like).Extract()
	c.must(err)
	all := gophercloud.IntToPointer(-1)
	c.must(quotasets.Update(c.t.Context(), c.novaAdmin, s.TenantID, quotasets.UpdateOpts{Instances: all, Cores: all, RAM: all}).Err)
	c.t.Cleanup(func() {
		c.clear()
		quotasets.Delete(context.Background(), c.novaAdmin, s.TenantID)
	})
	asked, deadline := 0, time.Now().Add(patience)
	for {
		status := map[string]int{}
		for _, s := range c.fleet(c.t.Context()) {
			status[s.Status]++
		}
		if status["ACTIVE"]+status["ERROR"] >= n || time.Now().After(deadline) {
			return status["ACTIVE"]
		}
		for ; asked < n && status["BUILD"] < building; asked += together {
			_, err := servers.Create(c.t.Context(), c.nova, servers.CreateOpts{
				Name: "fleet", ImageRef: c.image, FlavorRef: c.flavor, Networks: "none", Min: together, Max: together,
				Metadata: map[string]string{"windsock:deployment": fmt.Sprintf("fleet-%02d", asked/together)},
			}, nil).Extract()
			c.must(err)
			status["BUILD"] += together
		}
		select {
		case <-c.t.Context().Done():
			return 0
		case <-time.After(time.Second):
		}
	}
}

// fleet lists the servers that fill made.
func (c *cloud) fleet(ctx context.Context) []servers.Server {
	page, err := servers.List(c.nova, servers.ListOpts{Name: "^fleet-"}).AllPages(ctx)
	c.must(err)
	list, err := servers.ExtractServers(page)
	c.must(err)
	return list
}

// clear deletes them, and waits until they are.
func (c *cloud) clear() {
	var wg sync.WaitGroup
	room := make(chan struct{}, 4)
	for _, s := range c.fleet(context.Background()) {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			servers.Delete(context.Background(), c.nova, s.ID)
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(patience); len(c.fleet(context.Background())) > 0; <-time.After(time.Second) {
		if time.Now().After(deadline) {
			c.t.Errorf("not within %s: the fleet is deleted", patience)
			return
		}
	}
}

// cost tells what windsock takes of the processor in an interval in which it looks once,
// and how much memory it has then.
func (w *watcher) cost(b *testing.B, n int, every time.Duration) {
	if seen := w.metric(fmt.Sprintf("windsock_provider_subjects{kind=\"instance\",provider=%q}", w.name)); seen < float64(n) {
		b.Fatalf("it sees %g instances, there are %d", seen, n)
	}
	looks := fmt.Sprintf("windsock_provider_listing_duration_seconds_count{provider=%q}", w.name)
	took := fmt.Sprintf("windsock_provider_listing_duration_seconds_sum{provider=%q}", w.name)
	var cpu []float64
	first, firstTook := w.metric(looks), w.metric(took)
	for range times {
		before := w.cpu(b)
		<-time.After(every)
		cpu = append(cpu, 1000*(w.cpu(b)-before))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n), "servers")
	b.ReportMetric(median(cpu), fmt.Sprintf("cpu-ms/%s", every))
	b.ReportMetric(w.rss(b), "MiB")
	if n := w.metric(looks) - first; n > 0 {
		b.ReportMetric(1000*(w.metric(took)-firstTook)/n, "ms/look")
	}
}

// flip stops and starts a server again and again, and tells how long after Nova shows that
// it is called back.
func (c *cloud) flip(b *testing.B, w *watcher, id string) {
	c.must(servers.Stop(b.Context(), c.nova, id).ExtractErr())
	eventually(b, w.name+" has seen "+id+" stop", func() bool {
		told := w.of(id)
		w.heard[id] = len(told)
		return len(told) > 0 && told[len(told)-1].Word == stop
	})
	var after []float64
	heard := func(status, word string) {
		c.until(id, status)
		seen := time.Now()
		after = append(after, 1000*w.hear(b, seen, id, word).Sub(seen).Seconds())
	}
	for range times {
		c.must(servers.Start(b.Context(), c.nova, id).ExtractErr())
		heard("ACTIVE", start)
		c.must(servers.Stop(b.Context(), c.nova, id).ExtractErr())
		heard("SHUTOFF", stop)
	}
	b.ReportMetric(0, "ns/op")
	c.must(servers.Start(b.Context(), c.nova, id).ExtractErr())
	c.until(id, "ACTIVE")
	b.ReportMetric(median(after), "ms/callback")
	b.ReportMetric(slices.Max(after), "ms/latest")
}

// cpu is the processor time that the process has had, in seconds.
func (w *watcher) cpu(b *testing.B) (seconds float64) {
	b.Helper()
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", w.pid))
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		ran, _ := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
		seconds += ran / 1e9
	}
	return seconds
}

// rss is the memory that the process has, in MiB.
func (w *watcher) rss(b *testing.B) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kib / 1024
}

// metric is the value of a series, or 0.
func (w *watcher) metric(series string) float64 {
	resp, err := http.Get(w.api + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	text.ReadFrom(resp.Body)
	_, rest, _ := strings.Cut("\n"+text.String(), "\n"+series+" ")
	value, _, _ := strings.Cut(rest, "\n")
	v, _ := strconv.ParseFloat(value, 64)
	return v
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
