package openstack

import (
	"context"
	"net/http"
	"testing"

	"windsock"
)

func TestAVolumeInErrorIsAReason(t *testing.T) {
	f := recorded(t)
	const failed = "8de29906-4d90-423c-89dd-ab75fa08fba9"
	var data, other map[string]any // as they are in Cinder
	f.with(func() {
		list := recording(t, "volumes.json")["volumes"].([]any)
		data, other = list[0].(map[string]any), list[1].(map[string]any)
		other["attachments"] = []any{map[string]any{"server_id": failed}, map[string]any{"server_id": db}}
		f.volumes = []map[string]any{data, other}
	})
	p := f.provider(Config{})
	const both = "in error: volume data 7c0e5f4a-52d8-4a1f-9a37-0f6f2b1f1d11, f3b8c2d0-0c0b-4ac3-8a4e-2f2e5f6f7a22"
	const one = "in error: volume f3b8c2d0-0c0b-4ac3-8a4e-2f2e5f6f7a22"
	const fault = "500: Build of instance 8de29906-4d90-423c-89dd-ab75fa08fba9 aborted: asked to fail by its name"
	look := func(when string, look func(context.Context, func([]windsock.Sighting) error) error, asks int, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		err := look(t.Context(), func(page []windsock.Sighting) error {
			for _, s := range page {
				got[s.ID] = string(s.State) + ", " + s.Raw + ", " + s.Reason
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		for id, want := range want {
			if got[id] != want {
				t.Errorf("%s: %s is %q, want %q", when, id, got[id], want)
			}
		}
		if list := f.asks("/volumes/"); len(list) != asks {
			t.Errorf("%s: asked %v", when, list)
		}
	}
	broken := map[string]string{
		db: "running, ACTIVE active volume=error, " + both, failed: "failed, ERROR error power=0 volume=error, " + fault + "; " + one, web1: "running, ACTIVE active, ",
	}
	look("a listing", p.Observe, 2, broken)
	f.with(func() { f.changed[db] = true })
	look("changes", p.Changes, 0, map[string]string{db: broken[db]})
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		f.with(func() { f.faults["/volumes/"] = status })
		look("a fault of Cinder", p.Observe, 1, broken)
	}
	f.with(func() {
		delete(f.faults, "/volumes/")
		f.volumes = []map[string]any{data}
	})
	look("one of them is mended", p.Observe, 1, map[string]string{db: "running, ACTIVE active volume=error, in error: volume data 7c0e5f4a-52d8-4a1f-9a37-0f6f2b1f1d11", failed: "failed, ERROR error power=0, " + fault})
	f.with(func() { f.volumes = []map[string]any{} })
	look("all are", p.Observe, 1, map[string]string{db: "running, ACTIVE active, "})

	f.with(func() { f.volumes = nil })
	look("a cloud without Cinder", f.provider(Config{}).Observe, 0, map[string]string{db: "running, ACTIVE active, "})
}

// The reason is stored, though the state is what it was.
func TestAVolumeInErrorIsSeenBesideARunningServer(t *testing.T) {
	was := windsock.Evidence{State: windsock.Running, Raw: "ACTIVE active"}
	is, effect := was.Apply(windsock.Observation{State: windsock.Running, Raw: "ACTIVE active volume=error", Reason: "in error: volume data"}, was.ObservedAt)
	if effect != windsock.Changed || is.Reason != "in error: volume data" {
		t.Errorf("it is %+v, %v", is, effect)
	}
}
