package openstack

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"windsock"
)

// serverWords are what the words for a server's status stand for, as long as nothing
// beside them says otherwise (judge).
var serverWords = map[string]windsock.State{
	"ACTIVE":            windsock.Running,
	"BUILD":             windsock.Starting,
	"DELETED":           windsock.Gone,
	"ERROR":             windsock.Failed,
	"HARD_REBOOT":       windsock.Starting,
	"MIGRATING":         windsock.Running,
	"PASSWORD":          windsock.Running,
	"PAUSED":            windsock.Suspended,
	"REBOOT":            windsock.Starting,
	"REBUILD":           windsock.Starting,
	"RESCUE":            windsock.Running,
	"RESIZE":            windsock.Starting,
	"REVERT_RESIZE":     windsock.Starting,
	"SHELVED":           windsock.Stopped,
	"SHELVED_OFFLOADED": windsock.Stopped,
	"SHUTOFF":           windsock.Stopped,
	"SOFT_DELETED":      windsock.Gone,
	"SUSPENDED":         windsock.Suspended,
	"UNKNOWN":           windsock.Unknown,
	"VERIFY_RESIZE":     windsock.Running,
}

// requested are the words for what Nova never does by itself. SHUTOFF is none: that is
// also what becomes of a guest that died, by way of the same powering-off (readStops).
var requested = map[string]bool{
	"DELETED": true, "SOFT_DELETED": true, "PAUSED": true, "SUSPENDED": true, "SHELVED": true, "SHELVED_OFFLOADED": true,
	"deleting": true, "soft-deleting": true, "pausing": true, "suspending": true, "shelving": true,
	"shelving_image_pending_upload": true, "shelving_image_uploading": true, "shelving_offloading": true,
}

// tasks are those that say more than the status, as that stays what it is until they are
// done.
var tasks = map[string]windsock.State{
	"deleting": windsock.Stopping, "soft-deleting": windsock.Stopping, "powering-off": windsock.Stopping,
	"pausing": windsock.Stopping, "suspending": windsock.Stopping,
	"shelving": windsock.Stopping, "shelving_image_pending_upload": windsock.Stopping, "shelving_image_uploading": windsock.Stopping,
	"powering-on": windsock.Starting, "unpausing": windsock.Starting, "resuming": windsock.Starting,
	"unshelving": windsock.Starting, "unrescuing": windsock.Starting, "restoring": windsock.Starting,
}

// What the hypervisor says of the guest.
const (
	powerRunning   = 1
	powerPaused    = 3
	powerShutdown  = 4
	powerCrashed   = 6
	powerSuspended = 7
)

// powers is what an ACTIVE server is whose guest is not running: Nova finds out later, or
// never. A guest that is shut down is being stopped: Nova does the rest by itself.
var powers = map[int]windsock.State{
	powerPaused: windsock.Suspended, powerShutdown: windsock.Stopping, powerCrashed: windsock.Failed, powerSuspended: windsock.Suspended,
}

// judge says what state a server is in, and why, where that is not plain.
func judge(r *server) (windsock.State, string) {
	state, ok := serverWords[r.Status]
	if !ok {
		return windsock.Unknown, "an unknown word"
	}
	switch {
	case r.fewKeys():
		return windsock.Unknown, "its cell does not answer"
	case state == windsock.Failed:
		return state, r.Fault.String()
	case state == windsock.Gone && r.Task != "restoring":
		return state, ""
	case r.Status == "MIGRATING" && r.VM == "paused":
		state = windsock.Suspended
	case r.VM == "stopped" && (state == windsock.Starting || state == windsock.Running):
		state = windsock.Stopped // it is resized or rebuilt, and stays off
	case r.Status == "VERIFY_RESIZE" && r.Power == powerShutdown:
		state = windsock.Stopped
	}
	if r.Status == "ACTIVE" && r.Power == powerCrashed {
		state = windsock.Failed
	} else {
		state = cmp.Or(tasks[r.Task], state)
		if r.Status == "ACTIVE" && r.Task == "" {
			state = cmp.Or(powers[r.Power], state)
		}
	}
	if (r.Host == "DOWN" || r.Host == "UNKNOWN") && state != windsock.Stopped {
		return windsock.Unknown, "its host is " + r.Host + " to Nova"
	}
	return state, ""
}

// raw is all of Nova's words for the state, as short as that goes.
func raw(r *server) string {
	words := []string{r.Status}
	for _, w := range [...]string{r.VM, r.Task} {
		if w != "" {
			words = append(words, w)
		}
	}
	if r.VM != "" && (r.Power != powerRunning || r.Status != "ACTIVE") {
		words = append(words, fmt.Sprintf("power=%d", r.Power))
	}
	if r.Host != "" && r.Host != "UP" {
		words = append(words, "host="+r.Host)
	}
	return strings.Join(words, " ")
}

// stackWords are what Heat's words for a stack stand for. One that only took a snapshot,
// or is being looked at, is what it was.
var stackWords = func() map[string]windsock.State {
	words := map[string]windsock.State{}
	for _, action := range [...]string{"CREATE", "UPDATE", "ROLLBACK", "RESUME", "ADOPT", "RESTORE", "SNAPSHOT", "CHECK", "SUSPEND", "DELETE"} {
		words[action+"_IN_PROGRESS"] = windsock.Starting
		words[action+"_COMPLETE"] = windsock.Running
		words[action+"_FAILED"] = windsock.Failed
	}
	maps.Copy(words, map[string]windsock.State{
		"INIT_COMPLETE":    windsock.Starting,
		"INIT_IN_PROGRESS": windsock.Starting,

		"SNAPSHOT_IN_PROGRESS": windsock.Unknown,
		"CHECK_IN_PROGRESS":    windsock.Unknown,
		"SUSPEND_IN_PROGRESS":  windsock.Stopping,
		"SUSPEND_COMPLETE":     windsock.Stopped,
		"DELETE_IN_PROGRESS":   windsock.Stopping,
		"DELETE_COMPLETE":      windsock.Gone,
	})
	return words
}()

// Words implements observer.Provider.
func (p *Provider) Words() map[string]windsock.State {
	words := maps.Clone(serverWords)
	maps.Copy(words, stackWords)
	maps.Copy(words, hostWords)
	for power, state := range powers {
		words[fmt.Sprintf("ACTIVE power=%d", power)] = state
	}
	return words
}
