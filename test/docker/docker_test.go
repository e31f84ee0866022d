// Package docker has windsock observe a real Docker engine, the one that up starts: what
// is done to containers there has to arrive as the right callbacks, and no others.
package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"windsock/test/program"
)

var host = os.Getenv("WINDSOCK_TEST_DOCKER")

func TestMain(m *testing.M) {
	if host == "" {
		os.Exit(m.Run())
	}
	os.Exit(program.Main(m))
}

// docker runs a command against the engine and returns what it prints.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", append([]string{"--host", host}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// launch runs a container of the service web until the test ends, and returns its id.
func launch(t *testing.T, options, command string) string {
	t.Helper()
	args := []string{"run", "--detach", "--network=none", "--label=com.docker.compose.project=shop", "--label=com.docker.compose.service=web"}
	id := docker(t, append(append(args, strings.Fields(options)...), "busybox", "sh", "-c", command)...)
	t.Cleanup(func() { exec.Command("docker", "--host", host, "rm", "--force", id).Run() })
	return id
}

// signal sends one to a process of this machine: that is nothing Docker knows of.
func signal(t *testing.T, pid string, s syscall.Signal) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil && n <= 1 {
		err = errors.New("that is nobody")
	}
	if err == nil {
		err = syscall.Kill(n, s)
	}
	if err != nil {
		t.Fatalf("signal %s to %q: %v", s, pid, err)
	}
}

func observe(t *testing.T) program.Observers {
	t.Helper()
	if host == "" {
		t.Skip("WINDSOCK_TEST_DOCKER is not set: there is no engine to test with; test/docker/up starts one")
	}
	return program.Observe(t, fmt.Sprintf("kind: docker, host: %q", host))
}

const sleeps = `trap "exit 0" TERM; while :; do /bin/busybox sleep 1; done`

func TestWhatIsDoneToAContainerIsToldOnce(t *testing.T) {
	list := observe(t)
	id := launch(t, "", sleeps)
	list.Hear(t, id, "START DETECTED")
	docker(t, "stop", "--time=20", id)
	list.Hear(t, id, "STOP DETECTED")
	docker(t, "start", id)
	list.Hear(t, id, "START DETECTED")
	docker(t, "pause", id)
	list.Hear(t, id, "STOP DETECTED")
	docker(t, "unpause", id)
	list.Hear(t, id, "START DETECTED")

	signal(t, docker(t, "inspect", "--format", "{{.State.Pid}}", id), syscall.SIGKILL)
	if reason := list.Hear(t, id, "FAIL DETECTED"); reason != "it exited with 137 (SIGKILL)" {
		t.Errorf("the reason of what was killed from outside is %q", reason)
	}
	docker(t, "start", id)
	list.Hear(t, id, "START DETECTED")
	docker(t, "kill", id)
	if reason := list.Hear(t, id, "STOP DETECTED"); reason != "it exited with 137 (SIGKILL), as it was asked to end" {
		t.Errorf("the reason of what docker killed is %q", reason)
	}
	docker(t, "rm", id)
	list.Hear(t, id, "STOP DETECTED") // it is gone
	list.Quiet(t)
}

func TestWhyItFailedIsTold(t *testing.T) {
	list := observe(t)
	for want, c := range map[string]struct{ options, command string }{
		"it exited with 7": {"", "exit 7"},
		"it exited with 137 (SIGKILL), killed as it had no memory left": {"--memory=16m --memory-swap=16m", "x=a; for i in $(/bin/busybox seq 26); do x=$x$x; done; exit 9"},
		"its health check exited with 1":                                {"--health-cmd=false --health-interval=1s --health-retries=1", sleeps},
	} {
		id := launch(t, c.options, c.command)
		list.Seen(t, id, want, func(i program.Instance) bool { return i.State == "failed" && strings.HasPrefix(i.Reason, want) })
	}
}

// TestAnEngineThatIsStartedAnewSaysNothing kills it while it is observed; what it runs
// goes on, as up starts it so.
func TestAnEngineThatIsStartedAnewSaysNothing(t *testing.T) {
	list := observe(t)
	id := launch(t, "", sleeps)
	list.Hear(t, id, "START DETECTED")
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(host, "unix://")), "dockerd.own"))
	if err != nil {
		t.Fatal(err)
	}
	signal(t, strings.TrimSpace(string(pid)), syscall.SIGKILL)
	list.StartAnew(t)
	signal(t, docker(t, "inspect", "--format", "{{.State.Pid}}", id), syscall.SIGKILL)
	list.Hear(t, id, "FAIL DETECTED")
}

// TestContainersAreHeldWhileTheirHostIsLost has the machine be reported lost, and found again, by its
// name alone: that is told, and of what runs there nothing, as all of it runs again.
func TestContainersAreHeldWhileTheirHostIsLost(t *testing.T) {
	list := observe(t)
	id := launch(t, "", sleeps)
	list.Hear(t, id, "START DETECTED")
	list.LoseHost(t, id)
}
