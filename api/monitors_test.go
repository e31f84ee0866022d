package api_test

import (
	"fmt"
	"strings"
	"testing"

	"windsock"
	"windsock/api"

	"github.com/google/go-cmp/cmp"
)

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

func TestMonitorIsAddedOnce(t *testing.T) {
	s := open(t)
	body := `{"address":"127.0.0.1","port":9000,"scope":"pool:east"}`
	first := s.call("POST", add, body).want(201).has(map[string]any{"result": "success", "scope": "pool:east", "version": "1"})
	id := first.field("monitor_id").(string)
	if got := first.header.Get("Location"); got != "/api/monitors/"+id {
		t.Errorf("Location: got %s", got)
	}
	again := s.call("POST", add, body).want(200).has(map[string]any{"result": "success", "monitor_id": id})
	if got := again.header.Get("Location"); got != "/api/monitors/"+id {
		t.Errorf("Location: got %s", got)
	}
	other := s.call("POST", add, `{"address":"127.0.0.1","port":9000}`).want(201)
	if other.field("monitor_id") == id {
		t.Error("another scope is another monitor")
	}
}

func TestMonitorIsRemovedByItsOwnAddress(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{"address":"127.0.0.1","port":9000}`).want(201).field("monitor_id").(string)
	remove := func(rest string) answer {
		return s.call("POST", "/api/monitors/remove", `{"monitor_id":"`+id+`"`+rest+`}`)
	}
	remove(`,"address":"127.0.0.2"`).refused(409, "conflict", "monitor_id")
	remove(`,"port":9001`).refused(409, "conflict", "monitor_id")
	s.call("GET", "/api/monitors/"+id, "").want(200)
	remove(`,"address":"127.0.0.1","port":9000`).want(200).has(map[string]any{"result": "success", "monitor_id": id})
	s.call("GET", "/api/monitors/"+id, "").refused(404, "not-found", "id")
	remove("").refused(404, "not-found", "monitor_id")
}

func TestSecretIsNeverShown(t *testing.T) {
	s := open(t)
	body := `{"address":"127.0.0.1","port":9000,"secret":"` + secret + `"%s}`
	id := s.call("POST", add, fmt.Sprintf(body, "")).want(201).has(map[string]any{"signed": true}).field("monitor_id").(string)
	for _, a := range []answer{
		s.call("POST", add, fmt.Sprintf(body, "")),
		s.call("POST", add, fmt.Sprintf(body, `,"colour":1`)),
		s.call("POST", add, fmt.Sprintf(body, `,"secret":"`+secret+`"`)),
		s.call("POST", add, strings.Replace(fmt.Sprintf(body, ""), secret, secret+"!", 1)).refused(400, "invalid", "secret"),
		s.call("POST", add, "address=127.0.0.1&port=1&secret="+secret+"!", "Content-Type", formType).refused(400, "invalid", "secret"),
		s.call("GET", "/api/monitors/"+id, ""),
		s.call("GET", "/api/monitors/list", ""),
		s.call("GET", "/api/events", ""),
		s.call("GET", "/metrics", ""),
	} {
		if strings.Contains(string(a.body), "MDEyMzQ1") {
			t.Errorf("%s shows it: %s", a.name, a.body)
		}
	}
	if strings.Contains(s.logged.String(), "MDEyMzQ1") {
		t.Error("the log shows it")
	}
}

func TestMonitorsArePaged(t *testing.T) {
	s := open(t)
	for port := range 5 {
		s.call("POST", add, fmt.Sprintf(`{"address":"127.0.0.1","port":%d}`, port+1)).want(201)
	}
	var ports []float64
	pages := 0
	for path := "/api/monitors/list?version=1&limit=2"; path != ""; pages++ {
		a := s.call("GET", path, "").want(200)
		for _, m := range a.field("monitors").([]any) {
			ports = append(ports, m.(map[string]any)["port"].(float64))
		}
		path = nextOf(a)
	}
	if d := cmp.Diff([]float64{1, 2, 3, 4, 5}, ports); d != "" || pages != 3 {
		t.Errorf("%d pages, (-want +got) %s", pages, d)
	}
}

// nextOf is where the header Link says that the next page is.
func nextOf(a answer) string {
	link, found := strings.CutSuffix(a.header.Get("Link"), `>; rel="next"`)
	if found != (a.field("next") != nil) {
		a.Errorf("%s: Link is %q, next %v", a.name, link, a.field("next"))
	}
	return strings.TrimPrefix(link, "<")
}

// deliveries knows how the callbacks to every monitor go.
type deliveries windsock.Delivery

func (d deliveries) Delivery(string) (windsock.Delivery, bool) { return windsock.Delivery(d), true }

func TestDeliveryIsShownAsTheDelivererKnowsIt(t *testing.T) {
	s := open(t, func(srv *api.Server) {
		srv.Deliveries = deliveries{State: "retrying", Backlog: 7, Attempts: 3, LastError: "connection refused"}
	})
	want := map[string]any{"state": "retrying", "backlog": 7.0, "attempts": 3.0, "last_error": "connection refused"}
	id := s.call("POST", add, `{"address":"127.0.0.1","port":9000}`).want(201).field("monitor_id").(string)
	got := []any{
		s.call("GET", "/api/monitors/"+id, "").want(200).field("delivery"),
		s.call("GET", "/api/monitors/list", "").want(200).field("monitors").([]any)[0].(map[string]any)["delivery"],
	}
	for _, g := range got {
		if d := cmp.Diff(any(want), g); d != "" {
			t.Errorf("(-want +got) %s", d)
		}
	}
}
