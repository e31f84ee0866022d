package openstack

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"windsock"
)

// seen lists what look shows, a line for each thing.
func seen(t *testing.T, look func(context.Context, func([]windsock.Sighting) error) error) (lines []string, err error) {
	t.Helper()
	err = look(t.Context(), func(page []windsock.Sighting) error {
		for _, s := range page {
			lines = append(lines, line(&s))
		}
		return nil
	})
	return lines, err
}

func line(s *windsock.Sighting) string {
	text := fmt.Sprintf("%s %s: %s", s.Kind, s.ID, cmp.Or(s.State, "described"))
	for _, part := range []struct{ name, value string }{
		{"in", s.Deployment}, {"as", s.Assembly}, {"named", s.Name}, {"pool", s.Pool}, {"at", s.Address},
	} {
		if part.value != "" {
			text += " " + part.name + " " + part.value
		}
	}
	if s.Requested {
		text += " requested"
	}
	return text
}

func expect(t *testing.T, look func(context.Context, func([]windsock.Sighting) error) error, want ...string) {
	t.Helper()
	got, err := seen(t, look)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("shown\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// uuid makes short names the ids of servers and stacks.
func uuid(name string) string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", name)[:36]
}

func (f *fake) stack(id, status string, fields ...string) map[string]any {
	s := map[string]any{"id": id, "stack_name": "name-" + id[len(id)-4:], "stack_status": status, "stack_status_reason": "because", "updated_time": nil, "parent": nil}
	for i := 0; i < len(fields); i += 2 {
		s[fields[i]] = fields[i+1]
	}
	return s
}

// serverIn is a resource of a stack that is a server.
func serverIn(stack, name, server string) map[string]any {
	return map[string]any{"resource_name": name, "physical_resource_id": server, "resource_type": "OS::Nova::Server",
		"links": []any{map[string]any{"rel": "stack", "href": "http://heat.example/v1/p/stacks/x/" + stack}}}
}

const (
	shop = "3571f90d-6c08-4c3b-ac95-9831ccbb866c" // the stack that was recorded
	web0 = "55dc186a-fd32-4928-b2a8-271e2f7c65c2" // servers of its group web
	web1 = "aaaca077-2022-4c72-b380-000d7d08e7a1"
	db   = "06250477-93ed-4fbf-a6a2-c66970cb9c58"
)

// recorded makes the fake the cloud that was recorded: a stack with a server and a group
// of two, and two servers in none.
func recorded(t *testing.T) *fake {
	f := newFake(t)
	f.with(func() {
		for _, s := range recording(t, "servers.json")["servers"].([]any) {
			f.servers = append(f.servers, s.(map[string]any))
		}
		for _, s := range recording(t, "stacks.json")["stacks"].([]any) {
			f.stacks = append(f.stacks, s.(map[string]any))
		}
		for _, r := range recording(t, "resources.json")["resources"].([]any) {
			f.resources[shop] = append(f.resources[shop], r.(map[string]any))
		}
	})
	return f
}

func TestWhatWasRecorded(t *testing.T) {
	f := recorded(t)
	p := f.provider(Config{})
	expect(t, p.Observe,
		"deployment billing: described named billing pool "+project,
		"deployment "+shop+": running named shop pool "+project,
		"instance 913b2195-7273-43aa-871c-9d01228ba131: stopped in billing named stopped",
		"instance 8de29906-4d90-423c-89dd-ab75fa08fba9: failed in billing named fails",
		"instance "+web1+": running in "+shop+" as web named web-1 at 10.64.2.33",
		"instance "+web0+": running in "+shop+" as web named web-0 at 10.64.0.161",
		"instance "+db+": running in "+shop+" as db named db at 10.64.2.186",
	)
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: "8de29906-4d90-423c-89dd-ab75fa08fba9"})
	if err != nil || s.Reason != "500: Build of instance 8de29906-4d90-423c-89dd-ab75fa08fba9 aborted: asked to fail by its name" || s.Raw != "ERROR error power=0" || s.Metadata["windsock:deployment"] != "billing" {
		t.Errorf("the failed one is %+v, %v", s, err)
	}
	for _, a := range f.asks("") {
		if !strings.HasPrefix(a, "GET ") && !strings.HasPrefix(a, "POST /v3/auth/tokens") {
			t.Errorf("it asked %s", a)
		}
	}
}

