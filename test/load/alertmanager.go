package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Alertmanager that sends each alert, at once and by itself, to a handler and to windsock.
const alertmanagerConfig = `
route:
  receiver: both
  group_by: ["..."]
  group_wait: 0s
  group_interval: 1h
receivers:
  - name: both
    webhook_configs:
      - url: http://%s/plain
      - url: http://%s/api/reports/alertmanager
`

// sighted notes when something about an instance came first by each way: from Alertmanager, or from windsock.
type sighted struct {
	mu            sync.Mutex
	plain, called map[string]time.Time
}

var instanceID = regexp.MustCompile(`instance-\d{6}`)

func (s *sighted) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	now := time.Now()
	body, _ := io.ReadAll(req.Body)
	by := s.called
	if req.URL.Path == "/plain" {
		by = s.plain
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := string(instanceID.Find(body))
	if _, ok := by[id]; !ok {
		by[id] = now
	}
}

// both is how many came by both ways.
func (s *sighted) both() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(len(s.plain), len(s.called))
}

// besideAlertmanager tells how long after an alert was posted Alertmanager has told it, and how much longer it takes
// when Alertmanager tells windsock, and that the same handler in its format. Each alert goes both ways.
func besideAlertmanager(dir, binary string) error {
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		if program, err = exec.LookPath("alertmanager"); err != nil {
			fmt.Println("beside Alertmanager: it is not here (apt-get install prometheus-alertmanager)")
			return nil
		}
	}
	const perSecond = 20
	alerts := perSecond * int(3**span/time.Second)
	p, err := serve(dir, binary, alerts, "")
	if err != nil {
		return err
	}
	defer p.stop()
	s := &sighted{plain: map[string]time.Time{}, called: map[string]time.Time{}}
	handler := httptest.NewServer(s)
	defer handler.Close()
	addr := handler.Listener.Addr().String()
	_, port := split(addr)
	if _, err := call(p, "/api/monitors/add", "monitor_id", `{"address":"127.0.0.1","port":%s,"path":"/windsock","format":"alertmanager","subjects":"instances"}`, port); err != nil {
		return err
	}
	config := filepath.Join(dir, "alertmanager.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, alertmanagerConfig, addr, p.addr), 0o600); err != nil {
		return err
	}
	am, err := start(program, "--config.file="+config, "--storage.path="+filepath.Join(dir, "alertmanager"), "--web.listen-address=ADDR", "--cluster.listen-address=", "--log.level=error")
	if err != nil {
		return err
	}
	defer am.stop()

	processes := []*process{am, p}
	spent := make([]float64, len(processes))
	for i, of := range processes {
		spent[i] = cpuSeconds(of.Process.Pid)
	}
	posted := make([]time.Time, alerts)
	began := time.Now()
	for i := range posted {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / perSecond)))
		posted[i] = time.Now()
		body := fmt.Sprintf(`[{"labels":{"alertname":"Down","instance_id":"instance-%06d"}}]`, i)
		resp, err := http.Post("http://"+am.addr+"/api/v2/alerts", "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(answer))
		}
	}
	for deadline := time.Now().Add(time.Minute); s.both() < alerts; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("of %d alerts %d came by both ways", alerts, s.both())
		}
	}
	for i, of := range processes {
		spent[i] = (cpuSeconds(of.Process.Pid) - spent[i]) * 1000 / float64(alerts)
	}
	var alone, added []float64
	for i, at := range posted {
		id := fmt.Sprintf("instance-%06d", i)
		alone = append(alone, milliseconds(s.plain[id].Sub(at)))
		added = append(added, milliseconds(s.called[id].Sub(s.plain[id])))
	}
	slices.Sort(alone)
	slices.Sort(added)
	fmt.Printf("Alertmanager, alert to handler  %8.1f ms     p50, %.1f ms p99 (%d of them, %d a second)\n", quantile(alone, .5), quantile(alone, .99), alerts, perSecond)
	fmt.Printf("the same by way of windsock     %8.1f ms     more p50, %.1f ms p99\n", quantile(added, .5), quantile(added, .99))
	for i, name := range []string{"Alertmanager", "windsock"} {
		fmt.Printf("%-31s %8.1f ms     of processor time for each, %.0f MiB resident\n", name, spent[i], rss(processes[i].Process.Pid)/(1<<20))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
