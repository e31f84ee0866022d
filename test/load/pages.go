package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pages measures what a thousand open pages cost at 100 changes a second, beside the same
// changes with none: each reads the stream of everything and, as something happens all the
// time, asks for the counts every three seconds.
func pages(dir, binary string) error {
	const open, changes, instances = 1000, 100.0, 10_000
	p, err := serve(dir, binary, instances, "")
	if err != nil {
		return err
	}
	defer p.stop()
	words := make([]int, 32)
	spent := func() (cpu float64, err error) {
		before, begun := cpuSeconds(p.Process.Pid), time.Now()
		err = steadily(p, changes, words)
		return (cpuSeconds(p.Process.Pid) - before) / time.Since(begun).Seconds(), err
	}
	none, err := spent()
	if err != nil {
		return err
	}
	var (
		readers sync.WaitGroup
		conns   [2 * open]net.Conn
		bytes   atomic.Int64
	)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", p.addr); err != nil {
			return err
		}
	}
	for i := range open {
		readers.Go(func() {
			fmt.Fprintf(conns[i], "GET /api/events HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", p.addr)
			n, _ := io.Copy(io.Discard, conns[i])
			bytes.Add(n)
		})
		readers.Go(func() {
			conn, in := conns[open+i], bufio.NewReader(conns[open+i])
			time.Sleep(3 * time.Second * time.Duration(i) / open)
			for {
				if _, err := fmt.Fprintf(conn, "GET /api/summary HTTP/1.1\r\nHost: %s\r\n\r\n", p.addr); err != nil {
					return
				}
				if _, err := read(in, nil); err != nil {
					return
				}
				time.Sleep(3 * time.Second)
			}
		})
	}
	with, err := spent()
	for _, c := range conns {
		c.Close()
	}
	readers.Wait()
	if err != nil {
		return err
	}
	fmt.Printf("%d open pages              %8.1f %% of a core more, at %.0f changes/s of %d instances, which alone take %.1f %%; %.1f kB to each a second\n",
		open, 100*(with-none), changes, instances, 100*none, float64(bytes.Load())/open/(3*span.Seconds())/1000)
	return nil
}
