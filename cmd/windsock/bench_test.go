package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"windsock"
)

// BenchmarkPost is the rate of state-changing detections, posted one by one from 64
// connections to the whole service.
func BenchmarkPost(b *testing.B) {
	const conns = 64
	opts := ServeOptions{Listen: "127.0.0.1:0", File: true, DB: filepath.Join(b.TempDir(), "w.db"), Log: slog.New(slog.DiscardHandler)}
	for i := range 10 * conns {
		d := fmt.Sprintf("deployment-%05d", i/10)
		if i%10 == 0 {
			opts.Deployments = append(opts.Deployments, windsock.DeploymentSpec{ID: d, Flap: "off"})
		}
		opts.Instances = append(opts.Instances, windsock.InstanceSpec{ID: fmt.Sprintf("instance-%06d", i), DeploymentID: d})
	}
	ctx, cancel := context.WithCancel(b.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, opts, func(addr string) { ready <- addr }) }()
	var addr string
	select {
	case addr = <-ready:
	case err := <-ended:
		b.Fatal(err)
	}
	var n atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range conns {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for k := 0; n.Add(1) <= int64(b.N); k++ {
				body := fmt.Sprintf(`{"version":"1","state":%q,"source":"bench"}`, windsock.Words[1-k%2])
				fmt.Fprintf(conn, "POST /api/monitors/deployment/instance/instance-%06d HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 10*c, len(body), body)
				resp, err := http.ReadResponse(r, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Error(resp, err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