func TestAnAdministratorSeesTheHost(t *testing.T) {
	f := newFake(t)
	row := recording(t, "servers-admin.json")["servers"].([]any)[0].(map[string]any)
	f.with(func() { f.servers = append(f.servers, row) })
	p := f.provider(Config{})
	expect(t, p.Observe, "deployment project:"+project+": described named demo pool "+project, "instance "+db+": running in project:"+project+" named db at 10.64.2.186")
	f.with(func() { row["host_status"] = "UNKNOWN" })
	expect(t, p.Observe, "deployment project:"+project+": described named demo pool "+project, "instance "+db+": unknown in project:"+project+" named db at 10.64.2.186")
}

func TestATokenThatExpiresMidwayIsRenewed(t *testing.T) {
	f := newFake(t)
	for i := range 10 {
		f.put(uuid(fmt.Sprint(i)), nil)
	}
	p := f.provider(Config{})
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	f.with(func() { f.expires = 2 }) // requests
	list, err := seen(t, p.Observe)
	if err != nil || len(list) != 11 {
		t.Errorf("%d things are shown, %v", len(list), err)
	}
	if f.tokens < 3 {
		t.Errorf("there were %d tokens", f.tokens)
	}
}

func TestTheMicroversionIsOneThatBothKnow(t *testing.T) {
	for max, want := range map[string]string{"2.93": "2.69", "2.69": "2.69", "2.53": "2.53", "2.1": "2.1", "": ""} {
		f := newFake(t)
		f.with(func() {
			f.handlers["/compute/v2.1/"] = func(w http.ResponseWriter, _ *http.Request) {
				if max == "" {
					refuse(w, http.StatusNotFound, "not here")
					return
				}
				answer(w, http.StatusOK, map[string]any{"version": map[string]any{"id": "v2.1", "version": max}})
			}
			f.handlers["/compute/v2.1/servers/detail"] = func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("X-OpenStack-Nova-API-Version"); got != want {
					t.Errorf("of a Nova that knows %q it asked for %q", max, got)
				}
				f.list(w, r)
			}
		})
		expect(t, f.provider(Config{}).Observe)
	}
}

func TestTheServersOfAllProjects(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), map[string]any{"tenant_id": "other", "metadata": map[string]any{"windsock:deployment": "shop"}})
	f.put(uuid("b"), map[string]any{"metadata": map[string]any{"windsock:deployment": "shop"}})
	p := f.provider(Config{})
	want := []string{
		"deployment other:shop: described named shop pool other", "deployment shop: described named shop pool " + project,
		"instance " + uuid("a") + ": running in other:shop named web-1 at 10.64.2.33", "instance " + uuid("b") + ": running in shop named web-1 at 10.64.2.33",
	}
	expect(t, p.Observe, want...)
	// Rights that are lost must not make the servers of others seem gone.
	f.with(func() { f.member = true })
	if list, err := seen(t, p.Observe); status(err) != http.StatusForbidden {
		t.Errorf("shown %v, %v", list, err)
	}
	expect(t, f.provider(Config{}).Observe, want...) // of the fake all are our own
}

// Nova leaves the servers of a cell that is down out of every page that is asked for
// with a limit.
func TestACellThatIsDown(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), nil)
	f.put(uuid("b"), nil)
	p := f.provider(Config{})
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	f.with(func() { f.down = 1 })
	expect(t, p.Observe,
		"deployment project:"+project+": described named demo pool "+project,
		"instance "+uuid("a")+": unknown",
		"instance "+uuid("b")+": running in project:"+project+" named web-1 at 10.64.2.33")
	if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid("a")}); err != nil || line(&s) != "instance "+uuid("a")+": unknown" {
		t.Errorf("looked at as %s, %v", line(&s), err)
	}
	f.put(uuid("c"), nil)
	f.put(uuid("d"), nil)
	if _, err := seen(t, p.Observe); err == nil || !strings.Contains(err.Error(), "cells do not answer") {
		t.Errorf("with more than a page of servers the error is %v", err)
	}
}

