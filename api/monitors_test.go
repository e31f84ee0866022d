package api_test

import (
	"context"
	"fmt"
	"net/url"
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

func TestMonitorIsToldInBatches(t *testing.T) {
	s := open(t)
	for _, step := range []struct{ body, kind, format string }{
		{`{"address":"127.0.0.1","port":9000}`, jsonType, "seed"},
		{`{"address":"127.0.0.1","port":9000,"format":"batch"}`, jsonType, "batch"},
		{`address=127.0.0.1&port=9000&format=seed`, formType, "seed"},
		{`address=127.0.0.1&port=9000&format=batch`, formType, "batch"},
	} {
		id := s.call("POST", add, step.body, "Content-Type", step.kind).has(map[string]any{"result": "success", "format": step.format}).field("monitor_id").(string)
		s.call("GET", "/api/monitors/"+id, "").want(200).has(map[string]any{"format": step.format})
		listed := s.call("GET", "/api/monitors/list", "").want(200).field("monitors").([]any)
		if got := listed[0].(map[string]any)["format"]; len(listed) != 1 || got != step.format {
			t.Errorf("%s: listed as %v", step.body, listed)
		}
	}
	s.call("POST", add, `address=127.0.0.1&port=9000&format=`+strings.Repeat("x", 100), "Content-Type", formType).refused(400, "invalid", "format")
}

func TestMonitorIsPausedAndResumed(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{"address":"127.0.0.1","port":9000,"parallel":4}`).want(201).has(map[string]any{"parallel": 4.0}).field("monitor_id").(string)
	state := func(a answer) any { return a.field("delivery").(map[string]any)["state"] }
	for _, step := range []struct {
		call, body, header string
		state              string
	}{
		{"pause", "", "", "paused"},
		{"pause", "", "", "paused"},
		{"resume", "", "", "idle"},
		{"resume", "", "", "idle"},
		{"pause", "", "", "paused"},
		{"resume", `{"from":"skip"}`, "", "idle"},
		{"pause", "", "", "paused"},
		{"resume", "from=replay&version=1", formType, "idle"},
	} {
		var headers []string
		if step.header != "" {
			headers = []string{"Content-Type", step.header}
		}
		a := s.call("POST", "/api/monitors/"+id+"/"+step.call, step.body, headers...).want(200).has(map[string]any{"result": "success", "monitor_id": id})
		if got := state(a); got != step.state {
			t.Errorf("%s %s: it is %s, want %s", step.call, step.body, got, step.state)
		}
		if got := state(s.call("GET", "/api/monitors/"+id, "").want(200)); got != step.state {
			t.Errorf("%s %s: it is shown as %s, want %s", step.call, step.body, got, step.state)
		}
	}
	var types []string
	for _, e := range s.call("GET", "/api/events?kind=monitor", "").want(200).field("events").([]any) {
		types = append(types, e.(map[string]any)["type"].(string))
	}
	if diff := cmp.Diff([]string{
		"monitor.added", "monitor.paused", "monitor.resumed", "monitor.paused", "monitor.resumed", "monitor.paused", "monitor.resumed",
	}, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	s.call("POST", "/api/monitors/"+id+"/resume", `{"from":"now"}`).refused(400, "invalid", "from")
	s.call("POST", "/api/monitors/"+id+"/resume", `{"from":"success"}`).refused(400, "invalid", "from")
	nobody := "/api/monitors/00000000-0000-0000-0000-000000000000/"
	s.call("POST", nobody+"pause", "").refused(404, "not-found", "id")
	s.call("POST", nobody+"resume", "").refused(404, "not-found", "id")
	s.call("POST", add, `{"address":"127.0.0.1","port":9000,"parallel":65}`).refused(400, "invalid", "parallel")
}

func TestBacklogIsAWish(t *testing.T) {
	s := open(t)
	id := s.call("POST", add, `{`+goodAdd+`}`).want(201).has(map[string]any{"backlog": "every"}).field("monitor_id").(string)
	s.call("POST", add, `{`+goodAdd+`,"backlog":"latest"}`).want(200).has(map[string]any{"backlog": "latest", "monitor_id": id})
	s.call("GET", "/api/monitors/"+id, "").want(200).has(map[string]any{"backlog": "latest"})
	s.call("POST", add, "address=127.0.0.1&port=9000&backlog=every", "Content-Type", formType).want(200).has(map[string]any{"backlog": "every"})
	s.call("POST", add, `{`+goodAdd+`,"backlog":"newest"}`).refused(400, "invalid", "backlog")
	s.call("POST", "/api/monitors/"+id+"/resume", `{"from":"latest"}`).want(200)
	if target, err := s.store.Target(t.Context(), id); err != nil || target.Progress.LatestTo != s.store.Head() {
		t.Errorf("latest up to %d, of %d (%v)", target.Progress.LatestTo, s.store.Head(), err)
	}
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

func TestAMadeSecretIsShownOnce(t *testing.T) {
	s := open(t)
	body := `{` + goodAdd + `,"sign":true}`
	first := s.call("POST", add, body).want(201).has(map[string]any{"signed": true})
	id, made := first.field("monitor_id").(string), first.field("secret").(string)
	if first.header.Get("Cache-Control") != "no-store" {
		t.Error("the answer may be kept")
	}
	s.call("POST", add, body).want(200).has(map[string]any{"signed": true, "secret": nil})
	s.call("POST", add, `{`+goodAdd+`}`).want(200).has(map[string]any{"signed": true, "secret": nil})
	rotated := s.call("POST", "/api/monitors/"+id+"/secret", "").want(200).has(map[string]any{"result": "success", "monitor_id": id})
	if next := rotated.field("secret"); next == nil || next == made || rotated.field("old_secret_until") == nil || rotated.header.Get("Cache-Control") != "no-store" {
		t.Errorf("rotated: %s", rotated.body)
	}
	s.call("GET", "/api/monitors/"+id, "").want(200).has(map[string]any{"old_secret_until": rotated.field("old_secret_until"), "secret": nil})
	s.call("POST", "/api/monitors/"+id+"/secret", "secret="+url.QueryEscape(secret), "Content-Type", formType).want(200).has(map[string]any{"secret": nil})
	s.call("POST", add, `{`+goodAdd+`,"sign":false}`).want(200).has(map[string]any{"signed": false, "old_secret_until": nil})
	s.call("POST", "/api/monitors/"+noID+"/secret", "").refused(404, "not-found", "id")
	s.call("POST", "/api/monitors/"+id+"/secret", `{"secret":"whsec_short"}`).refused(400, "invalid", "secret")
	s.call("POST", "/api/monitors/"+id+"/secret", `{"version":"2"}`).refused(400, "invalid", "version")
	s.call("POST", "/api/monitors/"+id+"/secret", `{"sign":true}`).refused(400, "invalid", "sign")
}

// Whatever is given as a key shows up nowhere, also where it was given wrongly.
func TestKeysAreNeverShown(t *testing.T) {
	s := open(t)
	const planted = "PLANTED"
	good := `{"address":"127.0.0.1","port":9000,"bearer":"PLANTED-bearer","headers":{"X-Key":"PLANTED header"},"secret":"` + secret + `"}`
	id := s.call("POST", add, good).want(201).has(map[string]any{"signed": true, "authorized": true, "header_names": []any{"X-Key"}}).field("monitor_id").(string)
	answers := []answer{
		s.call("POST", add, good).want(200),
		s.call("POST", "/api/monitors/"+id+"/secret", `{"secret":"`+secret+`"}`).want(200),
		s.call("POST", "/api/monitors/"+id+"/secret", `{"secret":"PLANTED"}`).refused(400, "invalid", "secret"),
		s.call("GET", "/api/monitors/"+id, "").want(200),
		s.call("GET", "/api/monitors/list", "").want(200),
		s.call("GET", "/api/events", "").want(200),
		s.call("GET", "/metrics", "").want(200),
	}
	for field, c := range map[string]struct{ at, json string }{
		"bearer with a space":    {"bearer", `"bearer":"a PLANTED"`},
		"bearer twice":           {"bearer", `"bearer":"PLANTED","bearer":"PLANTED"`},
		"bearer as a number":     {"bearer", `"bearer":31415926`},
		"header as a number":     {"headers.X-Key", `"headers":{"X-Key":31415926}`},
		"bearer in a list":       {"bearer", `"bearer":["PLANTED"]`},
		"secret in an object":    {"secret", `"secret":{"PLANTED":"PLANTED"}`},
		"secret that is a word":  {"secret", `"secret":"PLANTED"`},
		"header with a line":     {"headers.X-Key", `"headers":{"x-key":"PLANTED\n"}`},
		"header of ours":         {"headers.Host", `"headers":{"host":"PLANTED"}`},
		"header that is a list":  {"headers.X-Key", `"headers":{"X-Key":["PLANTED"]}`},
		"headers in a list":      {"headers", `"headers":["PLANTED"]`},
		"headers as text":        {"headers", `"headers":"PLANTED"`},
		"half a text":            {"bearer", `"bearer":"PLANTED`},
		"CA by http":             {"ca", `"ca":"PLANTED"`},
		"CA that is none":        {"ca", `"scheme":"https","ca":"PLANTED"`},
		"CA in a list":           {"ca", `"ca":["PLANTED"]`},
		"certificate by http":    {"client_cert", `"client_cert":"PLANTED"`},
		"key by http":            {"client_key", `"client_key":"PLANTED"`},
		"key without its other":  {"client_cert", `"scheme":"https","client_key":"PLANTED"`},
		"key that is none":       {"client_cert", `"scheme":"https","client_cert":"PLANTED","client_key":"PLANTED"`},
		"key that is a list":     {"client_key", `"scheme":"https","client_key":["PLANTED"]`},
		"not to sign, but with":  {"sign", `"sign":false,"secret":"` + secret + `"`},
		"key that is no member":  {"key", `"key":"PLANTED"`},
		"sign that is the token": {"sign", `"sign":"yes"`},
	} {
		t.Run(field, func(t *testing.T) {
			body := `{"address":"127.0.0.1","port":9001,` + c.json + `}`
			if field == "half a text" {
				body = strings.TrimSuffix(body, "}")
			}
			answers = append(answers, s.in(t).call("POST", add, body).refused(400, "invalid", c.at))
		})
	}
	answers = append(answers, s.call("POST", add, "address=127.0.0.1&port=1&bearer=a+PLANTED", "Content-Type", formType).refused(400, "invalid", "bearer"))
	answers = append(answers, s.call("POST", add, "address=127.0.0.1&port=1&headers=PLANTED", "Content-Type", formType).refused(400, "invalid", "headers"))
	for _, a := range answers {
		if strings.Contains(string(a.body), planted) || strings.Contains(string(a.body), secret[6:]) || strings.Contains(string(a.body), "3141") {
			t.Errorf("%s shows it: %s", a.name, a.body)
		}
	}
	if logged := s.logged.String(); strings.Contains(logged, planted) || strings.Contains(logged, secret[6:]) {
		t.Errorf("the log shows it: %s", logged)
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

func (d deliveries) Deliveries(_ context.Context, ids []string) map[string]windsock.Delivery {
	known := map[string]windsock.Delivery{}
	for _, id := range ids {
		known[id] = windsock.Delivery(d)
	}
	return known
}

func TestWhatIsPendingTheStoreKnowsFirst(t *testing.T) {
	var known deliveries
	s := open(t, func(srv *api.Server) { srv.Deliveries = &known })
	for _, c := range []struct {
		verify string
		known  windsock.Delivery
		want   string
	}{
		{"true", windsock.Delivery{State: "delivering", Backlog: 1}, "pending"},
		{"true", windsock.Delivery{State: "pending"}, "pending"},
		{"false", windsock.Delivery{State: "pending"}, "idle"},
		{"false", windsock.Delivery{State: "pending", Backlog: 1}, "delivering"},
	} {
		known = deliveries(c.known)
		got := s.call("POST", add, `{`+goodAdd+`,"verify":`+c.verify+`}`).field("delivery").(map[string]any)["state"]
		if got != c.want {
			t.Errorf("verify %s, as the deliverer knows %s: shown as %s, want %s", c.verify, c.known.State, got, c.want)
		}
	}
}

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
