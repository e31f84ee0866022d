package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// maxStream is how many bytes are kept of each stream of a program, and of each output.
const maxStream = 8 << 20

// A program is something to be run on this machine, in a process group of its own.
type program struct {
	path  string
	args  []string
	dir   string
	env   []string
	stdin []byte
	grace time.Duration // from SIGTERM to SIGKILL
}

// printed is what a program left behind.
type printed struct {
	stdout, stderr string // UTF-8
	code           int    // as a shell has it: 128 and the signal that ended it
}

// run returns when the program has ended, or, with the cause of ctx, when it was killed
// with all of its group. What it leaves running when it ends by itself goes on, but has no
// stdout any more: a daemon that kept it would keep us waiting.
func (p program) run(ctx context.Context) (printed, error) {
	stdout, stderr := &capture{half: maxStream / 2}, &capture{half: maxStream / 2}
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(p.stdin), stdout, stderr
	// A program ends with an agent that is killed; what it started then does not (endOrphans).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var killed time.Time
	cmd.Cancel = func() error {
		killed = time.Now()
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	cmd.WaitDelay = p.grace
	if err := cmd.Start(); err != nil {
		if killed := context.Cause(ctx); killed != nil {
			err = killed
		}
		return printed{code: 126}, err
	}
	err := cmd.Wait()
	if !killed.IsZero() {
		endGroup(cmd.Process.Pid, p.grace-time.Since(killed))
		err = context.Cause(ctx)
	} else if ended := new(exec.ExitError); errors.As(err, &ended) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil // its exit status says it
	}
	out := printed{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if end := cmd.ProcessState.Sys().(syscall.WaitStatus); end.Signaled() {
		out.code = 128 + int(end.Signal())
	}
	return out, err
}

// endGroup returns when no process of the group is left. Those that are there after the
// grace had their SIGTERM already.
func endGroup(pgid int, grace time.Duration) {
	end := func(sig syscall.Signal) bool { return syscall.Kill(-pgid, sig) == nil }
	if !await(grace, func() bool { return !end(0) }) {
		end(syscall.SIGKILL)
	}
}

// await looks again and again, for so long, whether it is so at last.
func await(long time.Duration, so func() bool) bool {
	for end := time.Now().Add(long); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// capture keeps the first and the last half of what is written to it.
type capture struct {
	half       int
	head, tail []byte
	total      int
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += n
	room := min(c.half-len(c.head), n)
	c.head = append(c.head, p[:room]...)
	c.tail = append(c.tail, p[room:]...)
	if len(c.tail) > 2*c.half {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-c.half:]...)
	}
	return n, nil
}

// String is what was kept, as UTF-8, with a mark where something is left out.
func (c *capture) String() string {
	tail, mark := c.tail[max(0, len(c.tail)-c.half):], ""
	if out := c.total - len(c.head) - len(tail); out > 0 {
		mark = fmt.Sprintf("\n[… %d bytes are left out …]\n", out)
	}
	return strings.ToValidUTF8(string(c.head)+mark+string(tail), "\uFFFD")
}

// cut shortens a text to about so many bytes.
func cut(text string, to int) string {
	c := capture{half: to / 2}
	c.Write([]byte(text))
	return c.String()
}
