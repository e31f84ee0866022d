package openstack

import (
	"bufio"
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
	times    = 7                // that everything is measured
	resting  = 30 * time.Second // in which it is measured what is taken when nothing is looked at
	glance   = 5 * time.Second  // from one look at windsock to the next, as it answers to these
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
	var idle usage
	b.Run("idle", func(b *testing.B) { idle = observe(b, "idle", "6h", "6h", "").idle(b) })
	b.Run("listing", func(b *testing.B) { observe(b, "listing", "5s", "5s", "").cost(b, n, idle) })
	b.Run("changes", func(b *testing.B) { observe(b, "changes", "2s", "6h", "").cost(b, n, idle) })
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

// usage is what windsock has taken since it started, or does in a second.
type usage struct{ seconds, cpu, allocs, commits, looks, looking, rss float64 }

func (w *watcher) usage(b *testing.B) usage {
	series := w.metrics()
	took := func(what string) float64 {
		return series[fmt.Sprintf("windsock_provider_listing_duration_seconds_%s{provider=%q}", what, w.name)]
	}
	return usage{
		seconds: time.Since(w.began).Seconds(), cpu: w.cpu(b), rss: w.rss(b),
		allocs: series["go_memstats_mallocs_total"], commits: series["windsock_commit_duration_seconds_count"],
		looks: took("count"), looking: took("sum"),
	}
}

// settled is its usage once all that it saw first is recorded and called back.
func (w *watcher) settled(b *testing.B) usage {
	for was := w.usage(b); ; {
		<-time.After(glance)
		is := w.usage(b)
		if is.commits-was.commits < 2*glance.Seconds() { // idle are two in three seconds
			return is
		}
		was = is
	}
}

// idle tells what windsock takes when it does not look.
func (w *watcher) idle(b *testing.B) usage {
	was := w.settled(b)
	is := was
	for is.seconds-was.seconds < resting.Seconds() {
		<-time.After(glance)
		is = w.usage(b)
	}
	seconds := is.seconds - was.seconds
	rate := usage{cpu: (is.cpu - was.cpu) / seconds, allocs: (is.allocs - was.allocs) / seconds, commits: (is.commits - was.commits) / seconds, rss: is.rss}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(1e3*rate.cpu, "cpu-ms/s")
	b.ReportMetric(rate.commits, "commits/s")
	b.ReportMetric(rate.rss, "MiB")
	return rate
}

// cost tells what windsock takes to look at n servers, beside what it takes anyway.
func (w *watcher) cost(b *testing.B, n int, idle usage) {
	if seen := w.metrics()[fmt.Sprintf("windsock_provider_subjects{kind=\"instance\",provider=%q}", w.name)]; seen < float64(n) {
		b.Fatalf("it sees %g instances, there are %d", seen, n)
	}
	was := w.settled(b)
	is, most := was, was.rss
	for deadline := time.Now().Add(patience); is.looks-was.looks < times; is = w.usage(b) {
		if time.Now().After(deadline) {
			b.Fatalf("%g looks within %s", is.looks-was.looks, patience)
		}
		most = max(most, is.rss)
		<-time.After(glance)
	}
	seconds, looks := is.seconds-was.seconds, is.looks-was.looks
	of := func(total, idle float64) float64 { return (total - idle*seconds) / looks }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n), "servers")
	b.ReportMetric(1e3*of(is.looking-was.looking, 0), "ms/look")
	b.ReportMetric(1e3*of(is.cpu-was.cpu, idle.cpu), "cpu-ms/look")
	b.ReportMetric(1e6*of(is.cpu-was.cpu, idle.cpu)/float64(n), "cpu-us/server")
	b.ReportMetric(of(is.allocs-was.allocs, idle.allocs)/float64(n), "allocs/server")
	b.ReportMetric(of(is.commits-was.commits, idle.commits), "commits/look")
	b.ReportMetric(most-idle.rss, "MiB-above-idle")
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

// metrics are the values of all series.
func (w *watcher) metrics() map[string]float64 {
	series := map[string]float64{}
	resp, err := http.Get(w.api + "/metrics")
	if err != nil {
		return series
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			series[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return series
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
