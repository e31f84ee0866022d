package monitors

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"windsock"
)

func sample() windsock.Event {
	e := change("web-1", windsock.Failed)
	e.ID = "0195-ä \"%"
	e.Time = time.Date(2026, 12, 1, 12, 0, 0, 123456000, time.FixedZone("", 3600))
	e.DetectedAt = time.Date(2026, 12, 1, 10, 59, 58, 0, time.UTC)
	e.Previous = windsock.Running
	e.Reason = "connection refused <again>"
	e.Metadata = map[string]string{"owner": "ä", "app": "shop"}
	e.Suspect = true
	return e
}

func TestBody(t *testing.T) {
	deployment := windsock.Event{
		Type: windsock.DeploymentState, Kind: windsock.KindDeployment, SubjectID: "shop",
		Word: windsock.FailDetected, State: windsock.Degraded, Previous: windsock.Running, Expected: windsock.Running,
		Source: windsock.RollupSource, Time: time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC),
		EventData: windsock.EventData{Instances: []string{"web-1", "web-2"}},
	}
	flags := windsock.Event{
		Type: windsock.InstanceFlags, Kind: windsock.KindInstance, SubjectID: "web-1", DeploymentID: "shop",
		State: windsock.Running, Time: deployment.Time, EventData: windsock.EventData{Stale: true},
	}
	component := windsock.Event{
		Type: windsock.ComponentChanged, Kind: windsock.KindComponent, SubjectID: "shop/web.0", DeploymentID: "shop", Reason: "disk full", Time: deployment.Time,
		EventData: windsock.EventData{Component: &windsock.ComponentChange{
			Name: "web.0", State: windsock.ComponentFailed, Previous: windsock.ComponentRunning, Action: windsock.ActionCreate, InstanceID: "web-1", Run: 2,
		}},
	}
	tests := map[string]struct {
		event windsock.Event
		url   string
		body  string
	}{
		"instance": {sample(), "http://10.0.0.1:8000/hook/api/deployment/instance/web-1", `{
			"version":"1", "deployment_id":"shop", "instance_id":"web-1", "state":"FAIL DETECTED", "type":"instance.state",
			"metadata":{"app":"shop","owner":"ä"},
			"observed_state":"failed", "previous_state":"running", "expected_state":"running",
			"source":"probe:http", "reason":"connection refused <again>", "seq":2,
			"detected_at":"2026-12-01T10:59:58Z", "time":"2026-12-01T11:00:00.123456Z", "suspect":true}`},
		"deployment": {deployment, "http://10.0.0.1:8000/hook/api/deployment/shop", `{
			"version":"1", "deployment_id":"shop", "state":"FAIL DETECTED", "type":"deployment.state",
			"observed_state":"degraded", "previous_state":"running", "expected_state":"running",
			"source":"rollup", "seq":2, "time":"2026-12-01T11:00:00Z", "instances":["web-1","web-2"]}`},
		"component": {component, "http://10.0.0.1:8000/hook/api/component/shop/web.0", `{
			"version":"1", "deployment_id":"shop", "type":"component.state", "reason":"disk full", "seq":2, "time":"2026-12-01T11:00:00Z",
			"component":{"name":"web.0", "state":"failed", "previous":"running", "action":"CREATE", "instance_id":"web-1", "run":2}}`},
		"without a word": {flags, "http://10.0.0.1:8000/hook/api/deployment/instance/web-1", `{
			"version":"1", "deployment_id":"shop", "instance_id":"web-1", "type":"instance.flags",
			"observed_state":"running", "seq":2, "time":"2026-12-01T11:00:00Z", "stale":true}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog()
				l.add("m", windsock.MonitorSpec{Address: "10.0.0.1", Port: 8000, Path: "/hook", Detections: windsock.Detections{"all"}}, "")
				var got map[string]any
				var to string
				n := newNetwork()
				n.at("10.0.0.1", func(req *http.Request) (*http.Response, error) {
					to = req.Method + " " + req.URL.String()
					body, _ := io.ReadAll(req.Body)
					if err := json.Unmarshal(body, &got); err != nil {
						t.Errorf("body %s: %v", body, err)
					}
					return respond(200, "")(req)
				})
				start(t, l, n)
				l.append(tc.event)
				synctest.Wait()
				var wanted map[string]any
				if err := json.Unmarshal([]byte(tc.body), &wanted); err != nil {
					t.Fatal(err)
				}
				want(t, "request", to, "POST "+tc.url)
				want(t, "body", got, wanted)
			})
		})
	}
}

func TestCallbackURL(t *testing.T) {
	event := &windsock.Event{Kind: windsock.KindInstance, SubjectID: "a/b ?#%"}
	tests := map[string]struct {
		spec windsock.MonitorSpec
		want string
	}{
		"IPv4":   {windsock.MonitorSpec{Address: "10.0.0.1", Port: 80}, "http://10.0.0.1:80/api/deployment/instance/a%2Fb%20%3F%23%25"},
		"IPv6":   {windsock.MonitorSpec{Address: "2001:db8::1", Port: 8443, Scheme: "https"}, "https://[2001:db8::1]:8443/api/deployment/instance/a%2Fb%20%3F%23%25"},
		"a name": {windsock.MonitorSpec{Address: "hooks.example", Port: 80, Path: "/a%2Fb"}, "http://hooks.example:80/a%2Fb/api/deployment/instance/a%2Fb%20%3F%23%25"},
	}
	for name, tc := range tests {
		if got := callbackURL(&tc.spec, event); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A receiver that somebody else wrote reads what we send.
func TestACloudEventsReceiverReadsIt(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	l.add("m", spec(r.URL), "")
	start(t, l, nil, func(d *Deliverer) { d.Transport, d.Guard, d.Version = nil, Guard{Self: onLoopback}, "1.2.3" }, func(d *Deliverer) { d.ID = "L0G" })
	l.append(sample())
	got := r.await(t, 1)[0]
	want(t, "which windsock", got.Header.Get(windsock.IDHeader), "L0G")

	msg := cehttp.NewMessageFromHttpRequest(got.Request)
	if enc := msg.ReadEncoding(); enc != cloudevents.EncodingBinary {
		t.Fatalf("it is read as encoding %v", enc)
	}
	e, err := cloudevents.ToEvent(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	want(t, "attributes", map[string]string{
		"specversion": e.SpecVersion(), "type": e.Type(), "source": e.Source(), "subject": e.Subject(),
		"time": e.Time().Format(time.RFC3339Nano), "datacontenttype": e.DataContentType(),
	}, map[string]string{
		"specversion": "1.0", "type": "windsock.instance.state", "source": "/windsock", "subject": "instance/web-1",
		"time": "2026-12-01T11:00:00.123456Z", "datacontenttype": "application/json",
	})
	want(t, "sequence", e.Extensions()["sequence"], any("00000000000000000002"))
	want(t, "data", e.Data(), got.body)
	want(t, "id as sent", got.Header.Get("Ce-Id"), "0195-%C3%A4%20%22%25")
	want(t, "user agent", got.Header.Get("User-Agent"), "windsock/1.2.3")
	for _, unwanted := range []string{"Idempotency-Key", "Webhook-Signature", "Accept-Encoding"} {
		if v, ok := got.Header[unwanted]; ok {
			t.Errorf("%s: %q was sent", unwanted, v)
		}
	}
}

func TestCeText(t *testing.T) {
	// The example of the CloudEvents HTTP binding, section 3.1.3.2.
	want(t, "Euro € 😀", ceText("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80")
	plain := "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"
	want(t, "what is printable", ceText(plain), plain)
	want(t, "what is not", ceText("\x00\n\x7f\"%"), "%00%0A%7F%22%25")
}

func TestSignature(t *testing.T) {
	key := bytes.Repeat([]byte{7, 9}, 16)
	secret := windsock.Secret("whsec_" + base64.StdEncoding.EncodeToString(key))
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), secret)
		type try struct{ id, timestamp, body string }
		var tries []try
		n.at("a", func(req *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(req.Body)
			id, timestamp := req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp")
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(id + "." + timestamp + "." + string(body)))
			want(t, "signature", req.Header.Get("Webhook-Signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			want(t, "timestamp", timestamp, strconv.FormatInt(time.Now().Unix(), 10))
			tries = append(tries, try{id, timestamp, string(body)})
			return respond(500, "")(req)
		})
		first := start(t, l, n)
		event := change("web", windsock.Failed)
		event.ID = "evt_1"
		event.Metadata = map[string]string{"b": "1", "a": "2", "c": "3", "e": "4", "d": "5"}
		l.append(event)
		pass(30 * time.Second)
		first.stop()
		start(t, l, n)
		pass(time.Hour)
		if len(tries) < 5 {
			t.Fatalf("only %d tries", len(tries))
		}
		for _, other := range tries[1:] {
			want(t, "id", other.id, "evt_1")
			want(t, "body of another try", other.body, tries[0].body)
			if other.timestamp == tries[0].timestamp {
				t.Error("the timestamp is not that of the try")
			}
		}
	})
}

func TestASecretThatIsNoneSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "whsec_not base64")
		p := start(t, l, n)
		l.append(change("web", windsock.Failed))
		synctest.Wait()
		want(t, "tries", n.tried("a"), nil)
		want(t, "error", p.delivery(t, "m").LastError, "its secret is not whsec_ and base64")
		if strings.Contains(p.logged.String(), "not base64\"") || strings.Contains(p.logged.String(), "whsec_not") {
			t.Errorf("the log shows it: %s", p.logged)
		}
	})
}
