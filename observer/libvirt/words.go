package libvirt

import (
	"fmt"

	"windsock"
)

// states are the words for a domain's state, by libvirt's number for each.
var states = [...]string{"nostate", "running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended"}

// reasons are the words for why it is in that state, by their number, of those states
// where they make a difference.
var reasons = map[string][]string{
	"paused":  {"unknown", "user", "migration", "save", "dump", "ioerror", "watchdog", "from_snapshot", "shutting_down", "snapshot", "crashed", "starting_up", "postcopy", "postcopy_failed", "api_error"},
	"shutoff": {"unknown", "shutdown", "destroyed", "crashed", "migrated", "saved", "failed", "from_snapshot", "daemon"},
	"crashed": {"unknown", "panicked"},
}

// A meaning is what a state stands for.
type meaning struct {
	state     windsock.State
	requested bool
	reason    string
}

// words are what libvirt's words stand for.
var words = map[string]meaning{
	"nostate":     {state: windsock.Unknown},
	"running":     {state: windsock.Running},
	"blocked":     {state: windsock.Running},
	"shutdown":    {state: windsock.Stopping, reason: "it is being shut down"},
	"pmsuspended": {state: windsock.Suspended, reason: "the guest suspended itself"},

	"paused unknown":         {windsock.Suspended, false, "it is paused"},
	"paused user":            {windsock.Suspended, true, "a user paused it"},
	"paused migration":       {windsock.Starting, false, "it is on its way to or from another host"},
	"paused save":            {windsock.Stopping, true, "its memory is being saved"},
	"paused dump":            {windsock.Suspended, true, "its memory is being dumped"},
	"paused ioerror":         {windsock.Failed, false, "a disk had an I/O error"},
	"paused watchdog":        {windsock.Failed, false, "its watchdog was not fed"},
	"paused from_snapshot":   {windsock.Suspended, true, "it was reverted to a snapshot of when it was paused"},
	"paused shutting_down":   {windsock.Stopping, false, "it is being shut down"},
	"paused snapshot":        {windsock.Suspended, true, "a snapshot is being taken"},
	"paused crashed":         {windsock.Failed, false, "the guest crashed"},
	"paused starting_up":     {windsock.Starting, false, ""},
	"paused postcopy":        {windsock.Stopping, true, "it runs on another host already"},
	"paused postcopy_failed": {windsock.Failed, false, "its way to another host failed half-way"},
	"paused api_error":       {windsock.Failed, false, "a command failed half-way"},

	"shutoff unknown":       {windsock.Stopped, false, "it does not run, libvirt does not know why"},
	"shutoff shutdown":      {windsock.Stopped, true, "the guest shut down"},
	"shutoff destroyed":     {windsock.Stopped, true, "it was powered off"},
	"shutoff crashed":       {windsock.Failed, false, "it crashed, or was killed"},
	"shutoff migrated":      {windsock.Stopped, true, "it went to another host"},
	"shutoff saved":         {windsock.Stopped, true, "its memory was saved"},
	"shutoff failed":        {windsock.Failed, false, "it could not be started"},
	"shutoff from_snapshot": {windsock.Stopped, true, "it was reverted to a snapshot of when it was off"},
	"shutoff daemon":        {windsock.Failed, false, "libvirt ended it, as something went wrong"},

	"crashed unknown":  {windsock.Failed, false, "the guest crashed"},
	"crashed panicked": {windsock.Failed, false, "the guest's kernel panicked"},
}

// Words implements observer.Provider.
func (p *Provider) Words() map[string]windsock.State {
	list := make(map[string]windsock.State, len(words)+1)
	for word, m := range words {
		list[word] = m.state
	}
	list[windsock.NodeAnswers] = windsock.Running
	return list
}

// judge says what state a domain is in, and why.
func judge(state, reason int32, s *windsock.Sighting) {
	s.Raw = word(states[:], state)
	otherwise := s.Raw + " unknown"
	if list := reasons[s.Raw]; list != nil {
		s.Raw += " " + word(list, reason)
	}
	m, ok := words[s.Raw]
	if !ok { // a reason that is new to us
		m, ok = words[otherwise]
	}
	if !ok {
		m = meaning{state: windsock.Unknown, reason: "an unknown word"}
	}
	s.State, s.Requested, s.Reason = m.state, m.requested, m.reason
}

func word(of []string, number int32) string {
	if number < 0 || int(number) >= len(of) {
		return fmt.Sprint(number)
	}
	return of[number]
}