func TestNestedStacksRollUp(t *testing.T) {
	f := newFake(t)
	root, group, member := uuid("r"), uuid("g"), uuid("m")
	for _, id := range []string{"1", "2"} {
		f.put(uuid(id), nil)
	}
	f.with(func() {
		f.stacks = []map[string]any{
			f.stack(member, "CREATE_COMPLETE", "parent", group), f.stack(group, "CREATE_COMPLETE", "parent", root), f.stack(root, "CREATE_COMPLETE"),
			f.stack(uuid("e"), "SUSPEND_COMPLETE"),
		}
		nested := func(stack, name, of string) map[string]any {
			r := serverIn(stack, name, of)
			r["resource_type"] = "OS::Heat::ResourceGroup"
			return r
		}
		f.resources[root] = []map[string]any{nested(root, "web", group), nested(group, "0", member), serverIn(member, "vm", uuid("1")), serverIn(root, "db", uuid("2")), serverIn(root, "later", "")}
	})
	p := f.provider(Config{})
	name := func(id string) string { return " named name-" + id[len(id)-4:] + " pool " + project }
	expect(t, p.Observe,
		"deployment "+root+": running"+name(root),
		"instance "+uuid("1")+": running in "+root+" as web named web-1 at 10.64.2.33",
		"instance "+uuid("2")+": running in "+root+" as db named web-1 at 10.64.2.33",
		"deployment "+uuid("e")+": stopped"+name(uuid("e"))+" requested",
	)
	if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindDeployment, ID: group}); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("a nested stack is looked at as %s, %v", line(&s), err)
	}
	f.with(func() { f.stacks = append(f.stacks, f.stack(uuid("o"), "CREATE_COMPLETE", "parent", uuid("unseen"))) })
	if list, err := seen(t, p.Observe); err != nil || strings.Contains(strings.Join(list, "\n"), "deployment "+uuid("o")) {
		t.Errorf("a stack that is nested in one that is not listed is shown: %v, %v", list, err)
	}
	f.asks("")
	// A group that scales changes the stack that is nested, and not the root.
	read := func() int { return len(f.asks("/resources")) }
	look := func() {
		t.Helper()
		if _, err := seen(t, p.Changes); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if n := read(); n != 0 {
		t.Errorf("resources were read %d times though nothing changed", n)
	}
	f.with(func() { f.stacks[0]["updated_time"] = "2026-11-30T12:00:00Z" })
	look()
	if n := read(); n != 1 {
		t.Errorf("resources were read %d times as a nested stack changed", n)
	}
	f.with(func() { f.stacks[2]["stack_status"] = "UPDATE_IN_PROGRESS" })
	look()
	look()
	if n := read(); n != 2 {
		t.Errorf("resources were read %d times in two looks at a stack in progress", n)
	}
}

func TestTheStacksOfAllProjects(t *testing.T) {
	f := newFake(t)
	f.put(uuid("1"), map[string]any{"tenant_id": "other"})
	f.with(func() {
		f.global = true
		f.stacks = []map[string]any{f.stack(uuid("r"), "CREATE_COMPLETE", "project", "other")}
		f.resources[uuid("r")] = []map[string]any{serverIn(uuid("r"), "vm", uuid("1"))}
	})
	expect(t, f.provider(Config{}).Observe,
		"deployment "+uuid("r")+": running named name-0072 pool other",
		"instance "+uuid("1")+": running in "+uuid("r")+" as vm named web-1 at 10.64.2.33")
	if asked := f.asks("/resources"); len(asked) != 1 || !strings.Contains(asked[0], "/heat/v1/other/stacks/") {
		t.Errorf("it asked for %v", asked)
	}
}

func TestStacksComeInPages(t *testing.T) {
	f := newFake(t)
	f.with(func() {
		for i := range stackPage + 1 {
			f.stacks = append(f.stacks, f.stack(uuid(fmt.Sprint(i)), "CREATE_COMPLETE"))
		}
	})
	if list, err := seen(t, f.provider(Config{}).Observe); err != nil || len(list) != stackPage+1 {
		t.Errorf("%d stacks are shown, %v", len(list), err)
	}
}

func TestADeletedStackIsGoneOnRequest(t *testing.T) {
	f := recorded(t)
	p := f.provider(Config{})
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	f.with(func() {
		for _, s := range f.stacks {
			s["stack_status"] = "DELETE_COMPLETE"
		}
	})
	gone := "deployment " + shop + ": gone named shop pool " + project + " requested"
	expect(t, p.Changes, gone)
	expect(t, p.Changes)
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindDeployment, ID: shop})
	if err != nil || line(&s) != gone {
		t.Errorf("looked at as %s, %v", line(&s), err)
	}
	if _, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindDeployment, ID: uuid("never")}); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("what never was: %v", err)
	}
	if _, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindDeployment, ID: "project:x"}); err == nil || errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("what is no stack: %v", err)
	}
}

