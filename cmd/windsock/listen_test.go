package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	failed = `{"version":"1","deployment_id":"shop","instance_id":"web-1","state":"FAIL DETECTED",
		"observed_state":"failed","previous_state":"running","reason":"connection refused","seq":42}`
	secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
)

// startListen runs the receiver and returns where it is.
func startListen(t *testing.T, args ...string) (*program, string) {
	t.Helper()
	p := start(t, append([]string{"listen", "--addr", "127.0.0.1:0"}, args...)...)
	_, addr, _ := strings.Cut(await(t, p.Err, "listening on "), "http://")
	return p, "http://" + addr
}

// post returns the status and the body of the answer.
func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(said)
}

func TestListenPrintsALine(t *testing.T) {
	p, url := startListen(t)
	if status, body := post(t, url+"/hooks/api/deployment/instance/web-1", failed); status != 200 || body != `{"result":"success"}` {
		t.Errorf("answered %d %s", status, body)
	}
	line := await(t, p.Out, "web-1")
	const want = "FAIL DETECTED   instance    web-1     running → failed  (seq 42)  connection refused"
	if !strings.HasSuffix(line, want) {
		t.Errorf("got  %q\nwant …%q", line, want)
	}
	post(t, url+"/api/deployment/shop", `{"state":"START DETECTED","observed_state":"running","reason":"\u001b[2J\u0007 3 of 3"}`)
	line = await(t, p.Out, "shop")
	if !strings.Contains(line, "START DETECTED  deployment  shop      unknown → running") || strings.ContainsAny(line, "\x1b\a") {
		t.Errorf("got %q", line)
	}
	post(t, url+"/hooks/api/ping", `{"version":"1","type":"monitor.ping","monitor_id":"m-1"}`)
	if line = await(t, p.Out, "ping"); !strings.HasSuffix(line, "ping            monitor     m-1") {
		t.Errorf("got %q", line)
	}
	post(t, url+"/api/monitor/m-1", `{"version":"1","type":"monitor.expiring","monitor_id":"m-1","reason":"soon"}`)
	if line = await(t, p.Out, "expiring"); !strings.HasSuffix(line, "expiring        monitor     m-1  soon") {
		t.Errorf("got %q", line)
	}
	p.Stop()
	p.exits(t, 0)
}

