package openstack

import (
	"testing"

	"windsock"
)

func TestServerStates(t *testing.T) {
	for name, c := range map[string]struct {
		row  server
		want windsock.State
		raw  string
	}{
		"runs":                       {server{Status: "ACTIVE", VM: "active", Power: 1}, windsock.Running, "ACTIVE active"},
		"on a host that is up":       {server{Status: "ACTIVE", VM: "active", Power: 1, Host: "UP"}, windsock.Running, "ACTIVE active"},
		"boots":                      {server{Status: "BUILD", VM: "building", Task: "spawning"}, windsock.Starting, "BUILD building spawning power=0"},
		"stopped":                    {server{Status: "SHUTOFF", VM: "stopped", Power: 4}, windsock.Stopped, "SHUTOFF stopped power=4"},
		"is being started":           {server{Status: "SHUTOFF", VM: "stopped", Task: "powering-on", Power: 4}, windsock.Starting, "SHUTOFF stopped powering-on power=4"},
		"is being stopped":           {server{Status: "ACTIVE", VM: "active", Task: "powering-off", Power: 1}, windsock.Stopping, "ACTIVE active powering-off"},
		"guest paused behind Nova":   {server{Status: "ACTIVE", VM: "active", Power: 3}, windsock.Suspended, "ACTIVE active power=3"},
		"guest died behind Nova":     {server{Status: "ACTIVE", VM: "active", Power: 4}, windsock.Stopping, "ACTIVE active power=4"},
		"guest crashed behind Nova":  {server{Status: "ACTIVE", VM: "active", Power: 6}, windsock.Failed, "ACTIVE active power=6"},
		"crashed, Nova found out":    {server{Status: "ACTIVE", VM: "active", Task: "powering-off", Power: 6}, windsock.Failed, "ACTIVE active powering-off power=6"},
		"host is down":               {server{Status: "ACTIVE", VM: "active", Power: 1, Host: "DOWN"}, windsock.Unknown, "ACTIVE active host=DOWN"},
		"host is silent":             {server{Status: "ACTIVE", VM: "active", Task: "powering-off", Power: 1, Host: "UNKNOWN"}, windsock.Unknown, "ACTIVE active powering-off host=UNKNOWN"},
		"host in maintenance":        {server{Status: "ACTIVE", VM: "active", Power: 1, Host: "MAINTENANCE"}, windsock.Running, "ACTIVE active host=MAINTENANCE"},
		"off on a host that is down": {server{Status: "SHUTOFF", VM: "stopped", Power: 4, Host: "DOWN"}, windsock.Stopped, "SHUTOFF stopped power=4 host=DOWN"},
		"cell is down":               {server{Status: "UNKNOWN"}, windsock.Unknown, "UNKNOWN"},
		"a new word":                 {server{Status: "TELEPORTING", VM: "active", Power: 1}, windsock.Unknown, "TELEPORTING active power=1"},
		"no word":                    {server{}, windsock.Unknown, ""},
		"failed":                     {server{Status: "ERROR", VM: "error"}, windsock.Failed, "ERROR error power=0"},
		"failed, being deleted":      {server{Status: "ERROR", VM: "error", Task: "deleting"}, windsock.Failed, "ERROR error deleting power=0"},
		"is being deleted":           {server{Status: "ACTIVE", VM: "active", Task: "deleting", Power: 1}, windsock.Stopping, "ACTIVE active deleting"},
		"deleted":                    {server{Status: "DELETED", VM: "deleted"}, windsock.Gone, "DELETED deleted power=0"},
		"deleted for the time being": {server{Status: "SOFT_DELETED", VM: "soft-delete"}, windsock.Gone, "SOFT_DELETED soft-delete power=0"},
		"migrates":                   {server{Status: "MIGRATING", VM: "active", Task: "migrating", Power: 3}, windsock.Running, "MIGRATING active migrating power=3"},
		"migrates, paused":           {server{Status: "MIGRATING", VM: "paused", Task: "migrating", Power: 3}, windsock.Suspended, "MIGRATING paused migrating power=3"},
		"resized while off":          {server{Status: "RESIZE", VM: "stopped", Task: "resize_prep", Power: 4}, windsock.Stopped, "RESIZE stopped resize_prep power=4"},
		"resized, to be confirmed":   {server{Status: "VERIFY_RESIZE", VM: "resized", Power: 1}, windsock.Running, "VERIFY_RESIZE resized power=1"},
		"the same, and off":          {server{Status: "VERIFY_RESIZE", VM: "resized", Power: 4}, windsock.Stopped, "VERIFY_RESIZE resized power=4"},
		"takes a snapshot":           {server{Status: "ACTIVE", VM: "active", Task: "image_snapshot", Power: 1}, windsock.Running, "ACTIVE active image_snapshot"},
	} {
		state, why := judge(&c.row)
		if got := raw(&c.row); state != c.want || got != c.raw {
			t.Errorf("%s: %+v is %s, %q; want %s, %q", name, c.row, state, got, c.want, c.raw)
		}
		if state == windsock.Unknown && why == "" {
			t.Errorf("%s: it is not said why", name)
		}
	}
}

