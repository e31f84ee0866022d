package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A receiver takes callbacks, counts them, and notes how long after the post that
// brought them about they came, if that says in its reason when it was.
type receiver struct {
	addr  string
	count atomic.Int64
	hangs atomic.Bool // what comes for the last of a hundred monitors

	mu   sync.Mutex
	took []float64 // in milliseconds
}

func receive() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{addr: l.Addr().String()}
	go http.Serve(l, r)
	return r, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	last := strings.HasPrefix(req.URL.Path, "/m99/")
	if last && r.hangs.Load() {
		<-req.Context().Done()
		return
	}
	w.WriteHeader(http.StatusNoContent)
	r.count.Add(1)
	if _, reason, ok := bytes.Cut(body, []byte(`"reason":"`)); ok && !last {
		digits, _, _ := bytes.Cut(reason, []byte(`"`))
		if at, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
			r.mu.Lock()
			r.took = append(r.took, float64(time.Now().UnixNano()-at)/1e6)
			r.mu.Unlock()
		}
	}
}

// serveTo starts a windsock with ten instances for each connection, and who receives its
// callbacks, once he is added.
func serveTo(dir, binary string) (*receiver, *process, error) {
	r, err := receive()
	if err != nil {
		return nil, nil, err
	}
	p, err := serve(dir, binary, 10**conns, "")
	return r, p, err
}

// rate is how many callbacks a second come within a span, and what processor time one
// costs who makes them.
func (r *receiver) rate(p *process) (rate, cpu float64) {
	before, began, spent := r.count.Load(), time.Now(), cpuSeconds(p.Process.Pid)
	time.Sleep(*span)
	n := float64(r.count.Load() - before)
	return n / time.Since(began).Seconds(), (cpuSeconds(p.Process.Pid) - spent) / n
}

// settled returns once no more comes.
func (r *receiver) settled() {
	for last := int64(-1); last != r.count.Load(); {
		last = r.count.Load()
		time.Sleep(200 * time.Millisecond)
	}
}

// latencies returns those noted since it was last asked, in order.
func (r *receiver) latencies() []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.took
	r.took = nil
	slices.Sort(took)
	return took
}

func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// add registers n monitors at the receiver, and returns their ids.
func (r *receiver) add(p *process, n int, scope string) (ids []string, err error) {
	_, port := split(r.addr)
	for i := range n {
		id, err := call(p, "/api/monitors/add", "monitor_id", `{"address":"127.0.0.1","port":%s,"path":"/m%d","scope":%q,"subjects":"instances"}`, port, i, scope)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}

// call posts JSON and returns a field of text of the answer.
func call(p *process, path, field, format string, args ...any) (string, error) {
	resp, err := http.Post("http://"+p.addr+path, "application/json", strings.NewReader(fmt.Sprintf(format, args...)))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		return "", fmt.Errorf("%s: %s %s %v", path, resp.Status, answer, err)
	}
	_, value, _ := bytes.Cut(answer, fmt.Appendf(nil, "%q:\"", field))
	value, _, _ = bytes.Cut(value, []byte(`"`))
	return string(value), nil
}

// plainly posts one body again and again for a span with net/http, over as many kept
// connections as there are, and returns answers a second. It is the ceiling of callbacks.
func plainly(addr string) float64 {
	body := []byte(`{"version":"1","deployment_id":"deployment-00000","instance_id":"instance-000000","state":"FAIL DETECTED","type":"instance.state","observed_state":"failed","previous_state":"running","expected_state":"running","source":"load","seq":100000,"detected_at":"2026-11-30T12:00:00.000000Z","time":"2026-11-30T12:00:00.000000Z"}`)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *conns}}
	var n atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range *conns {
		all.Go(func() {
			for time.Since(began) < *span {
				resp, err := client.Post("http://"+addr+"/m0/api/deployment/instance/instance-000000", "application/json", bytes.NewReader(body))
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// ceiling is what plainly reaches in a process of its own, and what it costs.
func ceiling(addr string) (rate, cpu float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(self, "-plainly", addr, "-conns", fmt.Sprint(*conns), "-span", span.String())
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, err
	}
	rate, err = strconv.ParseFloat(string(bytes.TrimSpace(out)), 64)
	cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / (rate * span.Seconds())
	return rate, cpu, err
}

// fanOut tells callbacks a second, at saturation, beside those of a plain client.
func fanOut(dir, binary string) error {
	for _, monitors := range []int{1, 10, 100} {
		if err := fanOutTo(dir, binary, monitors); err != nil {
			return err
		}
	}
	return nil
}

func fanOutTo(dir, binary string, monitors int) error {
	r, p, err := serveTo(dir, binary)
	if err != nil {
		return err
	}
	defer p.stop()
	ids, err := r.add(p, monitors, "global")
	if err != nil {
		return err
	}
	var plain, ours, plainCPU, ourCPU []float64
	for range *rounds {
		rate, cpu, err := ceiling(r.addr)
		if err != nil {
			return err
		}
		plain, plainCPU = append(plain, rate), append(plainCPU, cpu)
		if monitors == 1 {
			rate, cpu, err = backlogged(p, r, ids[0])
		} else {
			rate, cpu, err = keptBusy(p, r, monitors)
		}
		if err != nil {
			return err
		}
		ours, ourCPU = append(ours, rate), append(ourCPU, cpu)
	}
	of := slices.Sorted(slices.Values(ratios(ours, plain)))
	fmt.Printf("callbacks to %3d monitors       %8.0f /s      %.2f of a plain client with %d connections (%.2f to %.2f); %.2f of its processor time for each\n",
		monitors, median(ours), median(of), *conns, of[0], of[len(of)-1], median(ratios(ourCPU, plainCPU)))
	return nil
}

// backlogged has one monitor come back to more than it can take within a span.
func backlogged(p *process, r *receiver, id string) (rate, cpu float64, err error) {
	if _, err := call(p, "/api/monitors/"+id+"/pause", "", "{}"); err != nil {
		return 0, 0, err
	}
	if _, _, err := post(p.addr, 4, inHundreds); err != nil {
		return 0, 0, err
	}
	if _, err := call(p, "/api/monitors/"+id+"/resume", "", `{"from":"replay"}`); err != nil {
		return 0, 0, err
	}
	rate, cpu = r.rate(p)
	return rate, cpu, nil
}

// keptBusy posts so that something always waits for all monitors, and not more than they
// are told from memory.
func keptBusy(p *process, r *receiver, monitors int) (rate, cpu float64, err error) {
	stop := make(chan struct{})
	var posting sync.WaitGroup
	posting.Go(func() {
		for k, due := 0, r.count.Load(); ; {
			select {
			case <-stop:
				return
			default:
			}
			if due-r.count.Load() > int64(100*monitors) {
				time.Sleep(time.Millisecond)
				continue
			}
			path, body := inHundreds(0, k)
			if _, err = call(p, path, "", "%s", body); err != nil {
				return
			}
			due += int64(100 * monitors)
			k++
		}
	})
	rate, cpu = r.rate(p)
	close(stop)
	posting.Wait()
	r.settled() // the next round is not to have it
	return rate, cpu, err
}
