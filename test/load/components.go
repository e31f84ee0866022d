package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An agent asks what an instance is to run, over one connection.
type agent struct {
	addr, instance, token string
	conn                  net.Conn
	in                    *bufio.Reader
}

func newAgent(p *process, instance string) (*agent, error) {
	token, err := call(p, "/api/instances/"+instance+"/token", "token", "{}")
	if err != nil {
		return nil, err
	}
	return &agent{addr: p.addr, instance: instance, token: token}, nil
}

// ask sends a request and returns its status, the ETag and the body of the answer.
func (a *agent) ask(request string) (status int, etag string, body []byte, err error) {
	if a.conn == nil {
		if a.conn, err = net.Dial("tcp", a.addr); err != nil {
			return 0, "", nil, err
		}
		a.in = bufio.NewReaderSize(a.conn, 1024)
	}
	if _, err := io.WriteString(a.conn, request); err != nil {
		return 0, "", nil, err
	}
	resp, err := http.ReadResponse(a.in, nil)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("ETag"), body, err
}

type work struct {
	Components []struct {
		Name      string
		SignalURL string `json:"signal_url"`
	}
}

// work returns what there is to run, once it is not what the ETag stands for.
func (a *agent) work(known, wait string) (w work, etag string, err error) {
	if known != "" {
		known = "If-None-Match: " + known + "\r\n"
	}
	status, etag, body, err := a.ask(fmt.Sprintf("GET /api/instances/%s/components?wait=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", a.instance, wait, a.addr, a.token, known))
	switch {
	case err != nil || status == http.StatusNotModified:
		return w, etag, err
	case status != http.StatusOK:
		return w, "", fmt.Errorf("work of %s: %d %s", a.instance, status, body)
	}
	return w, etag, json.Unmarshal(body, &w)
}

// signal reports success, with an output.
func (a *agent) signal(to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	body := `{"deploy_stdout":"","deploy_stderr":"","deploy_status_code":0,"made":"this"}`
	status, _, answer, err := a.ask(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", u.Path, a.addr, len(body), body))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("signal: %d %s", status, answer)
	}
	return err
}

// layered is a template of layers of components, each of which is given what two of the
// layer before made; the servers take them by turns.
func layered(layers, width, servers int) []byte {
	type m = map[string]any
	resources := m{"node": m{"type": "OS::Heat::SoftwareConfig", "properties": m{
		"group": "script", "config": "#!/bin/sh\n", "inputs": []m{{"name": "given", "default": ""}}, "outputs": []m{{"name": "made"}},
	}}}
	for i := range servers {
		resources[fmt.Sprint("server", i)] = m{"type": "OS::Nova::Server"}
	}
	name := func(layer, i int) string { return fmt.Sprintf("c%d-%d", layer, i%width) }
	for l := range layers {
		for i := range width {
			inputs := m{}
			if l > 0 {
				inputs["given"] = m{"list_join": []any{"", []any{m{"get_attr": []string{name(l-1, i), "made"}}, m{"get_attr": []string{name(l-1, i+1), "made"}}}}}
			}
			resources[name(l, i)] = m{"type": "OS::Heat::SoftwareDeployment", "properties": m{
				"config": m{"get_resource": "node"}, "server": m{"get_resource": fmt.Sprint("server", (l*width+i)%servers)}, "input_values": inputs,
			}}
		}
	}
	template, _ := json.Marshal(m{"heat_template_version": "2015-10-15", "resources": resources})
	return template
}

// deploy declares a deployment of the template whose servers all run.
func deploy(p *process, id string, template []byte, servers int) error {
	deployable, err := call(p, "/api/deployables", "id", `{"name":%q,"template":%s}`, id, template)
	if err != nil {
		return err
	}
	instances := map[string]string{}
	for i := range servers {
		instances[fmt.Sprint("server", i)] = fmt.Sprintf("%s-%d", id, i)
	}
	named, _ := json.Marshal(instances)
	if _, err := call(p, "/api/deployments", "id", `{"id":%q,"flap":"off","deployable":%q,"instances":%s}`, id, deployable, named); err != nil {
		return err
	}
	for _, instance := range instances {
		if _, err := call(p, "/api/monitors/deployment/instance/"+instance, "", `{"state":"START DETECTED","source":"load"}`); err != nil {
			return err
		}
	}
	return nil
}

// drive has an agent for each server signal all that it is given, until n are complete.
func drive(p *process, id string, servers, n int) (took time.Duration, err error) {
	agents := make([]*agent, servers)
	for i := range agents {
		if agents[i], err = newAgent(p, fmt.Sprintf("%s-%d", id, i)); err != nil {
			return 0, err
		}
	}
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	errs := make(chan error, servers)
	began := time.Now()
	for _, a := range agents {
		go func() {
			etag := ""
			for {
				w, next, err := a.work(etag, "60s")
				if err != nil {
					errs <- err
					return
				}
				etag = next
				for _, c := range w.Components {
					if err := a.signal(c.SignalURL); err != nil {
						errs <- err
						return
					}
					if left.Add(-1) == 0 {
						close(done)
					}
				}
			}
		}()
	}
	select {
	case <-done:
		took = time.Since(began)
	case err = <-errs:
	case <-time.After(5 * time.Minute):
		err = fmt.Errorf("%d components are not complete after five minutes", left.Load())
	}
	for _, a := range agents {
		if a.conn != nil {
			a.conn.Close()
		}
	}
	return took, err
}

