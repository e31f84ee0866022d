package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// idleMonitors measures what monitors cost that have nothing to hear.
func idleMonitors(dir, binary string) error {
	const monitors, parts = 10_000, 100
	restarted := func(p *process) (*process, float64, error) { // what registering took is not what the monitors take
		p.stop()
		p, err := start(binary, "serve", "--listen", "ADDR", "--db", database(dir), "--log-level", "error")
		if err != nil {
			return nil, 0, err
		}
		time.Sleep(3 * time.Second) // it is to be idle
		return p, rss(p.Process.Pid), nil
	}
	p, err := serve(dir, binary, 1, "")
	if err != nil {
		return err
	}
	p, bare, err := restarted(p)
	if err != nil {
		return err
	}
	var adding sync.WaitGroup
	errs := make(chan error, parts)
	for i := range parts {
		adding.Go(func() {
			r := &receiver{addr: fmt.Sprintf("127.0.0.1:%d", 10_000+i)}
			if _, err := r.add(p, monitors/parts, "global"); err != nil {
				errs <- err
			}
		})
	}
	adding.Wait()
	close(errs)
	if err := <-errs; err != nil {
		p.stop()
		return err
	}
	p, with, err := restarted(p)
	if err != nil {
		return err
	}
	defer p.stop()
	before := cpuSeconds(p.Process.Pid)
	time.Sleep(10 * time.Second)
	fmt.Printf("%d idle monitors             %8.1f MiB more resident; %.0f ms of processor time in 10 s\n", monitors, (with-bare)/(1<<20), 1000*(cpuSeconds(p.Process.Pid)-before))
	return nil
}

// outOfScope compares posting while one, and while a thousand monitors are registered
// that it does not concern.
func outOfScope(dir, binary string) error {
	r, p, err := serveTo(dir, binary)
	if err != nil {
		return err
	}
	defer p.stop()
	var one, thousand, oneCPU, thousandCPU []float64
	for range *rounds {
		for _, monitors := range []int{1, 1000} {
			ids, err := r.add(p, monitors, "pool:west")
			if err != nil {
				return err
			}
			spent := cpuSeconds(p.Process.Pid)
			rate, _, err := post(p.addr, *conns, singly)
			if err != nil {
				return err
			}
			cpu := (cpuSeconds(p.Process.Pid) - spent) / rate
			if monitors == 1 {
				one, oneCPU = append(one, rate), append(oneCPU, cpu)
				continue
			}
			thousand, thousandCPU = append(thousand, rate), append(thousandCPU, cpu)
			for i, id := range ids[1:] {
				_, port := split(r.addr)
				if _, err := call(p, "/api/monitors/remove", "", `{"address":"127.0.0.1","port":%s,"monitor_id":%q}`, port, id); err != nil {
					return fmt.Errorf("monitor %d: %w", i, err)
				}
			}
		}
	}
	of := slices.Sorted(slices.Values(ratios(thousand, one)))
	fmt.Printf("posts, 1000 monitors elsewhere  %8.2f of those with one (%.2f to %.2f); %.2f of the processor time for each\n", median(of), of[0], of[len(of)-1], median(ratios(thousandCPU, oneCPU)))
	return nil
}
