package monitors

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/prometheus/common/model"

	"windsock"
)

// told returns what a monitor with a format is sent of events, one after the other.
func told(t *testing.T, f windsock.Format, events ...windsock.Event) (types []string, bodies []map[string]any) {
	t.Helper()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	l := newLog()
	m := spec(r.URL)
	m.Format, m.Path, m.Detections = f, "/hook/T0", windsock.Detections{"all"}
	l.add("m", m, newSecret)
	start(t, l, nil, ours)
	for i, e := range events {
		l.append(e)
		got := r.await(t, i+1)[i]
		want(t, "path", got.URL.Path, "/hook/T0")
		if !verifies(t, newSecret, got.Header, got.body) {
			t.Error("it does not verify")
		}
		var body map[string]any
		if err := json.Unmarshal(got.body, &body); err != nil {
			t.Fatalf("%v: %s", err, got.body)
		}
		types, bodies = append(types, got.Header.Get("Content-Type")), append(bodies, body)
	}
	return types, bodies
}

// failure is that of web-1, and recovery its end four minutes later.
func failureAndRecovery() (failure, recovery windsock.Event) {
	failure = sample()
	failure.Pool, failure.Provider = "east", "nova"
	recovery = failure
	recovery.Word, recovery.State, recovery.Previous = windsock.StartDetected, windsock.Running, windsock.Failed
	recovery.Reason, recovery.PreviousSince, recovery.Time = "200 OK", failure.Time, failure.Time.Add(4*time.Minute)
	return failure, recovery
}

func TestAsAlertmanagerWouldTell(t *testing.T) {
	failure, recovery := failureAndRecovery()
	types, got := told(t, windsock.Alertmanager, failure, recovery)
	want(t, "content type", types[0], "application/json")
	labels := map[string]any{"alertname": "InstanceFailed", "deployment": "shop", "instance": "web-1", "pool": "east", "provider": "nova"}
	notes := map[string]any{
		"summary": "instance web-1 of shop is failed, was running: connection refused <again>",
		"type":    "instance.state", "seq": "2", "description": "connection refused <again>", "source": "probe:http", "detection": "FAIL DETECTED",
		"observed_state": "failed", "previous_state": "running", "expected_state": "running", "metadata_owner": "ä", "metadata_app": "shop",
	}
	group := map[string]any{"alertname": "InstanceFailed", "instance": "web-1"}
	print := model.LabelSet{"alertname": "InstanceFailed", "deployment": "shop", "instance": "web-1", "pool": "east", "provider": "nova"}.Fingerprint().String()
	want(t, "the failure", got[0], map[string]any{
		"version": "4", "groupKey": `{}:{alertname="InstanceFailed", instance="web-1"}`, "truncatedAlerts": 0.0, "status": "firing", "receiver": "m",
		"groupLabels": group, "commonLabels": labels, "commonAnnotations": notes, "externalURL": "",
		"alerts": []any{map[string]any{
			"status": "firing", "labels": labels, "annotations": notes, "generatorURL": "", "fingerprint": print,
			"startsAt": "2026-12-01T11:00:00.123456Z", "endsAt": "0001-01-01T00:00:00Z",
		}},
	})
	a := got[1]["alerts"].([]any)[0].(map[string]any)
	want(t, "the recovery", []any{got[1]["status"], a["status"], a["fingerprint"], a["startsAt"], a["endsAt"], a["annotations"].(map[string]any)["summary"]},
		[]any{"resolved", "resolved", print, "2026-12-01T11:00:00.123456Z", "2026-12-01T11:04:00.123456Z", "instance web-1 of shop is running, was failed for 4m0s: 200 OK"})
}

// The fingerprint is that which a real Alertmanager, 0.25, had for these labels.
func TestFingerprint(t *testing.T) {
	got := model.LabelSet{
		"alertname": "InstanceDown", "deployment": "d1", "exported_instance": "db", "instance": "127.0.0.1:18080",
		"job": "windsock", "severity": "critical", "site": "lab",
	}.Fingerprint().String()
	want(t, "fingerprint", got, "65f76cc9a8b5050a")
}

