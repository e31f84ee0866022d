package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"

	"windsock/test/postgres"
)

// replicated tells posts and callbacks a second of one, two and four windsocks over one
// PostgreSQL that it starts, beside pgbench's commits of an INSERT each.
func replicated(dir, binary string) error {
	const rounds, monitors = 3, 32
	db, err := postgres.Durable()
	if errors.Is(err, postgres.ErrNone) {
		fmt.Println("replicas: no PostgreSQL is installed here")
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Remove()
	defer func(before string) { *server = before }(*server)
	*server = db.URL()

	var commits []float64
	posts, callbacks := map[int][]float64{}, map[int][]float64{}
	for range rounds {
		rate, err := inserts(db)
		if err != nil {
			return err
		}
		commits = append(commits, rate)
		if err := oneTwoFour(dir, binary, monitors, posts, callbacks); err != nil {
			return err
		}
	}
	fmt.Printf("pgbench, one INSERT a commit    %8.0f commits/s (median of %d rounds of %s, %d connections)\n", median(commits), rounds, *span, *conns)
	for _, n := range []int{1, 2, 4} {
		fmt.Printf("detections, replicas: %d         %8.0f posts/s   %.2f of its commits\n", n, median(posts[n]), median(ratios(posts[n], commits)))
	}
	for _, n := range []int{1, 2, 4} {
		fmt.Printf("callbacks, replicas: %d          %8.0f /s        to %d monitors, %.2f of those of one\n", n, median(callbacks[n]), monitors, median(ratios(callbacks[n], callbacks[1])))
	}
	return nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// inserts is how many a second pgbench commits.
func inserts(db *postgres.Server) (rate float64, err error) {
	pgbench := func(in string, name string, args ...string) []byte {
		cmd := db.Command(name, append(args, "-d", db.URL())...)
		cmd.Stdin = bytes.NewBufferString(in)
		var out []byte
		if err == nil {
			out, err = cmd.Output()
		}
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%s: %w: %s", name, err, failed.Stderr)
		}
		return out
	}
	pgbench("DROP TABLE IF EXISTS inserts; CREATE TABLE inserts (at BIGINT, what TEXT);", "psql", "-q")
	out := pgbench("INSERT INTO inserts VALUES (1, 'FAIL DETECTED');", "pgbench", "-n", "-M", "prepared", "-f", "-",
		"-c", strconv.Itoa(*conns), "-j", "2", "-T", strconv.Itoa(max(1, int(span.Seconds()))))
	if m := tps.FindSubmatch(out); m != nil {
		return strconv.ParseFloat(string(m[1]), 64)
	}
	return 0, errors.Join(err, fmt.Errorf("pgbench says %q", out))
}

// oneTwoFour measures a round: posts while there are more and more windsocks, then
// callbacks while there are fewer and fewer.
func oneTwoFour(dir, binary string, monitors int, posts, callbacks map[int][]float64) error {
	r, first, err := serveTo(dir, binary)
	if err != nil {
		return err
	}
	all := []*process{first}
	defer func() {
		for _, p := range all {
			p.stop()
		}
	}()
	for _, n := range []int{1, 2, 4} {
		for len(all) < n {
			p, err := start(binary, "serve", "--listen", "ADDR", "--db", database(dir), "--log-level", "error")
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		rate, err := postToAll(all)
		if err != nil {
			return err
		}
		posts[n] = append(posts[n], rate)
	}
	if _, err := r.add(first, monitors, "global"); err != nil {
		return err
	}
	for _, n := range []int{4, 2, 1} {
		for _, p := range all[n:] {
			p.stop()
		}
		all = all[:n]
		time.Sleep(2 * time.Second) // those that are left share what is to be done
		rate, _, err := keptBusy(first, r, monitors)
		if err != nil {
			return err
		}
		callbacks[n] = append(callbacks[n], rate)
	}
	return nil
}

// postToAll has the connections divided among windsocks, and returns their posts a second.
func postToAll(all []*process) (rate float64, err error) {
	rates, errs := make([]float64, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	each := *conns / len(all)
	for i, p := range all {
		wg.Go(func() {
			rates[i], _, errs[i] = post(p.addr, each, func(c, k int) (string, []byte) { return singly(each*i+c, k) })
		})
	}
	wg.Wait()
	for _, r := range rates {
		rate += r
	}
	return rate, errors.Join(errs...)
}