func TestServersStayWhereHeatHadThem(t *testing.T) {
	f := recorded(t)
	f.with(func() { f.faults["/heat/"] = http.StatusBadGateway })
	p := f.provider(Config{})
	if list, err := seen(t, p.Observe); err == nil || len(list) > 0 {
		t.Errorf("before it knew any stack it showed %v, %v", list, err)
	}
	f.with(func() { clear(f.faults) })
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []int{http.StatusBadGateway, http.StatusForbidden} {
		f.with(func() { f.faults["/heat/"] = fault })
		list, err := seen(t, p.Observe)
		if status(err) != fault || !slices.Contains(list, "instance "+web0+": running in "+shop+" as web named web-0 at 10.64.0.161") {
			t.Errorf("without Heat (%d) it showed %v, %v", fault, list, err)
		}
	}
	f.with(func() { clear(f.faults) })
	if _, err := seen(t, p.Changes); err != nil {
		t.Error(err)
	}
}

func TestACloudWithoutHeat(t *testing.T) {
	f := recorded(t)
	f.with(func() { f.faults["/heat/"] = http.StatusForbidden })
	p := f.provider(Config{})
	list, err := seen(t, p.Observe)
	if err != nil || !slices.Contains(list, "instance "+db+": running in project:"+project+" named db at 10.64.2.186") {
		t.Errorf("it showed %v, %v", list, err)
	}
}

// A stack that Heat cannot show must not hide the others.
func TestAStackThatCannotBeReadHidesNoOther(t *testing.T) {
	f := recorded(t)
	f.with(func() {
		f.stacks = append(f.stacks, f.stack(uuid("bad"), "CREATE_FAILED"))
		f.faults[uuid("bad")] = http.StatusInternalServerError
	})
	list, err := seen(t, f.provider(Config{}).Observe)
	if err != nil || !slices.Contains(list, "instance "+db+": running in "+shop+" as db named db at 10.64.2.186") || !strings.Contains(strings.Join(list, "\n"), uuid("bad")+": failed") {
		t.Errorf("it showed %v, %v", list, err)
	}
}

func TestServersInNoStack(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), map[string]any{"OS-EXT-AZ:availability_zone": "z2"})
	f.put(uuid("b"), map[string]any{"metadata": map[string]any{"app": "blog", "windsock:deployment": "shop"}, "OS-EXT-AZ:availability_zone": "z1"})
	f.put(uuid("c"), map[string]any{"metadata": map[string]any{"windsock:deployment": "not an id"}, "OS-EXT-AZ:availability_zone": "z1"})
	f.with(func() {
		f.groups = []map[string]any{{"id": uuid("g"), "name": "backends", "members": []string{uuid("a")}}}
	})
	end := func(id, in string) string {
		return "instance " + uuid(id) + ": running in " + in + " named web-1 at 10.64.2.33"
	}
	own, group := "project:"+project, "group:"+uuid("g")
	expect(t, f.provider(Config{}).Observe,
		"deployment "+group+": described named backends pool "+project, "deployment shop: described named shop pool "+project, "deployment "+own+": described named demo pool "+project,
		end("a", group), end("b", "shop"), end("c", own))
	expect(t, f.provider(Config{MetadataKey: "app", GroupBy: "project"}).Observe,
		"deployment "+own+": described named demo pool "+project, "deployment blog: described named blog pool "+project,
		end("a", own), end("b", "blog"), end("c", own))
	zones := f.provider(Config{Pool: "zone", GroupBy: "project", MetadataKey: "none"})
	if _, err := seen(t, zones.Observe); err != nil {
		t.Fatal(err)
	}
	expect(t, zones.Observe, "deployment "+own+": described named demo pool z1", end("a", own), end("b", own), end("c", own)) // of its zones the first
}

