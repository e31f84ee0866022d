package reports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

var noon = time.Date(2026, time.June, 21, 12, 0, 0, 0, time.UTC)

// known are the rules for those who do not change them.
var known = sync.OnceValue(Builtin)

func read(t *testing.T, rule, body string) windsock.Report {
	t.Helper()
	report, err := known().Read(rule, []byte(body), noon)
	if err != nil {
		t.Fatalf("%s: %s: %v", rule, body, err)
	}
	return report
}

// told writes what was read: the word, of what, by whom, why; or why nothing.
func told(report windsock.Report) (list []string) {
	for _, r := range report.Readings {
		if r.Ignored != "" {
			list = append(list, "- "+r.Ignored)
			continue
		}
		word, _, _ := strings.Cut(string(r.Word()), " ")
		line := fmt.Sprintf("%s %s %s by %s", word, r.Named[0].Kind, r.Named[0].Value, r.Said.Source)
		if r.Said.Requested {
			line += ", asked for"
		}
		if r.Said.Lifts {
			line += ", lifts"
		}
		list = append(list, line+": "+r.Said.Reason)
	}
	return list
}

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func lines(t *testing.T, name string) (list []string) {
	t.Helper()
	for s := bufio.NewScanner(strings.NewReader(file(t, name))); s.Scan(); {
		list = append(list, s.Text())
	}
	return list
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got)\n%s", what, d)
	}
}

// The body that a real Alertmanager 0.25 sent.
func TestAlertmanager(t *testing.T) {
	body := file(t, "alertmanager.json")
	report := read(t, "alertmanager", body)
	expect(t, "told", told(report), []string{
		"START instance db by alertmanager:65f76cc9a8b5050a: InstanceDown: db of d1 is down",
		"FAIL instance web by alertmanager:4bda3b37e31e7e50: InstanceDown: web of d1 is down",
	})
	fires := report.Readings[1].Said
	if want := time.Date(2026, 11, 30, 4, 21, 11, 684e6, time.UTC); !fires.Since.Equal(want) || fires.TTL != 5*time.Hour || !fires.ObservedAt.IsZero() {
		t.Errorf("it fires since %v, for %v", fires.Since, fires.TTL)
	}
	if ended := report.Readings[0].Said; ended.TTL != 0 || !ended.Since.Equal(time.Date(2026, 11, 30, 4, 21, 21, 684e6, time.UTC)) {
		t.Errorf("it ended at %v, for %v", ended.Since, ended.TTL)
	}
	edit := func(old, new string) windsock.Report {
		t.Helper()
		if !strings.Contains(body, old) {
			t.Fatalf("there is no %s", old)
		}
		return read(t, "alertmanager", strings.Replace(body, old, new, -1))
	}
	expect(t, "of less severity", told(edit("critical", "warning")), []string{"- its severity is below critical", "- its severity is below critical"})
	if got := edit(`"truncatedAlerts":0`, `"truncatedAlerts":3`).Omitted; got != 3 {
		t.Errorf("%d were left out, it says 3", got)
	}
	if ttl := edit("0001-01-01T00:00:00Z", "2026-06-21T12:10:00Z").Readings[1].Said.TTL; ttl != 10*time.Minute {
		t.Errorf("it ends in %v", ttl)
	}
	named := edit(`"exported_instance"`, `"other"`).Readings[1].Named
	if got := []string{string(named[3].By), named[3].Value, named[4].Value}; !slices.Equal(got, []string{"address", "127.0.0.1:18080", "127.0.0.1"}) {
		t.Errorf("by its address: %v", got)
	}
	whole := strings.NewReplacer(`"exported_instance"`, `"other"`, `"instance":"127.0.0.1:18080",`, "").Replace(body)
	expect(t, "of a deployment", told(read(t, "alertmanager", whole))[1], "FAIL deployment d1 by alertmanager:4bda3b37e31e7e50: InstanceDown: web of d1 is down")
}