// Whatever the words are, there is a state, and a dead host never is a failure.
func TestEveryCombinationHasAState(t *testing.T) {
	for status := range serverWords {
		for _, vm := range []string{"", "active", "stopped", "paused", "error"} {
			for _, task := range []string{"", "deleting", "powering-on", "restoring", "unheard-of"} {
				for power := range 9 {
					for _, host := range []string{"", "UP", "DOWN", "UNKNOWN", "MAINTENANCE"} {
						row := server{Status: status, VM: vm, Task: task, Power: power, Host: host}
						state, _ := judge(&row)
						if state == "" || state == windsock.Degraded {
							t.Errorf("%+v is %q", row, state)
						}
						if (host == "DOWN" || host == "UNKNOWN") && state == windsock.Failed && status != "ERROR" {
							t.Errorf("%+v failed", row)
						}
					}
				}
			}
		}
	}
}

func TestStackStates(t *testing.T) {
	v := (&Provider{config: Config{Pool: "project"}}).newView(&session{})
	for word, want := range map[string]struct {
		state     windsock.State
		requested bool
	}{
		"CREATE_IN_PROGRESS": {windsock.Starting, false}, "CREATE_COMPLETE": {windsock.Running, false}, "UPDATE_FAILED": {windsock.Failed, false},
		"DELETE_IN_PROGRESS": {windsock.Stopping, true}, "DELETE_COMPLETE": {windsock.Gone, true}, "DELETE_FAILED": {windsock.Failed, false},
		"SUSPEND_COMPLETE": {windsock.Stopped, true}, "RESUME_COMPLETE": {windsock.Running, false}, "CHECK_COMPLETE": {windsock.Running, false},
		"CHECK_IN_PROGRESS": {windsock.Unknown, false}, "CHECK_FAILED": {windsock.Failed, false}, "MELTED": {windsock.Unknown, false},
	} {
		s := v.stack(&stack{ID: "s", Status: word, Reason: "because"})
		if s.State != want.state || s.Requested != want.requested || s.Raw != word {
			t.Errorf("%s is %+v", word, s)
		}
		if (s.State == windsock.Failed) != (s.Reason == "because") && s.State == windsock.Failed {
			t.Errorf("%s has the reason %q", word, s.Reason)
		}
	}
}

// What nobody but a user does is no fault.
func TestWhatIsRequested(t *testing.T) {
	v := (&Provider{config: Config{Pool: "project"}}).newView(&session{})
	for _, c := range []struct {
		row  server
		want bool
	}{
		{server{Status: "DELETED", VM: "deleted"}, true},
		{server{Status: "ACTIVE", VM: "active", Task: "deleting", Power: 1}, true},
		{server{Status: "SHELVED", VM: "shelved"}, true},
		{server{Status: "PAUSED", VM: "paused", Power: 3}, true},
		{server{Status: "ACTIVE", VM: "active", Power: 3}, false},
		{server{Status: "ACTIVE", VM: "active", Task: "powering-off", Power: 4}, false},
		{server{Status: "SHUTOFF", VM: "stopped", Power: 4}, false},
		{server{Status: "ERROR", VM: "error", Task: "deleting"}, false},
	} {
		if got := v.sighting(&c.row).Requested; got != c.want {
			t.Errorf("%+v: requested %t", c.row, got)
		}
	}
}

func TestTheAddressThatIsReached(t *testing.T) {
	fixed := address{"10.0.0.1", 4, "fixed"}
	six := address{"fd00::1", 6, "fixed"}
	floating := address{"192.0.2.1", 4, "floating"}
	for want, nets := range map[string]map[string][]address{
		"":            nil,
		"fd00::1":     {"net": {six}},
		"10.0.0.1":    {"net": {six, fixed}, "other": {{"10.9.9.9", 4, "fixed"}}},
		"192.0.2.1":   {"a": {fixed, six}, "net": {fixed, floating}},
		"192.0.2.100": {"a": {{"192.0.2.100", 4, "floating"}}, "b": {floating}},
	} {
		for range 20 { // the order of a map must not matter
			if got := (&server{Addresses: nets}).address(nil); got != want {
				t.Fatalf("%v is reached at %q, want %q", nets, got, want)
			}
		}
	}
}