// A server that nobody groups is not declared; one that was goes on being observed, as
// what it is of.
func TestServersThatNobodyGroups(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), nil)
	f.put(uuid("b"), map[string]any{"metadata": map[string]any{"windsock:deployment": "shop"}})
	f.with(func() {
		f.groups = []map[string]any{{"id": uuid("g"), "name": "backends", "members": []string{uuid("a")}}}
	})
	p := f.provider(Config{GroupBy: "none"})
	expect(t, p.Observe, "deployment shop: described named shop pool "+project,
		"instance "+uuid("a")+": running named web-1 at 10.64.2.33", "instance "+uuid("b")+": running in shop named web-1 at 10.64.2.33")
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid("a")})
	if err != nil || s.State != windsock.Running || s.Deployment != "" {
		t.Errorf("looked at it is %+v, %v", s, err)
	}
}

// Changes overlap, as times have whole seconds, and are by the cloud's clock.
func TestChangesAreAskedForByTheCloudsClock(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), nil)
	date := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	f.with(func() {
		f.handlers["/compute/v2.1/servers/detail"] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", date.Format(http.TimeFormat))
			f.list(w, r)
		}
	})
	p := f.provider(Config{})
	since := func(look func(context.Context, func([]windsock.Sighting) error) error) time.Time {
		t.Helper()
		f.asks("")
		if _, err := seen(t, look); err != nil {
			t.Fatal(err)
		}
		asked := f.asks("changes-since=")
		if len(asked) == 0 {
			return time.Time{}
		}
		u, err := url.Parse(strings.TrimPrefix(asked[0], "GET "))
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, u.Query().Get("changes-since"))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := since(p.Observe); !at.IsZero() {
		t.Errorf("the first look asked for changes since %s", at)
	}
	if at := since(p.Changes); at.After(date.Add(-overlap)) || at.Before(date.Add(-time.Hour)) {
		t.Errorf("at %s it asked for changes since %s", date, at)
	}
	// What a look did not come to the end of is asked for again.
	before := date
	f.with(func() { date = date.Add(time.Hour) })
	stop := errors.New("stop")
	if err := p.Changes(t.Context(), func([]windsock.Sighting) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error is %v", err)
	}
	if at := since(p.Changes); at.After(before.Add(-overlap)) {
		t.Errorf("after a look that failed it asked for changes since %s, before that it was %s", at, before)
	}
	f.with(func() { delete(f.handlers, "/compute/v2.1/servers/detail"); f.noDate = true })
	since(p.Observe)
	if at, now := since(p.Changes), time.Now(); at.After(now.Add(-overlapNoClock+time.Second)) || at.Before(now.Add(-time.Hour)) {
		t.Errorf("at %s, without a clock, it asked for changes since %s", now, at)
	}
}

// A deletion that somebody asked for is told as one, by whatever look it is found.
func TestADeletedServerIsGoneOnRequest(t *testing.T) {
	gone := func(id string) string { return "instance " + uuid(id) + ": gone requested" }
	f := suite{newFake(t)}
	for _, id := range []string{"a", "b", "c", "d"} {
		f.put(uuid(id), nil)
	}
	p := f.provider(Config{})
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	f.with(func() { clear(f.changed) })
	f.Remove(uuid("a"))
	expect(t, p.Changes, gone("a"))
	f.with(func() { clear(f.changed) })
	f.Remove(uuid("b"))
	list, err := seen(t, p.Observe)
	if err != nil || !slices.Contains(list, gone("b")) {
		t.Errorf("a full listing showed %v, %v", list, err)
	}
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid("b")})
	if err != nil || line(&s) != gone("b") {
		t.Errorf("looked at as %s, %v", line(&s), err)
	}
	f.Lose(uuid("c")) // nobody has a note of that
	if s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid("c")}); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("looked at as %s, %v", line(&s), err)
	}
}

// Before Heat has said that a new server is in none of its stacks, it is not put anywhere.
func TestALookAtANewServerAsksHeat(t *testing.T) {
	f := recorded(t)
	p := f.provider(Config{})
	if _, err := seen(t, p.Observe); err != nil {
		t.Fatal(err)
	}
	check := func() string {
		t.Helper()
		s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid("new")})
		if err != nil {
			t.Fatal(err)
		}
		return line(&s)
	}
	f.put(uuid("new"), nil)
	p.heat.readAt = p.heat.readAt.Add(-time.Hour)
	f.with(func() { f.faults["/heat/"] = http.StatusBadGateway })
	if got, want := check(), "instance "+uuid("new")+": running"; got != want {
		t.Errorf("looked at as %s, want %s", got, want)
	}
	f.with(func() {
		clear(f.faults)
		f.stacks = append(f.stacks, f.stack(uuid("more"), "CREATE_IN_PROGRESS"))
		f.resources[uuid("more")] = []map[string]any{serverIn(uuid("more"), "vm", uuid("new"))}
	})
	if got, want := check(), "instance "+uuid("new")+": running in "+uuid("more")+" as vm named web-1 at 10.64.2.33"; got != want {
		t.Errorf("looked at as %s, want %s", got, want)
	}
}

