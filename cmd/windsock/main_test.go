package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"windsock": main})
}

// TestScripts runs the whole program as a shell does.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// program is the whole program at work in this process.
type program struct {
	Out, Err <-chan string // its lines
	Stop     func()        // as ^C does
	Exit     <-chan int
}

// start runs the program. It is stopped when the test ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stdout, out := lines()
	stderr, err := lines()
	exit := make(chan int, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit <- run(ctx, args, stdout, stderr)
		stdout.Close()
		stderr.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &program{Out: out, Err: err, Stop: cancel, Exit: exit}
}

// lines returns a writer, and the lines that are written to it.
func lines() (io.WriteCloser, <-chan string) {
	r, w := io.Pipe()
	found := make(chan string, 1000)
	go func() {
		defer close(found)
		for s := bufio.NewScanner(r); s.Scan(); {
			found <- s.Text()
		}
		io.Copy(io.Discard, r)
	}()
	return w, found
}

// await returns the first of the lines that holds part.
func await(t *testing.T, from <-chan string, part string) string {
	t.Helper()
	late := time.After(patience)
	var seen []string
	for {
		select {
		case line, open := <-from:
			if !open {
				t.Fatalf("the program ended without a line with %q; it said:\n%s", part, strings.Join(seen, "\n"))
			}
			if strings.Contains(line, part) {
				return line
			}
			seen = append(seen, line)
		case <-late:
			t.Fatalf("no line with %q came; these did:\n%s", part, strings.Join(seen, "\n"))
		}
	}
}

// exits checks that the program ends by itself with the status.
func (p *program) exits(t *testing.T, want int) {
	t.Helper()
	select {
	case got := <-p.Exit:
		if got != want {
			t.Errorf("the program ended with %d, want %d", got, want)
		}
	case <-time.After(patience):
		t.Fatal("the program does not end")
	}
}
