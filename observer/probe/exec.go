package probe

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxOutput = 64 << 10               // bytes kept of what a plugin prints
	maxLine   = 256                    // bytes of it that become the reason
	grace     = 100 * time.Millisecond // for output still under way when the plugin has ended
)

// environment is all that a plugin gets of ours; what else it wants stands in its
// arguments.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C"}

// lookExec runs a Nagios plugin and takes its answer as the Monitoring Plugins
// Development Guidelines have it: exit 0 is OK, 1 WARNING, which works, if badly, 2
// CRITICAL, 3 UNKNOWN; the first line of output says why, up to a "|" and the figures
// behind it. Any other end is no answer, so Unknown.
//
// So is a plugin that had to be killed at the time-out. A target that stays silent is
// for the plugin to tell, which gives up by itself before that (its option -t) and says
// CRITICAL; one that does not has hung, or this machine is too busy to run it.
func lookExec(ctx context.Context, command []string) Result {
	var out head
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout = "/", environment, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace // a child that holds on to the output keeps nobody waiting
	if err := cmd.Start(); err != nil {
		return notRun(ctx, err)
	}
	cmd.Wait() // the process state below says all that its error does
	endGroup(cmd.Process.Pid)

	line := firstLine(out)
	end := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case end.Signaled() && ctx.Err() != nil:
		return notRun(ctx, ctx.Err())
	case end.Signaled():
		return unknown("plugin killed by signal: " + end.Signal().String())
	}
	switch code := end.ExitStatus(); code {
	case 0:
		return running(line)
	case 1:
		if !strings.Contains(line, "WARNING") {
			line = "WARNING: " + line
		}
		return running(line)
	case 2:
		return failed(line)
	case 3:
		return unknown(line)
	default:
		return unknown(fmt.Sprintf("plugin exited with %d: %s", code, line))
	}
}

// notRun says why there is no answer of the plugin.
func notRun(ctx context.Context, err error) Result {
	var errno syscall.Errno
	switch {
	case context.Cause(ctx) == errTimedOut:
		return unknown("plugin timed out")
	case ctx.Err() != nil:
		return unknown("the look was called off")
	case errors.As(err, &errno):
		return unknown("plugin does not start: " + errno.Error())
	}
	return unknown("plugin does not start")
}

// endGroup kills what is left of a plugin's process group, whose leader has ended, and
// reaps those that become our children by that, as happens to process 1 of a container.
// The number cannot have been given to another group while one of this one lives, and
// is not given out anew in the moment since.
func endGroup(group int) {
	syscall.Kill(-group, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-group, nil, 0, nil); err != nil && err != syscall.EINTR {
			return
		}
	}
}

// head keeps the first bytes that are written to it and swallows the rest, so that a
// plugin that prints for ever meets its time-out and not a full pipe.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), maxOutput-len(*h))]...)
	return len(p), nil
}

// firstLine is the first line of a plugin's output without the figures, as text that
// can be shown anywhere.
func firstLine(output []byte) string {
	line, _, _ := strings.Cut(string(output), "\n")
	line, _, _ = strings.Cut(line, "|")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		}
		return r
	}, line)
	line = strings.TrimSpace(line)
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine-len("…")], "") + "…"
	}
	if line == "" {
		return "plugin said nothing"
	}
	return line
}