// Whatever happens has an alert that fires while something is wrong.
func TestWhatFires(t *testing.T) {
	component := func(s windsock.ComponentState) windsock.Event {
		return windsock.Event{Type: windsock.ComponentChanged, Kind: windsock.KindComponent, SubjectID: "shop/db", DeploymentID: "shop",
			EventData: windsock.EventData{Component: &windsock.ComponentChange{Name: "db", State: s}}}
	}
	gap := windsock.Event{Type: windsock.LogGap, Kind: windsock.KindLog, SubjectID: "m", EventData: windsock.EventData{Scope: windsock.Global, Lost: 7}}
	lost := windsock.Event{Type: windsock.ProviderLost, Kind: windsock.KindProvider, SubjectID: "nova", Provider: "nova"}
	back := lost
	back.Type = windsock.ProviderBack
	degraded := windsock.Event{Type: windsock.DeploymentState, Kind: windsock.KindDeployment, SubjectID: "shop", DeploymentID: "shop", State: windsock.Degraded}
	stopped := change("web-1", windsock.Stopped)
	for _, tc := range []struct {
		event         windsock.Event
		status, alert string
	}{
		{component(windsock.ComponentFailed), "firing", "ComponentFailed"},
		{component(windsock.ComponentTimedOut), "firing", "ComponentFailed"},
		{component(windsock.ComponentComplete), "resolved", "ComponentFailed"},
		{gap, "firing", "EventsLost"},
		{lost, "firing", "ProviderLost"},
		{back, "resolved", "ProviderLost"},
		{degraded, "firing", "DeploymentFailed"},
		{stopped, "resolved", "InstanceFailed"},
	} {
		got := alertsOf(&windsock.Target{}, &notice{Event: tc.event})
		want(t, string(tc.event.Type)+" "+string(tc.event.State), []string{got.Status, string(got.CommonLabels["alertname"])}, []string{tc.status, tc.alert})
		if err := got.CommonLabels.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// A receiver that somebody else wrote reads the structured mode.
func TestACloudEventsReceiverReadsTheStructuredMode(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	m := spec(r.URL)
	m.Format = windsock.CloudEvents
	l.add("m", m, "")
	p := start(t, l, nil, ours)
	l.append(sample())
	got := r.await(t, 1)[0]
	want(t, "path", got.URL.Path, "/")
	msg := cehttp.NewMessageFromHttpRequest(got.Request)
	if enc := msg.ReadEncoding(); enc != cloudevents.EncodingStructured {
		t.Fatalf("it is read as encoding %v", enc)
	}
	e, err := cloudevents.ToEvent(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	want(t, "attributes", []string{e.ID(), e.Type(), e.Source(), e.Subject(), e.DataContentType(), e.Time().Format(time.RFC3339Nano)},
		[]string{"0195-ä \"%", "windsock.instance.state", "/windsock", "instance/web-1", "application/json", "2026-12-01T11:00:00.123456Z"})
	want(t, "sequence", e.Extensions()["sequence"], any("00000000000000000002"))
	n := notice{Event: sample()}
	n.Seq = 2
	n.encode()
	want(t, "data", string(e.Data()), string(n.body))
	for _, binary := range []string{"Ce-Id", "Ce-Type"} {
		if v, ok := got.Header[binary]; ok {
			t.Errorf("%s: %q was sent", binary, v)
		}
	}
	if pong, err := p.Ping(t.Context(), "m"); err != nil || !pong.Taken || pong.URL != r.URL {
		t.Errorf("ping: %+v, %v", pong, err)
	}
	e, err = cloudevents.ToEvent(t.Context(), cehttp.NewMessageFromHttpRequest(r.await(t, 2)[1].Request))
	if err != nil || e.Validate() != nil || e.Type() != "windsock.monitor.ping" {
		t.Errorf("the ping is read as %v, %v", e, err)
	}
}

func TestInAChat(t *testing.T) {
	failure, recovery := failureAndRecovery()
	hostile := failure
	hostile.Reason = "<!channel> & <http://x|y>"
	crowd := windsock.Event{Type: windsock.DeploymentState, Kind: windsock.KindDeployment, SubjectID: "shop", DeploymentID: "shop", Word: windsock.FailDetected,
		State: windsock.Degraded, Previous: windsock.Running, Source: windsock.RollupSource, Reason: "7 of 9 instances are down",
		EventData: windsock.EventData{Instances: strings.Split("a b c d e f g", " ")}}
	paused := windsock.Event{Type: windsock.MonitorPaused, Kind: windsock.KindMonitor, SubjectID: "n", Reason: "it failed for a day"}
	types, got := told(t, windsock.Slack, failure, recovery, hostile, crowd, paused)
	want(t, "content type", types[0], "application/json")
	lines := []string{
		":red_circle: *FAIL DETECTED* instance web-1 of shop is failed, was running: connection refused &lt;again&gt; (probe:http)",
		":large_green_circle: *START DETECTED* instance web-1 of shop is running, was failed for 4m0s: 200 OK (probe:http)",
		":red_circle: *FAIL DETECTED* instance web-1 of shop is failed, was running: &lt;!channel&gt; &amp; &lt;http://x|y&gt; (probe:http)",
		":red_circle: *FAIL DETECTED* deployment shop is degraded, was running: 7 of 9 instances are down; failing: a, b, c, d, e and 2 more",
		":warning: *monitor.paused* monitor n: it failed for a day",
	}
	for i, line := range lines {
		want(t, "line", got[i], map[string]any{"text": line})
	}
}

// A ping of who reads alerts holds none, so that nobody is got out of bed.
func TestPingOfOtherFormats(t *testing.T) {
	for f, is := range map[windsock.Format]func(body map[string]any) bool{
		windsock.Alertmanager: func(b map[string]any) bool {
			alerts, ok := b["alerts"].([]any)
			return ok && len(alerts) == 0 && b["version"] == "4" && b["status"] == "resolved"
		},
		windsock.Slack: func(b map[string]any) bool { return strings.Contains(b["text"].(string), "ping") },
	} {
		r := newReceiver(t, nil)
		l := newLog()
		m := spec(r.URL)
		m.Format, m.Path = f, "/services/T0"
		l.add("m", m, newSecret)
		pong, err := ready(t, l).Ping(t.Context(), "m")
		if err != nil || !pong.Taken || pong.URL != r.URL+"/services/T0" {
			t.Errorf("%s: %+v, %v", f, pong, err)
		}
		got := r.await(t, 1)[0]
		var body map[string]any
		if err := json.Unmarshal(got.body, &body); err != nil || !is(body) || !verifies(t, newSecret, got.Header, got.body) {
			t.Errorf("%s is sent %s, %v", f, got.body, err)
		}
	}
}
