package openstack

import (
	"net/http"
	"testing"

	"windsock"
)

func TestWasAsked(t *testing.T) {
	by := func(user string, names ...string) (list []action) {
		for _, n := range names {
			list = append(list, action{n, user})
		}
		return list
	}
	nobody := by("", "stop")
	for name, c := range map[string]struct {
		actions []action // the newest first
		want    bool
	}{
		"a stop that somebody asked for":                        {by("u", "stop", "create"), true},
		"a guest that died":                                     {append(nobody, by("u", "create")...), false},
		"a guest that died after it was started":                {append(nobody, by("u", "start", "stop", "create")...), false},
		"a start that failed":                                   {by("u", "start", "stop", "create"), false},
		"stopped, and then other things were done to it":        {by("u", "attach_volume", "createImage", "stop", "create"), true},
		"stopped, and resized":                                  {by("u", "confirmResize", "resize", "stop", "create"), true},
		"stopped, and Nova stopped it again as it was on":       {append(nobody, by("u", "stop", "create")...), true},
		"shelved when stopped, unshelved, and the guest died":   {append(nobody, by("u", "unshelve", "shelve", "stop", "create")...), false},
		"nothing is known of it":                                {nil, false},
		"more was done to it since than is shown":               {by("u", "attach_interface"), false},
		"a stop that Nova made, and nothing is known of before": {nobody, false},
	} {
		if got := wasAsked(c.actions); got != c.want {
			t.Errorf("%s: %v says %t", name, c.actions, got)
		}
	}
}

// What tells a stop from a guest that died is asked once for each stop.
func TestAStopThatSomebodyAskedFor(t *testing.T) {
	f := newFake(t)
	id := uuid("a")
	set := func(status, updated string, actions ...map[string]any) {
		f.put(id, map[string]any{"status": status, "OS-EXT-STS:power_state": map[string]int{"ACTIVE": 1, "SHUTOFF": 4}[status], "updated": updated})
		f.with(func() { f.did[id] = actions })
	}
	did := func(name string, user any) map[string]any { return map[string]any{"action": name, "user_id": user} }
	p := f.provider(Config{GroupBy: "project"})
	look := func(want string, asks int) {
		t.Helper()
		for _, look := range []struct {
			name string
			asks int
		}{{"it is listed", asks}, {"it is listed again", 0}} {
			expect(t, p.Observe, "deployment project:"+project+": described named demo pool "+project, "instance "+id+": "+want)
			if got := f.asks("os-instance-actions"); len(got) != look.asks {
				t.Errorf("%s: asked %v", look.name, got)
			}
		}
		s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id})
		if got := f.asks("os-instance-actions"); err != nil || line(&s) != "instance "+id+": "+want || len(got) > 0 {
			t.Errorf("looked at it is %+v, %v; asked %v", s, err, got)
		}
	}
	const is = " in project:" + project + " named web-1 at 10.64.2.33"
	set("ACTIVE", "10:00:00", did("create", "u"))
	look("running"+is, 0)
	set("SHUTOFF", "10:01:00", did("stop", "u"), did("create", "u"))
	look("stopped"+is+" requested", 1)
	set("ACTIVE", "10:02:00", did("start", "u"), did("stop", "u"), did("create", "u"))
	look("running"+is, 0)
	set("SHUTOFF", "10:03:00", did("stop", nil), did("start", "u"), did("stop", "u"), did("create", "u"))
	look("stopped"+is, 1)
	set("SHUTOFF", "10:05:00", did("stop", "u"), did("start", "u"), did("stop", nil)) // it was on in between
	look("stopped"+is+" requested", 1)
	set("SHUTOFF", "10:06:00", did("lock", "u"), did("stop", "u"))
	look("stopped"+is+" requested", 1)

	f.with(func() { f.faults["os-instance-actions"] = http.StatusForbidden })
	set("SHUTOFF", "10:07:00", did("stop", "u"))
	look("stopped"+is, 1)
}

func TestWhenItCannotBeToldWhoStoppedAServer(t *testing.T) {
	f := newFake(t)
	id := uuid("a")
	f.put(id, map[string]any{"status": "SHUTOFF"})
	f.with(func() { f.did[id] = []map[string]any{{"action": "stop", "user_id": "u"}} })
	p := f.provider(Config{})
	f.with(func() { f.faults["os-instance-actions"] = http.StatusServiceUnavailable })
	if list, err := seen(t, p.Observe); status(err) != http.StatusServiceUnavailable {
		t.Errorf("shown %v, %v", list, err) // it would be said to be down, and soon that it was not
	}
	if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id}); status(err) != http.StatusServiceUnavailable {
		t.Errorf("looked at it is %+v, %v", s, err)
	}
	listed := func() string {
		t.Helper()
		list, err := seen(t, p.Observe)
		if err != nil || len(list) != 2 {
			t.Fatalf("shown %v, %v", list, err)
		}
		return list[1]
	}
	is := "instance " + id + ": stopped in project:" + project + " named web-1 at 10.64.2.33"
	f.with(func() { f.faults["os-instance-actions"] = http.StatusInternalServerError })
	if got := listed(); got != is {
		t.Errorf("it is %q", got)
	}
	f.with(func() { delete(f.faults, "os-instance-actions") })
	if got := listed(); got != is+" requested" {
		t.Errorf("it is %q", got)
	}
}

// Of a server that never had a host Nova does not note that it was deleted.
func TestAServerThatNeverBootedIsDeleted(t *testing.T) {
	f := newFake(t)
	id := uuid("a")
	f.put(id, map[string]any{"status": "ERROR"})
	p := f.provider(Config{})
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	f.with(func() {
		f.servers = nil
		f.did[id] = []map[string]any{{"action": "create", "user_id": "u"}}
	})
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: id})
	if err != nil || s.State != windsock.Gone || !s.Requested {
		t.Errorf("looked at it is %+v, %v", s, err)
	}
}
