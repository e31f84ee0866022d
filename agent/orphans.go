package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// taskVariable marks, in the environment of all that a hook starts, the task it is for.
const taskVariable = "WINDSOCK_TASK"

// endOrphans ends what an agent that was killed left running for a task: it is to be run
// again, and not beside itself. Its process group would not do to know it by: that may be
// another's by now.
func endOrphans(task string, grace time.Duration) {
	signal := func(sig syscall.Signal) (found bool) {
		for _, pid := range orphans(task) {
			found = syscall.Kill(pid, sig) == nil || found
		}
		return found
	}
	if signal(syscall.SIGTERM) && !await(grace, func() bool { return !signal(0) }) {
		signal(syscall.SIGKILL)
	}
}

// orphans lists the processes that run for the task.
func orphans(task string) (pids []int) {
	mark := []byte(taskVariable + "=" + task)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(variable, mark) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