// What a real Pacemaker 2.1 told of a resource that was started, failed, was stopped and
// started again.
func TestPacemakerAlerts(t *testing.T) {
	var got []string
	for _, alert := range lines(t, "pacemaker.ndjson") {
		got = append(got, told(read(t, "pacemaker", alert))...)
	}
	cancelled := "- it was cancelled, or cannot be done now"
	ran := "START instance web by pacemaker: monitor on node1: ok"
	started := "START instance web by pacemaker: start on node1: ok"
	stopped := "STOP instance web by pacemaker, asked for: stop on node1: ok"
	expect(t, "told", got, []string{
		started, ran, "FAIL instance web by pacemaker: monitor on node1: not running", cancelled, stopped, started, ran,
		cancelled, stopped, started, ran,
		"FAIL instance web by pacemaker: asyncmon on node1: error", cancelled, stopped, started, ran,
		cancelled, ran, ran,
	})
	first := read(t, "pacemaker", lines(t, "pacemaker.ndjson")[0]).Readings[0].Said.ObservedAt
	if want := time.Unix(1796014539, 147958000); !first.Equal(want) {
		t.Errorf("the first was at %v, want %v", first, want)
	}
}

func TestPacemakerMapping(t *testing.T) {
	resource := func(task, status, rc, target string) string {
		return fmt.Sprintf(`{"CRM_alert_kind":"resource","CRM_alert_rsc":"web","CRM_alert_node":"n1","CRM_alert_task":%q,"CRM_alert_status":%q,"CRM_alert_rc":%q,"CRM_alert_target_rc":%q}`, task, status, rc, target)
	}
	node := func(kind, desc, more string) string {
		return fmt.Sprintf(`{"CRM_alert_kind":%q,"CRM_alert_node":"n1","CRM_alert_desc":%q%s}`, kind, desc, more)
	}
	for body, want := range map[string]string{
		resource("promote", "0", "0", "0"):                                            "START",
		resource("monitor", "0", "8", "8"):                                            "START",
		resource("monitor", "0", "7", "7"):                                            "-",
		resource("monitor", "0", "9", "8"):                                            "FAIL",
		resource("monitor", "2", "1", "0"):                                            "FAIL",
		resource("monitor", "0", "190", "0"):                                          "-",
		resource("start", "0", "1", "0"):                                              "FAIL",
		resource("start", "9", "0", "0"):                                              "-",
		resource("stop", "4", "1", "0"):                                               "FAIL",
		resource("demote", "0", "0", "0"):                                             "-",
		resource("notify", "0", "1", "0"):                                             "-",
		resource("migrate_from", "0", "0", "0"):                                       "START",
		node("node", "lost", ""):                                                      "FAIL",
		node("node", "member", ""):                                                    "START",
		node("node", "lost", `,"CRM_alert_quorum":"0"`):                               "-",
		node("node", "lost", `,"CRM_alert_quorum":"1"`):                               "FAIL",
		node("fencing", "done", `,"CRM_alert_task":"reboot","CRM_alert_rc":"0"`):      "STOP",
		node("fencing", "no route", `,"CRM_alert_task":"reboot","CRM_alert_rc":"-1"`): "-",
		node("attribute", "", `,"CRM_alert_attribute_name":"x"`):                      "-",
		`{"items":[{"resource":"web","role":"Started","failed":"false"}]}`:            "START",
		`{"items":[{"resource":"web","role":"Started","failed":"true"}]}`:             "FAIL",
		`{"items":[{"resource":"web","role":"Stopped","target_role":"Stopped"}]}`:     "STOP",
		`{"items":[{"resource":"web","role":"Stopped"}]}`:                             "STOP",
		`{"items":[{"resource":"web","role":"Stopping"}]}`:                            "-",
		`{"items":[{"resource":"web","role":"Started","orphaned":"true"}]}`:           "-",
		`{"items":[{"node":"n1","online":"true","unclean":"false"}]}`:                 "START",
		`{"items":[{"node":"n1","online":"true","unclean":"true"}]}`:                  "-",
		`{"items":[{"node":"n1","online":"false","unclean":"true"}]}`:                 "FAIL",
		`{"with_quorum":"false","items":[{"node":"n1","online":"false"}]}`:            "-",
	} {
		if got := told(read(t, "pacemaker", body)); len(got) != 1 || !strings.HasPrefix(got[0], want+" ") {
			t.Errorf("%s: %v, want %s", body, got, want)
		}
	}
	lost := read(t, "pacemaker", node("node", "lost", "")).Readings[0].Named
	if last := lost[len(lost)-1]; last.By != windsock.ByMetadata("host") || last.Value != "n1" {
		t.Errorf("a lost node names %+v", lost)
	}
}