// components measures what a graph of many takes, and how soon what was waited for is
// handed out.
func components(dir, binary string) error {
	const layers, width, servers = 100, 100, 100
	template := layered(layers, width, servers)
	path := filepath.Join(dir, "graph.json")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		return err
	}
	var check []float64
	for range *rounds {
		began := time.Now()
		if out, err := exec.Command(binary, "deployable", "check", path).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		check = append(check, time.Since(began).Seconds())
	}
	fmt.Printf("check a graph of %d          %8.2f s\n", layers*width, median(check))

	p, err := serve(dir, binary, 1, "")
	if err != nil {
		return err
	}
	defer p.stop()
	var plan, rate []float64
	for i := range min(*rounds, 3) {
		id := fmt.Sprint("graph", i)
		began := time.Now()
		if err := deploy(p, id, template, servers); err != nil {
			return err
		}
		plan = append(plan, time.Since(began).Seconds())
		took, err := drive(p, id, servers, layers*width)
		if err != nil {
			return err
		}
		rate = append(rate, layers*width/took.Seconds())
	}
	fmt.Printf("deploy a graph of %d         %8.2f s\n", layers*width, median(plan))
	fmt.Printf("signals, %d agents             %8.0f /s     (%d components, %d layers)\n", servers, median(rate), layers*width, layers)
	return handedOut(p)
}

// handedOut tells how long after the signal of one component the next is handed out,
// beside how long the signal itself takes to be answered.
func handedOut(p *process) error {
	const n = 300
	if err := deploy(p, "chain", layered(n, 1, 2), 2); err != nil {
		return err
	}
	var pair [2]*agent
	for i := range pair {
		var err error
		if pair[i], err = newAgent(p, fmt.Sprint("chain-", i)); err != nil {
			return err
		}
	}
	var etags [2]string
	w, etag, err := pair[0].work("", "0s")
	if err != nil || len(w.Components) != 1 {
		return errors.Join(err, fmt.Errorf("want the first of the chain, got %d", len(w.Components)))
	}
	etags[0] = etag
	if _, etags[1], err = pair[1].work("", "0s"); err != nil {
		return err
	}
	var next, answered []float64
	for i := range n - 1 {
		one, other := i%2, 1-i%2
		type answer struct {
			w    work
			etag string
			at   time.Time
			err  error
		}
		got := make(chan answer, 1)
		go func() {
			var a answer
			a.w, a.etag, a.err = pair[other].work(etags[other], "30s")
			a.at = time.Now()
			got <- a
		}()
		time.Sleep(5 * time.Millisecond) // it is to wait
		began := time.Now()
		if err := pair[one].signal(w.Components[0].SignalURL); err != nil {
			return err
		}
		answered = append(answered, 1000*time.Since(began).Seconds())
		a := <-got
		if a.err != nil || len(a.w.Components) != 1 {
			return errors.Join(a.err, fmt.Errorf("want the next of the chain, got %d", len(a.w.Components)))
		}
		next = append(next, 1000*a.at.Sub(began).Seconds())
		w, etags[other] = a.w, a.etag
		if _, etags[one], err = pair[one].work("", "0s"); err != nil {
			return err
		}
	}
	slices.Sort(next)
	slices.Sort(answered)
	fmt.Printf("signal to the next handed out   %8.1f ms     p50, %.1f ms p99; the signal's own answer %.1f and %.1f ms\n", quantile(next, .5), quantile(next, .99), quantile(answered, .5), quantile(answered, .99))
	return nil
}

// idleAgents measures what agents cost that wait for work.
func idleAgents(dir, binary string) error {
	const n = 10_000
	p, err := serve(dir, binary, n, "")
	if err != nil {
		return err
	}
	agents := make([]*agent, n)
	var issuing sync.WaitGroup
	errs := make(chan error, n)
	for part := range 50 {
		issuing.Go(func() {
			for i := part; i < n; i += 50 {
				var err error
				if agents[i], err = newAgent(p, fmt.Sprintf("instance-%06d", i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	issuing.Wait()
	p.stop() // what that took is not what they take
	if len(errs) > 0 {
		return <-errs
	}
	if p, err = start(binary, "serve", "--listen", "ADDR", "--db", database(dir), "--log-level", "error"); err != nil {
		return err
	}
	defer func() { p.stop() }()
	time.Sleep(3 * time.Second)
	bare := rss(p.Process.Pid)
	var stopped atomic.Bool
	for _, a := range agents {
		a.addr = p.addr
		go func() {
			etag := ""
			for !stopped.Load() {
				_, next, err := a.work(etag, "60s")
				if err != nil && !stopped.Load() {
					errs <- err
					return
				}
				etag = next
			}
		}()
		time.Sleep(500 * time.Microsecond) // agents do not all start at once
	}
	time.Sleep(10 * time.Second)
	before := cpuSeconds(p.Process.Pid)
	time.Sleep(30 * time.Second)
	spent := cpuSeconds(p.Process.Pid) - before
	fmt.Printf("%d agents that wait          %8.1f MiB resident in all, %.1f without them; %.1f %% of one core\n", n, rss(p.Process.Pid)/(1<<20), bare/(1<<20), 100*spent/30)
	stopped.Store(true)
	for _, a := range agents {
		if a.conn != nil {
			a.conn.Close()
		}
	}
	if len(errs) > 0 {
		return <-errs
	}
	return nil
}