func TestABusyCloudIsAskedAgain(t *testing.T) {
	f := newFake(t)
	f.put(uuid("a"), nil)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		refusals := 2
		f.with(func() {
			f.handlers["/compute/v2.1/servers/detail"] = func(w http.ResponseWriter, r *http.Request) {
				if refusals--; refusals >= 0 {
					w.Header().Set("Retry-After", "0")
					refuse(w, status, "busy")
					return
				}
				f.list(w, r)
			}
		})
		if list, err := seen(t, f.provider(Config{}).Observe); err != nil || len(list) != 2 {
			t.Errorf("%d: shown %v, %v", status, list, err)
		}
	}
}

func TestPagesThatRepeatThemselvesEnd(t *testing.T) {
	f := newFake(t)
	f.with(func() {
		f.handlers["/compute/v2.1/servers/detail"] = func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, map[string]any{"servers": []any{f.row}, "servers_links": []any{map[string]any{"rel": "next"}}})
		}
	})
	if _, err := seen(t, f.provider(Config{}).Observe); err == nil || !strings.Contains(err.Error(), "repeat") {
		t.Errorf("the error is %v", err)
	}
}

// No error shows what is secret.
func TestErrorsShowNoSecret(t *testing.T) {
	f := newFake(t)
	p := f.provider(Config{})
	var errs []error
	note := func() {
		_, err := seen(t, p.Observe)
		errs = append(errs, err)
	}
	for _, fault := range []int{401, 403, 404, 500} {
		for _, part := range []string{"/v3/auth", "/compute", "/heat"} {
			f.with(func() { clear(f.faults); f.faults[part] = fault })
			note()
		}
	}
	f.srv.Close()
	note()
	for _, err := range errs {
		if text := fmt.Sprint(err); strings.Contains(text, "token-") || strings.Contains(text, "sesame") {
			t.Errorf("an error shows a secret: %s", text)
		}
	}
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "cannot sign in: /v3/auth/tokens: 401 Unauthorized: as the test wants it") {
		t.Errorf("the first is %v", errs[0])
	}
}