func TestListenPrintsJSON(t *testing.T) {
	p, url := startListen(t, "--json", "--status", "202")
	post(t, url+"/api/deployment/instance/web-1", failed, standardwebhooks.HeaderWebhookID, "msg_1")
	var got struct {
		Webhook  string `json:"webhook_id"`
		Kind     string `json:"kind"`
		ID       string `json:"id"`
		Answered int    `json:"answered"`
		Body     struct {
			Seq int `json:"seq"`
		} `json:"body"`
	}
	if err := json.Unmarshal([]byte(await(t, p.Out, "web-1")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Webhook != "msg_1" || got.Kind != "instance" || got.ID != "web-1" || got.Answered != 202 || got.Body.Seq != 42 {
		t.Errorf("got %+v", got)
	}
}

func TestListenPrintsTheEventsOfABatch(t *testing.T) {
	const batch = `[
		{"id":"evt_1","version":"1","deployment_id":"shop","instance_id":"web-1","state":"FAIL DETECTED","type":"instance.state","observed_state":"failed","previous_state":"running","seq":42},
		{"id":"evt_2","version":"1","deployment_id":"shop","type":"deployment.flags","observed_state":"running","seq":43},
		{"id":"evt_3","version":"1","type":"log.gap","monitor_id":"m-1","first_seq":1,"last_seq":40,"lost":12,"seq":44}]`
	p, url := startListen(t)
	if status, body := post(t, url+"/hooks/api/events", batch); status != 200 || body != `{"result":"success"}` {
		t.Errorf("answered %d %s", status, body)
	}
	for _, want := range []string{
		"FAIL DETECTED   instance    web-1     running → failed  (seq 42)",
		"-               deployment  shop      unknown → running  (seq 43)",
		"LOST  up to 12 events for monitor m-1, of 1 to 40  (seq 44)",
	} {
		if line := await(t, p.Out, "(seq"); !strings.HasSuffix(line, want) {
			t.Errorf("got  %q\nwant …%q", line, want)
		}
	}
	for _, bad := range []string{`{}`, `[1]`, `[{"seq":"1"}]`, `[`} {
		if status, _ := post(t, url+"/api/events", bad); status != 400 {
			t.Errorf("%s is answered %d", bad, status)
		}
	}

	p, url = startListen(t, "--json", "--fail", "1", "--exit-after", "6")
	for _, want := range []int{503, 200} {
		if status, _ := post(t, url+"/api/events", batch, standardwebhooks.HeaderWebhookID, "batch_7"); status != want {
			t.Errorf("answered %d, want %d", status, want)
		}
	}
	line := await(t, p.Out, "evt_2")
	for _, want := range []string{`"webhook_id":"evt_2"`, `"batch_id":"batch_7"`, `"kind":"deployment"`, `"id":"shop"`, `"answered":503`, `"seq":43`} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	p.exits(t, 0)
}

func TestListenFailsFirstAndEnds(t *testing.T) {
	p, url := startListen(t, "--fail", "2", "--exit-after", "3")
	for i, want := range []int{503, 503, 200} {
		if got, _ := post(t, url+"/api/deployment/shop", `{"state":"FAIL DETECTED"}`); got != want {
			t.Errorf("callback %d was answered %d, want %d", i+1, got, want)
		}
	}
	await(t, p.Out, "[answered 503]")
	p.exits(t, 0)
}

func TestListenVerifies(t *testing.T) {
	p, base := startListen(t, "--secret", secret)
	url := base + "/api/deployment/instance/web-1"
	sign := func(secret, body string) []string {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		signature, err := signer.Sign("msg_7", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return []string{
			standardwebhooks.HeaderWebhookID, "msg_7",
			standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10),
			standardwebhooks.HeaderWebhookSignature, signature,
		}
	}
	if status, body := post(t, url, failed, sign(secret, failed)...); status != 200 {
		t.Errorf("well signed, but answered %d %s", status, body)
	}
	await(t, p.Out, "FAIL DETECTED")
	batch := `[{"id":"evt_1","type":"deployment.state","deployment_id":"shop"}]`
	if status, body := post(t, base+"/api/events", batch, sign(secret, batch)...); status != 200 {
		t.Errorf("a batch well signed, but answered %d %s", status, body)
	}
	if status, _ := post(t, base+"/api/events", batch, sign(secret, "[]")...); status != 401 {
		t.Errorf("another batch is signed, but answered %d", status)
	}
	await(t, p.Err, "refused: ")
	for name, header := range map[string][]string{
		"unsigned":            nil,
		"other secret":        sign("whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVy", failed),
		"other body":          sign(secret, "{}"),
		"without an id":       sign(secret, failed)[2:],
		"without a signature": sign(secret, failed)[:4],
	} {
		if status, body := post(t, url, failed, header...); status != 401 || body != `{"result":"fail"}` {
			t.Errorf("%s: answered %d %s", name, status, body)
		}
		line := await(t, p.Err, "refused: ")
		if !strings.Contains(line, `what has to be signed is "`) || !strings.Contains(line, `\"instance_id\":\"web-1\"`) {
			t.Errorf("%s: printed %s", name, line)
		}
		if right := sign(secret, failed)[5]; name == "other secret" && !strings.HasSuffix(line, ", which makes "+right) {
			t.Errorf("%s: the right signature, %s, is not printed: %s", name, right, line)
		}
		if strings.Contains(line, "c2VjcmV0") {
			t.Errorf("%s: the secret was printed: %s", name, line)
		}
	}
}

func TestListenRefusesWhatIsNoCallback(t *testing.T) {
	_, url := startListen(t)
	for name, c := range map[string]struct {
		path, body string
		want       int
	}{
		"another path":      {"/", failed, 404},
		"no id":             {"/api/deployment/", failed, 404},
		"something below":   {"/api/deployment/shop/check", failed, 404},
		"no JSON":           {"/api/deployment/shop", "state=FAIL", 400},
		"empty":             {"/api/deployment/shop", "", 400},
		"a list":            {"/api/deployment/shop", "[]", 400},
		"larger than 1 MiB": {"/api/deployment/shop", `"` + strings.Repeat("x", maxCallback) + `"`, 413},
	} {
		if got, _ := post(t, url+c.path, c.body); got != c.want {
			t.Errorf("%s: answered %d, want %d", name, got, c.want)
		}
	}
	resp, err := http.Get(url + "/api/deployment/shop")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET was answered %s, Allow %q", resp.Status, resp.Header.Get("Allow"))
	}
}

func TestListenAllowsWhoAsks(t *testing.T) {
	_, url := startListen(t, "--secret", secret)
	ask := func(origin string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, url+"/hooks", nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			req.Header.Set("WebHook-Request-Origin", origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	got := ask("windsock.example.com")
	if h := got.Header; got.StatusCode != 200 || h.Get("WebHook-Allowed-Origin") != "windsock.example.com" || h.Get("WebHook-Allowed-Rate") != "*" || h.Get("Allow") != "POST" {
		t.Errorf("answered %s %v", got.Status, got.Header)
	}
	if got := ask(""); got.StatusCode != 404 || got.Header.Get("WebHook-Allowed-Origin") != "" {
		t.Errorf("who does not say who asks is answered %s %v", got.Status, got.Header)
	}
}

func TestListenSaysWhenTheAddressIsTaken(t *testing.T) {
	_, url := startListen(t)
	p := start(t, "listen", "--addr", strings.TrimPrefix(url, "http://"))
	await(t, p.Err, "address already in use")
	p.exits(t, 1)
}

// What is told again, or for several events, or of a provider, is shown as that.
func TestListenShowsWhatIsSpecial(t *testing.T) {
	p, url := startListen(t)
	for _, c := range []struct{ path, body, replay, want string }{
		{"/api/deployment/instance/web-2", `{"state":"START DETECTED","seq":9,"first_seq":3,"last_seq":9,"coalesced":4}`, "", "web-2 … (seq 9)  [newest of 4, from seq 3 on]"},
		{"/api/deployment/instance/web-3", `{"state":"START DETECTED","seq":5}`, "true", "web-3 … (seq 5)  [again]"},
		{"/api/events", `[{"id":"evt_a_6","type":"instance.state","deployment_id":"shop","instance_id":"web-4","state":"START DETECTED","seq":6,"replay":true},
			{"id":"evt_a_7","type":"provider.lost","provider":"east","seq":7,"reason":"HTTP 503"}]`, "true", "web-4 … (seq 6)  [again]"},
		{"/api/provider/west", `{"type":"provider.back","provider":"west","seq":8}`, "", "provider.back … west … (seq 8)"},
	} {
		if status, body := post(t, url+c.path, c.body, "Windsock-Replay", c.replay); status != 200 {
			t.Errorf("%s is answered %d %s", c.path, status, body)
		}
		parts := strings.Split(c.want, " … ")
		line := await(t, p.Out, parts[0])
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("got %q, want %q", line, c.want)
			}
		}
	}
}
