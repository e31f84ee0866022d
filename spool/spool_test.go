package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what has to come.
const patience = time.Minute

func fresh(t *testing.T) *Spool {
	return &Spool{Dir: filepath.Join(t.TempDir(), "spool"), Bytes: 1 << 20, Files: 100}
}

func entry(subject string, n int) Entry {
	return Entry{Path: "/" + subject, Body: fmt.Appendf(nil, "%d", n)}
}

func add(t *testing.T, s *Spool, subject string, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		if err := s.Add(t.Context(), subject, entry(subject, n), false); err != nil {
			t.Fatalf("%s %d: %v", subject, n, err)
		}
	}
}

// taker notes what is sent, by subject; it may refuse.
type taker struct {
	mu    sync.Mutex
	taken map[string][]int
	away  func(Entry) bool
}

var errAway = errors.New("away")

func (k *taker) send(_ context.Context, e Entry) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away != nil && k.away(e) {
		return errAway
	}
	if k.taken == nil {
		k.taken = map[string][]int{}
	}
	n, err := strconv.Atoi(string(e.Body))
	k.taken[e.Path] = append(k.taken[e.Path], n)
	return err
}

func (k *taker) drain(t *testing.T, s *Spool) error {
	t.Helper()
	_, err := s.Drain(t.Context(), k.send)
	return err
}

func (k *taker) want(t *testing.T, subject string, numbers ...int) {
	t.Helper()
	if got := k.taken["/"+subject]; !slices.Equal(got, numbers) {
		t.Errorf("%s: taken %v, want %v", subject, got, numbers)
	}
}

func TestWhatIsKeptIsSentInOrder(t *testing.T) {
	s, k := fresh(t), &taker{}
	add(t, s, "a", 1, 2, 3)
	add(t, s, "b", 1)
	if err := k.drain(t, s); err != nil {
		t.Fatal(err)
	}
	k.want(t, "a", 1, 2, 3)
	k.want(t, "b", 1)
	if left, _ := s.paths(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWhatIsNotTakenStays(t *testing.T) {
	s := fresh(t)
	add(t, s, "a", 1, 2, 3)
	k := &taker{away: func(e Entry) bool { return string(e.Body) == "2" }}
	if err := k.drain(t, s); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	add(t, s, "a", 4)
	k.away = nil
	if err := k.drain(t, s); err != nil {
		t.Fatal(err)
	}
	k.want(t, "a", 1, 2, 3, 4)
}

func TestWhatIsNewerGoesInstead(t *testing.T) {
	s, k := fresh(t), &taker{}
	for n := range 3 {
		if err := s.Add(t.Context(), "all", entry("all", n), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.drain(t, s); err != nil {
		t.Fatal(err)
	}
	k.want(t, "all", 2)
}

func TestTheOldestMakesRoom(t *testing.T) {
	s, k := fresh(t), &taker{}
	s.Bytes = 100
	for n := range 50 {
		add(t, s, "a", 10+n)
	}
	if err := k.drain(t, s); err != nil {
		t.Fatal(err)
	}
	got := k.taken["/a"]
	if len(got) < 2 || len(got) > 5 || got[len(got)-1] != 59 || got[0] != 60-len(got) {
		t.Errorf("of 10 to 59 in 100 bytes %v were kept", got)
	}
	s.Files = 1
	add(t, s, "a", 1)
	if err := s.Add(t.Context(), "b", entry("b", 1), false); !errors.Is(err, ErrFull) {
		t.Errorf("another subject: %v", err)
	}
	s.Files, s.Bytes = 2, 10
	if err := s.Add(t.Context(), "a", entry("a", 2), false); !errors.Is(err, ErrFull) {
		t.Errorf("more than there is room for: %v", err)
	}
}

// Room that is made while the head of a file is sent leaves what was not sent.
func TestAddingWhileItIsSent(t *testing.T) {
	s := fresh(t)
	s.Bytes = 100
	add(t, s, "a", 10, 11, 12)
	k := &taker{}
	once := sync.OnceFunc(func() { add(t, s, "a", 13, 14, 15) })
	k.away = func(e Entry) bool { once(); return string(e.Body) == "12" }
	if err := k.drain(t, s); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	k.away = nil
	if err := k.drain(t, s); err != nil {
		t.Fatal(err)
	}
	if got := k.taken["/a"]; !slices.IsSorted(got) || got[len(got)-1] != 15 || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("taken %v", got)
	}
}

func TestHalfALineIsNone(t *testing.T) {
	s, k := fresh(t), &taker{}
	add(t, s, "a", 1)
	paths, _ := s.paths()
	f, err := os.OpenFile(paths[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"path":"/a","bo`)
	f.Close()
	add(t, s, "a", 2)
	if err := k.drain(t, s); err != nil {
		t.Fatal(err)
	}
	k.want(t, "a", 1, 2)
}

func TestNobodyWaitsForLong(t *testing.T) {
	s := fresh(t)
	add(t, s, "a", 1)
	unlock, err := s.lock(t.Context(), "draining")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Drain(ctx, (&taker{}).send); !errors.Is(err, context.Canceled) {
		t.Errorf("beside another that sends: %v", err)
	}
}

// TestHelper is a process of TestKilled.
func TestHelper(t *testing.T) {
	dir := os.Getenv("SPOOL_HELPER")
	if dir == "" {
		t.Skip("is run by another test")
	}
	s := &Spool{Dir: dir, Bytes: 1 << 20, Files: 100}
	for n := 0; ; n++ {
		add(t, s, os.Getenv("SPOOL_SUBJECT"), n)
		fmt.Printf("kept %d\n", n)
	}
}

// Processes that add at the same time and are killed lose nothing that they said they kept.
func TestKilled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := fresh(t)
	said := map[string]int{}
	var mu sync.Mutex
	for round := range 4 {
		var all sync.WaitGroup
		for i := range 3 {
			subject := fmt.Sprint(round, "-", i)
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$")
			cmd.Env = append(os.Environ(), "SPOOL_HELPER="+s.Dir, "SPOOL_SUBJECT="+subject)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			kill := 1 + r.IntN(8)
			all.Go(func() {
				var text strings.Builder
				buf := make([]byte, 256)
				for strings.Count(text.String(), "\n") < kill {
					n, err := out.Read(buf)
					text.Write(buf[:n])
					if err != nil {
						break
					}
				}
				cmd.Process.Kill()
				for n, err := out.Read(buf); err == nil; n, err = out.Read(buf) {
					text.Write(buf[:n])
				}
				cmd.Wait()
				mu.Lock()
				defer mu.Unlock()
				said[subject] = strings.Count(text.String(), "\n") - 1
			})
		}
		all.Wait()
	}
	k := &taker{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Drain(ctx, k.send); err != nil {
		t.Fatal(err)
	}
	for subject, last := range said {
		got := k.taken["/"+subject]
		for n := range got {
			if got[n] != n {
				t.Fatalf("%s: %v", subject, got)
			}
		}
		if len(got) < last+1 || last < 0 {
			t.Errorf("%s: it said that it kept 0 to %d; sent were %v", subject, last, got)
		}
	}
}
