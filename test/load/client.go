package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// post has connections post what request makes (of the connection's number and a count)
// for a span, and returns answers a second, and the share of them that say changed.
// It speaks HTTP by hand, as what the client costs is taken from the server on a machine
// of few cores.
func post(addr string, connections int, request func(c, k int) (path string, body []byte)) (rate, changed float64, err error) {
	var n, hits atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, connections)
	began := time.Now()
	for c := range connections {
		wg.Go(func() {
			if err := postOn(addr, c, began.Add(*span), request, &n, &hits); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	took := time.Since(began).Seconds()
	close(errs)
	return float64(n.Load()) / took, float64(hits.Load()) / float64(n.Load()), <-errs
}

func postOn(addr string, c int, until time.Time, request func(c, k int) (string, []byte), n, hits *atomic.Int64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	var both [2][]byte
	for k := range both {
		path, body := request(c, k)
		both[k] = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, addr, len(body), body)
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	var answer []byte
	for k := 0; time.Now().Before(until); k++ {
		if _, err := conn.Write(both[k%2]); err != nil {
			return err
		}
		if answer, err = read(r, answer); err != nil {
			return err
		}
		n.Add(1)
		if bytes.Contains(answer, []byte(`"changed":true`)) {
			hits.Add(1)
		}
	}
	return nil
}

// read returns the body of an answer of status 200 and known length, in buf.
func read(r *bufio.Reader, buf []byte) ([]byte, error) {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")):
			return nil, errors.New(string(line))
		case len(line) == 0:
			if length < 0 {
				return nil, errors.New("an answer without Content-Length")
			}
			buf = slices.Grow(buf[:0], length)[:length]
			_, err := io.ReadFull(r, buf)
			return buf, err
		case len(line) > 15 && strings.EqualFold(string(line[:15]), "Content-Length:"):
			if length, err = strconv.Atoi(strings.TrimSpace(string(line[15:]))); err != nil {
				return nil, err
			}
		}
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

// rss is the resident memory of a process in bytes, as Linux tells it.
func rss(pid int) float64 {
	return field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:") * 1024
}

// cpuSeconds is the processor time a process has had; a tick is 10 ms on Linux.
func cpuSeconds(pid int) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(data))
	if len(f) < 15 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[13], 64)
	system, _ := strconv.ParseFloat(f[14], 64)
	return (user + system) / 100
}

// metric is the value of a series, or 0.
func metric(addr, series string) float64 {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v
		}
	}
	return 0
}

// field is the number behind a word at the start of a line.
func field(path, word string) float64 {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == word {
			v, _ := strconv.ParseFloat(f[1], 64)
			return v
		}
	}
	return 0
}

// size is what the database takes on the disk, in bytes.
func size(db string) (n float64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(db + suffix); err == nil {
			n += float64(info.Size())
		}
	}
	return n
}
