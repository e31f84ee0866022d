package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"windsock"
)

// Observers are two windsocks that observe one provider: the first lists it all the time,
// the other so seldom that it has to hear of what happens there.
type Observers []Observer

// An Observer is a windsock, and a monitor that it calls back.
type Observer struct {
	*Server
	*Monitor
}

// A Provider is how the observation goes.
type Provider struct {
	CompleteAt string `json:"complete_at"`
	LastError  string `json:"last_error"`
	Instances  int    `json:"instances"`
}

// Observe starts them, with such a provider, and the deployment shop in it, which may
// change as often as the test wants. It returns when they have listed it and listen to it.
func Observe(t *testing.T, provider string) (list Observers) {
	t.Helper()
	for _, every := range []string{"1s", "10m"} {
		dir := t.TempDir()
		config := filepath.Join(dir, "windsock.yaml")
		text := fmt.Sprintf("providers: [{id: box, %s, interval: %s}]\ndeployments: [{id: shop, provider: box, provider_id: shop, flap: off}]\n", provider, every)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := Serve(t, "127.0.0.1:0", filepath.Join(dir, "w.db"), "--config", config)
		o := Observer{s, s.Hear(t, "listed every "+every)}
		o.Listens(t, 1)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("windsock, listing every %s:\n%s", every, s.Logged())
			}
		})
		o.Observed(t, "it was listed", func(p Provider) bool { return p.LastError == "" })
		list = append(list, o)
	}
	return list
}

// Listens waits until it has begun that many times to hear of what happens at the provider.
func (o Observer) Listens(t *testing.T, times int) {
	t.Helper()
	Eventually(t, "it listens", func() bool { return strings.Count(o.Logged(), "listening to the provider") >= times })
}

// StartAnew waits until the first of them cannot list the provider, whose daemon was ended,
// starts that by the script up, and returns when all listen to it and list it again. Nothing
// is to be told by that.
func (list Observers) StartAnew(t *testing.T) {
	t.Helper()
	list[0].Observed(t, "it cannot be listed", func(p Provider) bool { return p.LastError != "" })
	if out, err := exec.Command("./up").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, o := range list {
		o.Listens(t, 2)
		o.Observed(t, "it is listed again", func(p Provider) bool { return p.LastError == "" })
	}
	list.Quiet(t)
}

// Observed waits until the observation goes so.
func (o Observer) Observed(t *testing.T, what string, ok func(Provider) bool) {
	t.Helper()
	Eventually(t, what, func() bool {
		var p Provider
		status, err := o.Call(t.Context(), "GET", "/api/providers/box", nil, &p)
		return err == nil && status == 200 && p.CompleteAt != "" && ok(p)
	})
}

// An Instance is what there is to see of one.
type Instance struct {
	State  string `json:"observed_state"`
	Reason string `json:"reason"`
	HeldBy string `json:"held_by"`
}

// Seen waits until each of them sees an instance so.
func (list Observers) Seen(t *testing.T, instance, what string, ok func(Instance) bool) {
	t.Helper()
	for _, o := range list {
		Eventually(t, what, func() bool {
			var i Instance
			status, err := o.Call(t.Context(), "GET", "/api/instances/"+instance, nil, &i)
			return err == nil && status == 200 && ok(i)
		})
	}
}

// Hear waits for each of them to hear the word next, and returns the reason.
func (list Observers) Hear(t *testing.T, instance, word string) (reason string) {
	t.Helper()
	for _, o := range list {
		reason = o.Next(t, instance, word).Reason
	}
	return reason
}

// Quiet fails the test if more was heard than was waited for, and that the machine is there.
func (list Observers) Quiet(t *testing.T) {
	t.Helper()
	for _, o := range list {
		for _, c := range o.Rest() {
			if _, node := windsock.NodeHost(c.Instance); !node || c.Word != "START DETECTED" {
				t.Errorf("nothing was the cause of %+v", c)
			}
		}
	}
}

// hostOf is the machine on which an instance is.
func (o Observer) hostOf(t *testing.T, instance string) string {
	t.Helper()
	var i struct {
		Metadata map[string]string `json:"metadata"`
	}
	o.Must(t, "GET", "/api/instances/"+instance, nil, &i, 200)
	return i.Metadata[windsock.HostKey]
}

// LoseHost has the machine on which an instance is be lost, and found again, and waits for each of
// them to tell that, and nothing of the instance, which fails with it and then runs again.
func (list Observers) LoseHost(t *testing.T, instance string) {
	t.Helper()
	list.hostIs(t, instance, "lost")
	list.heldByHost(t, instance)
	list.hostIs(t, instance, "member")
	list.Seen(t, instance, "it runs again", func(i Instance) bool { return i.State == "running" })
	list.hostTold(t, instance)
}

// hostIs has somebody report of the machine on which an instance is, by its name alone.
func (list Observers) hostIs(t *testing.T, instance, desc string) {
	t.Helper()
	for _, o := range list {
		o.Must(t, "POST", "/api/reports/pacemaker", map[string]any{"items": []any{map[string]any{
			"CRM_alert_kind": "node", "CRM_alert_node": o.hostOf(t, instance), "CRM_alert_desc": desc,
		}}}, nil, 200)
	}
}

// heldByHost waits until each of them holds that the instance fails, as its machine does.
func (list Observers) heldByHost(t *testing.T, instance string) {
	t.Helper()
	list.Seen(t, instance, "it is held back", func(i Instance) bool {
		return i.State == "failed" && strings.HasPrefix(i.HeldBy, "depends on node:")
	})
}

// hostTold waits for each of them to hear that the machine on which an instance is failed and
// runs again, and fails the test if anything else was heard that nobody waited for.
func (list Observers) hostTold(t *testing.T, instance string) {
	t.Helper()
	for _, o := range list {
		node := windsock.NodeID(o.hostOf(t, instance))
		Eventually(t, "the machine is told to run again", func() bool {
			told := ""
			for _, c := range o.Rest() {
				if c.Instance == node {
					told += c.Word + ","
				}
			}
			return strings.HasSuffix(told, "FAIL DETECTED,START DETECTED,")
		})
		for _, c := range o.Rest() {
			if c.Instance != node {
				t.Errorf("nothing was the cause of %+v", c)
			}
		}
	}
}