// What the API server of a real Kubernetes 1.37 told of a pod.
func TestKubernetesPods(t *testing.T) {
	var got []string
	for _, event := range lines(t, "kubernetes.ndjson") {
		got = append(got, told(read(t, "kubernetes", event))...)
	}
	expect(t, "told", got, []string{"- it is pending", "START instance p1 by kubernetes: ", "- it is being deleted", "STOP instance p1 by kubernetes, asked for: deleted"})
}

func TestKubernetesConditions(t *testing.T) {
	of := func(kind, condition, status string) string {
		return fmt.Sprintf(`{"kind":%q,"metadata":{"name":"x","uid":"u"},"status":{"phase":"Running","conditions":[{"type":"Other","status":"True"},
			{"type":%q,"status":%q,"reason":"Because","lastTransitionTime":"2026-06-21T11:00:00Z"}]}}`, kind, condition, status)
	}
	for body, want := range map[string]string{
		of("Pod", "Ready", "False"):                                       "FAIL instance x by kubernetes: Because",
		of("Pod", "Ready", "Unknown"):                                     `- "Unknown" says nothing`,
		of("Pod", "Initialized", "True"):                                  "- it has nothing that tells the word",
		of("Node", "Ready", "True"):                                       "START instance x by kubernetes:node, lifts: ",
		of("Node", "Ready", "False"):                                      "FAIL instance x by kubernetes:node: node x: Because",
		of("Node", "Ready", "Unknown"):                                    "- no case of the rule is for it",
		of("Deployment", "Available", "False"):                            "FAIL deployment x by kubernetes: Because",
		of("ConfigMap", "Ready", "True"):                                  "- no case of the rule is for it",
		`{"kind":"PodList","items":[` + of("Pod", "Ready", "True") + `]}`: "START instance x by kubernetes: Because",
		`{"kind":"Pod","metadata":{"name":"x"},"status":{"phase":"Failed","reason":"Evicted"}}`: "FAIL instance x by kubernetes: Evicted",
		`{"type":"DELETED","object":` + of("Deployment", "Available", "True") + `}`:             "STOP deployment x by kubernetes, asked for: deleted",
	} {
		if got := told(read(t, "kubernetes", body)); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	if since := read(t, "kubernetes", of("Pod", "Ready", "False")).Readings[0].Said.Since; !since.Equal(noon.Add(-time.Hour)) {
		t.Errorf("since %v", since)
	}
}

func TestNagiosStates(t *testing.T) {
	for body, want := range map[string]string{
		`{"host":"web-1","service":"HTTP","state":"CRITICAL","state_type":"HARD","output":"503"}`:         "FAIL instance web-1 by nagios:HTTP: HTTP: 503",
		`{"host":"web-1","service":"","state":"DOWN"}`:                                                    "FAIL instance web-1 by nagios: ",
		`{"host":"web-1","state":"DOWN","output":"no ping"}`:                                              "FAIL instance web-1 by nagios: no ping",
		`{"host":"web-1","instance_id":"i-1","state":"UP"}`:                                               "START instance i-1 by nagios: ",
		`{"host":"web-1","service":"HTTP","state":"WARNING","state_type":"HARD"}`:                         "START instance web-1 by nagios:HTTP: HTTP",
		`{"host":"web-1","service":"HTTP","state":"CRITICAL","state_type":"SOFT"}`:                        "- the state is soft, it is looked at again",
		`{"host":"web-1","service":"HTTP","state":"UNKNOWN","state_type":"HARD"}`:                         `- "UNKNOWN" says nothing`,
		`{"host":"web-1","service":"HTTP","state":"CRITICAL","notification_type":"FLAPPINGSTART"}`:        "- that is not about its state",
		`{"host":"web-1","service":"HTTP","state":"CRITICAL","notification_type":"FLAPPINGSTOP"}`:         "FAIL instance web-1 by nagios:HTTP: HTTP",
		`{"reports":[{"host":"web-1","state":"UNREACHABLE"}]}`:                                            `- "UNREACHABLE" says nothing`,
		`{"host":"web-1","service":"HTTP","state":"CRITICAL","notification_type":"ACKNOWLEDGEMENT"}`:      "- that is not about its state",
		`{"host":"web-1","service":"HTTP","state":"CRITICAL","output":"a\u0000b","at":1796014539.147958}`: "FAIL instance web-1 by nagios:HTTP: HTTP: a\ufffdb",
	} {
		if got := told(read(t, "nagios", body)); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// A host may be a machine on which others run, and that one of its services fails says nothing
// of those.
func TestAHostOfNagiosMayBeANode(t *testing.T) {
	for body, want := range map[string]bool{
		`{"host":"kvm-1","state":"DOWN"}`:                       true,
		`{"host":"kvm-1","state":"UP"}`:                         true,
		`{"host":"kvm-1","service":"DISK","state":"CRITICAL"}`:  false,
		`{"host":"kvm-1","instance_id":"web-1","state":"DOWN"}`: false,
	} {
		node := windsock.Lookup{Kind: windsock.KindInstance, By: windsock.ByProviderID, Value: windsock.NodeID("kvm-1")}
		if named := read(t, "nagios", body).Readings[0].Named; slices.Contains(named, node) != want {
			t.Errorf("%s names %v", body, named)
		}
	}
}

func TestMasakariTypes(t *testing.T) {
	of := func(kind, payload string) string {
		return fmt.Sprintf(`{"notification":{"type":%q,"hostname":"node1","generated_time":"2026-06-21T11:00:00.000001","payload":{%s}}}`, kind, payload)
	}
	for body, want := range map[string]string{
		of("COMPUTE_HOST", `"event":"STOPPED","host_status":"NORMAL","cluster_status":"OFFLINE"`):  "FAIL instance node1 by masakari: host node1 stopped",
		of("COMPUTE_HOST", `"event":"STOPPED"`):                                                    "FAIL instance node1 by masakari: host node1 stopped",
		of("COMPUTE_HOST", `"event":"STOPPED","host_status":"UNKNOWN","cluster_status":"OFFLINE"`): "- the state of the host is unknown",
		of("COMPUTE_HOST", `"event":"STARTED","host_status":"NORMAL"`):                             "START instance node1 by masakari, lifts: host node1 is back",
		of("PROCESS", `"event":"STOPPED","process_name":"nova-compute"`):                           "FAIL instance node1 by masakari:nova-compute: process nova-compute on node1: STOPPED",
		of("VM", `"event":"LIFECYCLE","vir_domain_event":"STOPPED_FAILED","instance_uuid":"u-1"`):  "FAIL instance u-1 by masakari:vm: LIFECYCLE STOPPED_FAILED",
		of("VM", `"event":"LIFECYCLE","vir_domain_event":"NEW_WORD","instance_uuid":"u-1"`):        `- "LIFECYCLE NEW_WORD" is no word of the rule`,
	} {
		report := read(t, "masakari", body)
		if got := told(report); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		} else if at := report.Readings[0].Said.ObservedAt; got[0][0] != '-' && !at.Equal(noon.Add(-time.Hour+time.Microsecond)) {
			t.Errorf("%s: at %v", body, at)
		}
	}
}

// A report is understood, or refused as a whole with the field that is wrong.
func TestWhatIsRefused(t *testing.T) {
	alert := func(more string) string {
		return `{"version":"4","alerts":[{"status":"firing","labels":{"instance":"a"},"fingerprint":"f","startsAt":"2026-06-21T11:00:00Z"},{` + more + `}]}`
	}
	for name, c := range map[string]struct{ rule, body, field string }{
		"half a body":                {"alertmanager", alert(`"status":"fir`), "alerts.1.status"},
		"no JSON":                    {"alertmanager", `status=firing`, "body"},
		"two bodies":                 {"alertmanager", `{} {}`, "body"},
		"doubled members":            {"alertmanager", `{"version":"4","version":"5"}`, "version"},
		"no UTF-8":                   {"alertmanager", "{\"version\":\"\xff\"}", "version"},
		"another version":            {"alertmanager", strings.Replace(alert(``), `"4"`, `"5"`, 1), "version"},
		"no version":                 {"alertmanager", `{"alerts":[{"status":"firing"}]}`, "version"},
		"no alerts":                  {"alertmanager", `{"version":"4"}`, "alerts"},
		"alerts of another kind":     {"alertmanager", `{"version":"4","alerts":"all"}`, "alerts"},
		"an alert of another kind":   {"alertmanager", `{"version":"4","alerts":[1]}`, "alerts.0"},
		"one without its status":     {"alertmanager", alert(`"labels":{},"fingerprint":"f","startsAt":"2026-06-21T11:00:00Z"`), "alerts.1.status"},
		"one without a fingerprint":  {"alertmanager", alert(`"status":"firing","labels":{},"startsAt":"2026-06-21T11:00:00Z"`), "alerts.1.fingerprint"},
		"one that began at no time":  {"alertmanager", alert(`"status":"firing","labels":{"instance":"a"},"fingerprint":"f","startsAt":"noon"`), "alerts.1.startsAt"},
		"a fingerprint of 300 bytes": {"alertmanager", alert(`"status":"firing","labels":{"instance":"a"},"fingerprint":"` + strings.Repeat("f", 300) + `","startsAt":"2026-06-21T11:00:00Z"`), "alerts.1.fingerprint"},
		"no state":                   {"nagios", `{"host":"a"}`, "state"},
		"nothing":                    {"kubernetes", `null`, "items"},
		"a number":                   {"heat", `1`, "body"},
		"no type of Masakari's":      {"masakari", `{"notification":{"type":"HOST","hostname":"a","generated_time":"x","payload":{"event":"x"}}}`, "notification.type"},
		"a time that is none":        {"masakari", `{"notification":{"type":"PROCESS","hostname":"a","generated_time":"x","payload":{"event":"STOPPED"}}}`, "notification.generated_time"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := known().Read(c.rule, []byte(c.body), noon)
			var invalid *windsock.FieldError
			if !errors.As(err, &invalid) || invalid.Field != c.field || len(report.Readings) > 0 {
				t.Errorf("%s: %+v %v, want a refusal of %s", c.body, report, err, c.field)
			}
		})
	}
}

// The rules can be read as they are published, and mean the same.
func TestRulesArePublishedAsTheyAre(t *testing.T) {
	published, err := json.Marshal(Builtin())
	if err != nil {
		t.Fatal(err)
	}
	var written []json.RawMessage
	if err := json.Unmarshal(published, &written); err != nil {
		t.Fatal(err)
	}
	var rules Rules
	for i, name := range known().Names() {
		if rules, err = rules.Add(name, written[i]); err != nil {
			t.Fatalf("%s: %v", written[i], err)
		}
	}
	again, err := json.Marshal(rules)
	if err != nil || !bytes.Equal(published, again) {
		t.Errorf("%s\nis not\n%s: %v", again, published, err)
	}
	for _, alert := range lines(t, "pacemaker.ndjson") {
		report, err := rules.Read("pacemaker", []byte(alert), noon)
		expect(t, alert, told(report), told(read(t, "pacemaker", alert)))
		if err != nil {
			t.Error(err)
		}
	}
}

func TestARuleOfOnesOwn(t *testing.T) {
	rules, err := Builtin().Add("checkmate", []byte(`{"name":"checkmate","items":["/data/checks"],"cases":[
		{"of":"{/result}","words":{"red":"FAIL DETECTED","green":"START DETECTED","grey":"none"},
		 "subject":[{"metadata":{"asset":"{/tags/[key=asset~1id]/value}"}}],"source":"checkmate:{/check}","reason":"{/check} says {/result}, {/text}","ttl":"10m"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	report, err := rules.Read("checkmate", []byte(`{"data":{"checks":[{"check":7,"result":"red","tags":[{"key":"owner","value":"x"},{"key":"asset/id","value":"a-1"}]},
		{"check":8,"result":"grey"},{"check":9,"result":"green","tags":[]}]}}`), noon)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "told", told(report), []string{"FAIL instance a-1 by checkmate:7: 7 says red", `- "grey" says nothing`, "- it names nothing that could be looked up"})
	if by := report.Readings[0].Named[0].By; by != windsock.ByMetadata("asset") {
		t.Errorf("named by %s", by)
	}

	if rules, err = Builtin().Add("alertmanager", []byte(`{"name":"alertmanager","subject":[{"id":"{/labels/vm}"}]}`)); err != nil {
		t.Fatal(err)
	}
	report, err = rules.Read("alertmanager", []byte(strings.ReplaceAll(file(t, "alertmanager.json"), "exported_instance", "vm")), noon)
	if err != nil || len(report.Readings) != 2 || len(report.Readings[0].Named) != 1 || report.Readings[1].Said.TTL != 5*time.Hour {
		t.Errorf("one that changes another: %+v, %v", report, err)
	}
}

func TestRulesThatCannotBe(t *testing.T) {
	for rule, part := range map[string]string{
		`{"name":"A"}`:            "small letters",
		`{"name":"provider"}`:     "reserved",
		`{"name":"unmatched"}`:    "unmatched",
		`{"name":"x"}`:            "required",
		`{"name":"x","cases":[]}`: "required",
		`{"name":"x","cases":[{"word":"FAIL DETECTED"}]}`:                                           "required",
		`{"name":"x","cases":[{"word":"FAIL"}]}`:                                                    "want START DETECTED",
		`{"name":"x","cases":[{"of":"{/a}"}]}`:                                                      "want a word",
		`{"name":"x","cases":[{"word":"none","of":"{/a}","words":{"a":"none"}}]}`:                   "want a word",
		`{"name":"x","cases":[{"word":"none","when":{"a":["b"]}}]}`:                                 "want a path",
		`{"name":"x","cases":[{"word":"none","when":{"/a":[]}}]}`:                                   "one or more values",
		`{"name":"x","cases":[{"word":"none","when":{"/a":"b"}}]}`:                                  "list of values",
		`{"name":"x","items":["/a/[b]"],"cases":[{"word":"none"}]}`:                                 "step",
		`{"name":"x","reason":"{/a","cases":[{"word":"none"}]}`:                                     "for each {",
		`{"name":"x","subject":[{}],"cases":[{"word":"none"}]}`:                                     "one or more of id",
		`{"name":"x","subject":[{"kind":"pool","id":"{/a}"}],"cases":[{"word":"none"}]}`:            "instance or deployment",
		`{"name":"x","subject":[{"kind":"deployment","address":"{/a}"}],"cases":[{"word":"none"}]}`: "no address",
		`{"name":"x","ttl":"soon","cases":[{"word":"none"}]}`:                                       "duration",
		`{"name":"x","case":[]}`:                                                                    "case",
	} {
		if _, err := Builtin().Add("x", []byte(rule)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", rule, err, part)
		}
	}
}

func FuzzReports(f *testing.F) {
	add := func(data string) {
		for i := range known() {
			f.Add(uint8(i), data)
		}
	}
	for _, name := range []string{"alertmanager.json", "pacemaker.ndjson", "kubernetes.ndjson"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			add(line)
		}
	}
	add(`{"notification":{"type":"VM","hostname":"a","generated_time":"2026-06-21T11:00:00","payload":{"event":"LIFECYCLE","vir_domain_event":"STOPPED_FAILED","instance_uuid":"u"}}}`)
	add(`{"resource":"a","mark_unhealthy":true,"resource_status_reason":"\u0000<script>\u202e"}`)
	add(`{"host":"a","service":"b","state":"CRITICAL","at":1e300}`)
	rules := known()
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		rule := rules[int(which)%len(rules)]
		report, err := rule.Read([]byte(body), noon)
		var invalid *windsock.FieldError
		if err != nil {
			if !errors.As(err, &invalid) || invalid.Field == "" || len(report.Readings) > 0 {
				t.Errorf("%s: %v, %+v", rule.Name, err, report)
			}
			return
		}
		for _, r := range report.Readings {
			if r.Ignored != "" {
				continue
			}
			o := r.Said
			if o.State == "" || windsock.CheckSource(o.Source) != nil || windsock.CheckReason(o.Reason) != nil || o.TTL < 0 || o.TTL > windsock.MaxTTL || len(r.Named) == 0 {
				t.Errorf("%s: read as %+v", rule.Name, r)
			}
			for _, l := range r.Named {
				if windsock.LookupID("", l.Value) != nil {
					t.Errorf("%s: named %+v", rule.Name, l)
				}
			}
		}
	})
}
