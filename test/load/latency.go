package main

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// steadily posts one change after the other, so many a second, for three spans, and says
// in each when it was due. One that is late is sent at once. It goes on where it was with
// the words of each connection.
func steadily(p *process, perSecond float64, words []int) error {
	due := make(chan time.Time, 1<<20)
	errs := make(chan error, len(words))
	var posting sync.WaitGroup
	for c := range words {
		posting.Go(func() {
			at, more := <-due // windsock does not wait long for a first request
			conn, err := net.Dial("tcp", p.addr)
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for ; more; at, more = <-due {
				body := fmt.Sprintf(`{"state":%q,"source":"load","reason":"%d"}`, word(words[c]), at.UnixNano())
				words[c]++
				_, err := fmt.Fprintf(conn, "POST /api/monitors/deployment/instance/instance-%06d HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 10*c, p.addr, len(body), body)
				if err == nil {
					_, err = read(in, nil)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	every := time.Duration(float64(time.Second) / perSecond)
	began := time.Now()
	for at := began; at.Sub(began) < 3**span; at = at.Add(every) {
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	posting.Wait()
	close(errs)
	return <-errs
}

// latency tells how long after a post its callback comes, with one monitor.
func latency(dir, binary string) error {
	r, p, err := serveTo(dir, binary)
	if err != nil {
		return err
	}
	defer p.stop()
	if _, err := r.add(p, 1, "global"); err != nil {
		return err
	}
	rate, _, err := post(p.addr, *conns, singly)
	if err != nil {
		return err
	}
	r.settled()
	words := make([]int, *conns)
	for _, perSecond := range []float64{100, rate / 2} {
		r.latencies()
		if err := steadily(p, perSecond, words); err != nil {
			return err
		}
		r.settled()
		took := r.latencies()
		fmt.Printf("post to callback, %6.0f a second %7.1f ms     p50, %.1f ms p99 (%d of them)\n", perSecond, quantile(took, .5), quantile(took, .99), len(took))
	}
	return nil
}

// oneHangs compares how late ninety-nine monitors are told while one more is well, and
// while it hangs.
func oneHangs(dir, binary string) error {
	r, p, err := serveTo(dir, binary)
	if err != nil {
		return err
	}
	defer p.stop()
	var well, hung []float64
	words := make([]int, *conns)
	for range *rounds {
		for _, hangs := range []bool{false, true} {
			r.hangs.Store(hangs)
			if _, err := r.add(p, 100, "global"); err != nil { // again: it is as if it had never failed
				return err
			}
			r.settled()
			r.latencies()
			if err := steadily(p, 10, words); err != nil {
				return err
			}
			r.settled()
			if p99 := quantile(r.latencies(), .99); hangs {
				hung = append(hung, p99)
			} else {
				well = append(well, p99)
			}
		}
	}
	of := slices.Sorted(slices.Values(ratios(hung, well)))
	fmt.Printf("one of 100 monitors hangs       %8.2f of the p99 of the others, which is %.1f ms without it (%.2f to %.2f)\n", median(of), median(well), of[0], of[len(of)-1])
	return nil
}
