package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"windsock"
)

// CheckCmd is "windsock check". It ends as a Nagios plugin does.
type CheckCmd struct {
	subject
	Timeout time.Duration `help:"How long to wait for the answer." default:"1m"`
}

// Help is shown by windsock check --help.
func (*CheckCmd) Help() string {
	return `It is looked at by its probe and by its provider; a deployment, with all its instances.
Ends with 0 when the observed state then is running, 1 when it is degraded, starting or stopping, 2 when it is failed,
stopped, suspended or gone, 3 when it is unknown, is not there, nobody can look, or windsock cannot be asked.`
}

// How a Nagios plugin ends.
const (
	statusOK       exit = 0
	statusWarning  exit = 1
	statusCritical exit = 2
	statusUnknown  exit = 3
)

// Run has windsock look, and says what it saw.
func (c *CheckCmd) Run(ctx context.Context, io stdio) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	a, err := c.call(ctx, http.MethodPost, "/check")
	switch {
	case err != nil:
		c.say(io, nil, "cannot be checked: %v", err)
		return statusUnknown
	case a.status != http.StatusOK:
		c.say(io, a, "cannot be checked: %s", a.refusal())
		return statusUnknown
	}
	var found checked
	if err := json.Unmarshal(a.body, &found); err != nil {
		return err
	}
	c.say(io, a, "is %s; %s", a.Observed, strings.Join(found.list(), ", "))
	if found.Seen == "" && !slices.ContainsFunc(found.Instances, func(i sight) bool { return i.Seen != "" }) {
		return statusUnknown
	}
	return statusOf(a.Observed)
}

func statusOf(s windsock.State) exit {
	switch s {
	case windsock.Running:
		return statusOK
	case windsock.Degraded, windsock.Starting, windsock.Stopping:
		return statusWarning
	case windsock.Unknown:
		return statusUnknown
	}
	return statusCritical
}

// checked is what was seen of a subject, and of its instances if it has any.
type checked struct {
	sight
	Instances []sight `json:"instances"`
}

type sight struct {
	Seen  windsock.State  `json:"seen_state"`
	Looks []windsock.Look `json:"looks"`
}

// list says what each look saw, and of instances how many.
func (c *checked) list() (list []string) {
	for _, l := range c.Looks {
		text := l.Source + " saw " + string(l.State)
		switch {
		case l.Error != "":
			text = l.Source + " could not look: " + l.Error
		case l.Raw != "":
			text += " (" + l.Raw + ")"
		case l.Reason != "":
			text += " (" + l.Reason + ")"
		}
		list = append(list, text)
	}
	var counts []string
	for _, s := range append(windsock.InstanceStates[:], "") {
		n := 0
		for _, i := range c.Instances {
			if i.Seen == s {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, cmp.Or(string(s), "by nobody")))
		}
	}
	if len(counts) > 0 {
		list = append(list, "of its instances seen "+strings.Join(counts, ", "))
	}
	return list
}
