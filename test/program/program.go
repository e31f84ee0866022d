// Package program runs the real windsock for tests: a process of its own that they may
// kill.
package program

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Binary is the program under test, once Main has built it.
var Binary string

// Main builds the program, runs the tests, and returns how they ended.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "windsock-program")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	Binary = filepath.Join(dir, "windsock")
	build := exec.Command("go", "build", "-tags", "sqlite_omit_load_extension osusergo netgo", "-o", Binary, "windsock/cmd/windsock")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	return m.Run()
}

// A Server is a windsock that runs.
type Server struct {
	Addr string
	*Process
}

var readyLine = regexp.MustCompile(`msg=ready.* address=http://(\S+)`)

// Serve starts windsock on the database and returns when it says that it is ready.
func Serve(t *testing.T, listen, db string, args ...string) *Server {
	t.Helper()
	s := &Server{Process: Start(t, append([]string{"serve", "--listen", listen, "--db", db}, args...)...)}
	s.Addr = s.Until(t, readyLine)
	return s
}

// A Process is a command of windsock that runs.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	log   bytes.Buffer
	lines chan string // those that are not read are forgotten
}

// Start starts a command of windsock; it ends with the test.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.Command(Binary, args...), done: make(chan struct{}), lines: make(chan string, 64)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.mu.Lock()
			fmt.Fprintln(&p.log, lines.Text())
			p.mu.Unlock()
			select {
			case p.lines <- lines.Text():
			default:
			}
		}
		p.cmd.Wait()
	}()
	return p
}

// Until waits for a line of its log that matches, and returns the first group of that.
func (p *Process) Until(t *testing.T, want *regexp.Regexp) string {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line := <-p.lines:
			if m := want.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		case <-p.done:
			t.Fatalf("it ended at once:\n%s", p.Logged())
		case <-late:
			t.Fatalf("within a minute it does not say %s:\n%s", want, p.Logged())
		}
	}
}

// Logged is what it has said.
func (p *Process) Logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Kill ends it without a warning; Interrupt asks it to stop. Both return when it has ended.
func (p *Process) Kill()      { p.Signal(os.Kill); <-p.done }
func (p *Process) Interrupt() { p.Signal(os.Interrupt); <-p.done }

// Signal returns without waiting for what comes of it.
func (p *Process) Signal(s os.Signal) { p.cmd.Process.Signal(s) }

// client gives up on a connection that was cut rather than try again.
var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableKeepAlives: false}}

// Exchange sends v as JSON, if there is any, and returns what is answered.
func Exchange(ctx context.Context, by *http.Client, addr, method, path string, v any) (status int, answer []byte, err error) {
	var body io.Reader
	if v != nil {
		data, err := json.Marshal(v)
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, body)
	if err != nil {
		return 0, nil, err
	}
	if v != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := by.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// Call sends v as JSON, if there is any, and decodes the answer into out, if there is any.
func (s *Server) Call(ctx context.Context, method, path string, v, out any) (status int, err error) {
	status, data, err := Exchange(ctx, client, s.Addr, method, path, v)
	if err != nil {
		return status, err
	}
	if status >= 500 {
		return status, fmt.Errorf("%s %s: %d %s: %s", method, path, status, http.StatusText(status), data)
	}
	if out != nil {
		err = json.Unmarshal(data, out)
	}
	return status, err
}

// Must calls and fails the test unless the status is one of want.
func (s *Server) Must(t *testing.T, method, path string, v, out any, want ...int) {
	t.Helper()
	status, err := s.Call(t.Context(), method, path, v, out)
	for _, w := range want {
		if err == nil && status == w {
			return
		}
	}
	t.Fatalf("%s %s: %d %v, want %v\n%s", method, path, status, err, want, s.Logged())
}

// Eventually waits until ok, which it asks again and again, or fails the test.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
