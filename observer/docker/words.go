package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"windsock"
)

// words are what the words for a container's state stand for: of one that runs with its
// health, of one that exited with its status.
var words = map[string]windsock.State{
	"created":           windsock.Starting,
	"running":           windsock.Running,
	"running healthy":   windsock.Running,
	"running starting":  windsock.Starting,
	"running unhealthy": windsock.Failed,
	"paused":            windsock.Suspended,
	"restarting":        windsock.Failed,
	"restarting 0":      windsock.Starting,
	"removing":          windsock.Stopping,
	"exited":            windsock.Failed,
	"exited 0":          windsock.Stopped,
	"dead":              windsock.Failed,
}

// Words implements observer.Provider.
func (p *Provider) Words() map[string]windsock.State {
	list := maps.Clone(words)
	list[windsock.NodeAnswers] = windsock.Running
	return list
}

// raw is all of Docker's words for the state.
func raw(c *container.InspectResponse) string {
	s := c.State
	word := string(s.Status)
	switch s.Status {
	case container.StateRunning:
		if h := s.Health; h != nil && h.Status != "" && h.Status != container.NoHealthcheck {
			word += " " + string(h.Status)
		}
	case container.StateExited, container.StateRestarting:
		word += fmt.Sprintf(" %d", s.ExitCode)
		if s.OOMKilled {
			word += " oom"
		}
	}
	return word
}

// A verdict is what a container's words mean.
type verdict struct {
	state     windsock.State
	reason    string
	requested bool
	ask       bool // whether somebody stopped it: nothing else tells that from a crash
}

// judge says what state a container is in, and why, where that is not plain.
func judge(c *container.InspectResponse) verdict {
	s := c.State
	word := raw(c)
	state, ok := words[word]
	if !ok {
		state, ok = words[string(s.Status)], s.Status == container.StateExited || s.Status == container.StateRestarting
	}
	if !ok {
		return verdict{state: windsock.Unknown, reason: "an unknown word"}
	}
	v := verdict{state: state}
	switch s.Status {
	case container.StateCreated:
		if s.Error != "" {
			return verdict{state: windsock.Failed, reason: "it cannot be started: " + s.Error}
		}
	case container.StateRunning:
		if state == windsock.Failed {
			v.reason = unhealthy(s.Health)
		}
	case container.StatePaused, container.StateRemoving:
		v.requested = true
	case container.StateRestarting:
		v.reason = ending(s) + fmt.Sprintf(", and is started again (%d times so far)", c.RestartCount)
	case container.StateExited:
		v.reason = ending(s)
		switch {
		case state == windsock.Stopped:
			v.requested = true // it did what it was there for, or was asked to end
		case s.OOMKilled || s.Error != "":
		case restarts(c):
			v = verdict{state: windsock.Stopped, reason: v.reason + ", as it was asked to end", requested: true}
		default:
			v.ask = true
		}
	case container.StateDead:
		v.reason = "the engine could not remove it"
	}
	return v
}

// restarts reports whether the engine would have started a container again that failed,
// had nobody asked for it to end.
func restarts(c *container.InspectResponse) bool {
	p := c.HostConfig.RestartPolicy
	return p.IsAlways() || p.IsUnlessStopped() ||
		p.IsOnFailure() && (p.MaximumRetryCount == 0 || c.RestartCount < p.MaximumRetryCount)
}

// signals are those that usually end a program, by the exit status that Docker gives it.
var signals = map[int]string{129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 141: "SIGPIPE", 143: "SIGTERM"}

// ending says how a container ended.
func ending(s *container.State) string {
	text := fmt.Sprintf("it exited with %d", s.ExitCode)
	if name := signals[s.ExitCode]; name != "" {
		text += " (" + name + ")"
	}
	if s.OOMKilled {
		text += ", killed as it had no memory left"
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

// unhealthy says what the last check said.
func unhealthy(h *container.Health) string {
	for _, check := range slices.Backward(h.Log) {
		if check != nil && check.ExitCode != 0 {
			return strings.TrimSpace(fmt.Sprintf("its health check exited with %d: %s", check.ExitCode, strings.TrimSpace(check.Output)))
		}
	}
	return "its health check fails"
}