func TestTheCloudOfTheEnvironment(t *testing.T) {
	f := recorded(t)
	clouds := os.Getenv("OS_CLIENT_CONFIG_FILE")
	t.Setenv("OS_CLIENT_CONFIG_FILE", "")
	t.Setenv("OS_AUTH_URL", f.srv.URL+"/v3")
	t.Setenv("OS_APPLICATION_CREDENTIAL_ID", "id")
	t.Setenv("OS_APPLICATION_CREDENTIAL_SECRET", "sesame")
	t.Setenv("OS_PROJECT_NAME", "demo") // which a credential has itself, and must not be asked for
	t.Setenv("OS_REGION_NAME", "RegionOne")
	var body string
	f.with(func() {
		f.handlers["/v3/auth/tokens"] = func(w http.ResponseWriter, r *http.Request) {
			body = readAll(t, r)
			f.keystone(w, r)
		}
	})
	p := f.provider(Config{})
	p.config.Cloud = ""
	if list, err := seen(t, p.Observe); err != nil || len(list) != 7 {
		t.Errorf("shown %v, %v", list, err)
	}
	if !strings.Contains(body, `"application_credential"`) || strings.Contains(body, "scope") {
		t.Errorf("it signed in by %s", body)
	}
	t.Setenv("OS_INTERFACE", "internal")
	if _, err := seen(t, p.Observe); err != nil {
		t.Error(err) // it is signed in
	}
	p.session = nil
	if _, err := seen(t, p.Observe); err == nil || !strings.Contains(err.Error(), "no compute service") {
		t.Errorf("of the internal endpoints there are none, the error is %v", err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	t.Setenv("OS_CLOUD", "fake")
	if list, err := seen(t, p.Observe); err != nil || len(list) != 7 || !strings.Contains(body, "sesame") || strings.Contains(body, "application_credential") {
		t.Errorf("shown %v, %v; it signed in by %s", list, err, body)
	}
}

// A cloud with a CA of its own, whose Nova is not where the catalog says.
func TestATrustedCAAndAnEndpoint(t *testing.T) {
	f := recorded(t)
	secure := httptest.NewTLSServer(f.srv.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	entry := fmt.Sprintf(`clouds: {fake: {region_name: RegionOne, interface: internal, cacert: %s, auth: {auth_url: "%s/v3", username: demo, password: sesame, project_name: demo, user_domain_name: Default, project_domain_name: Default}}}`, ca, secure.URL)
	clouds := filepath.Join(dir, "clouds.yaml")
	for path, text := range map[string]string{
		ca:     string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})),
		clouds: entry,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	if _, err := seen(t, f.provider(Config{}).Observe); err == nil || !strings.Contains(err.Error(), `no compute service in the region "RegionOne"`) {
		t.Errorf("of the internal endpoints there are none, the error is %v", err)
	}
	p := f.provider(Config{Endpoints: map[string]string{"compute": secure.URL + "/compute/v2.1"}})
	if list, err := seen(t, p.Observe); err != nil || len(list) != 7 {
		t.Errorf("shown %v, %v", list, err)
	}
	if err := os.WriteFile(clouds, []byte(strings.Replace(entry, "cacert: "+ca+",", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := seen(t, f.provider(Config{}).Observe); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with no CA the error is %v", err)
	}
	for name, value := range map[string]string{"AUTH_URL": secure.URL + "/v3", "USERNAME": "demo", "PASSWORD": "sesame", "REGION_NAME": "RegionOne", "PROJECT_NAME": "demo", "USER_DOMAIN_NAME": "Default", "PROJECT_DOMAIN_NAME": "Default", "CACERT": ca} {
		t.Setenv("OS_"+name, value)
	}
	p.config.Cloud, p.session = "", nil
	if list, err := seen(t, p.Observe); err != nil || len(list) != 7 {
		t.Errorf("of the environment: shown %v, %v", list, err)
	}
}

// Each provider is a cloud of its own, by whatever user its entry has.
func TestSeveralClouds(t *testing.T) {
	east, west := recorded(t), newFake(t)
	west.put(uuid("a"), nil)
	both := filepath.Join(t.TempDir(), "clouds.yaml")
	auth := `{region_name: RegionOne, auth: {auth_url: "%s/v3", username: %s, password: sesame, project_name: demo, user_domain_name: Default, project_domain_name: Default}}`
	if err := os.WriteFile(both, fmt.Appendf(nil, "clouds: {east: "+auth+", west: "+auth+"}", east.srv.URL, "one", west.srv.URL, "another"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", both)
	e, w := east.provider(Config{}), west.provider(Config{})
	e.config.Cloud, w.config.Cloud = "east", "west"
	for range 2 {
		for p, want := range map[*Provider]int{e: 7, w: 2} {
			if list, err := seen(t, p.Observe); err != nil || len(list) != want {
				t.Errorf("of %s shown %v, %v", p.config.Cloud, list, err)
			}
		}
	}
}

func TestWhatCannotBeConfigured(t *testing.T) {
	for want, c := range map[string]Config{
		"pool: want project or zone":                {Pool: "rack"},
		"group_by: want server_group, project or":   {GroupBy: "host"},
		"endpoints.image: want compute, orch":       {Endpoints: map[string]string{"image": "http://x"}},
		"notifications: want amqp:// or amqps://":   {Notifications: "rabbit://rabbit.example"},
		"endpoints.compute: want a URL, got \"nova": {Endpoints: map[string]string{"compute": "nova:8774"}},
	} {
		if _, err := New(c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want %s", c, err, want)
		}
	}
}

func BenchmarkListing(b *testing.B) {
	const servers = 1000
	row := recording(b, "servers.json")["servers"].([]any)[2]
	page := canned(b, row, servers)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(page) }))
	defer srv.Close()
	p, s := direct(b, srv.URL)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		v := p.newView(s)
		err := p.listServers(b.Context(), s, nil, &clock{}, v.show(func(page []windsock.Sighting) error {
			n += len(page)
			return nil
		}, false))
		if err != nil || n != servers+1 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/servers, "ns/server")
}
