package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock/reports"
)

// A reportee takes what is reported, and answers as it is told.
type reportee struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	taken  []string // path and body
	auth   string   // of the last
}

func newReportee(t *testing.T) *reportee {
	r := &reportee{status: 200}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.auth = q.Header.Get("Authorization")
		if r.status == 200 {
			r.taken = append(r.taken, q.URL.EscapedPath()+" "+string(body))
		}
		w.WriteHeader(r.status)
		io.WriteString(w, `{"result":"fail","detail":"as it was told"}`)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *reportee) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *reportee) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.taken)
}

// has checks that what was taken holds these, in order, and nothing more.
func (r *reportee) has(t *testing.T, parts ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.taken) != len(parts) {
		t.Fatalf("%d were taken, want %d: %q", len(r.taken), len(parts), r.taken)
	}
	for i := range parts {
		if !strings.Contains(r.taken[i], parts[i]) {
			t.Errorf("taken %q, want one with %q", r.taken[i], parts[i])
		}
	}
}

func TestReportsOutlastAnOutage(t *testing.T) {
	r, dir := newReportee(t), filepath.Join(t.TempDir(), "spool")
	t.Setenv("WINDSOCK_URL", r.URL)
	t.Setenv("WINDSOCK_SPOOL", dir)
	t.Setenv("WINDSOCK_TIMEOUT", "1m")
	report := func(want int, says string, args ...string) {
		t.Helper()
		status, _, stderr := command(t, append([]string{"report"}, args...)...)
		if status != want || !strings.Contains(stderr, says) || says == "" && stderr != "" {
			t.Fatalf("%v: ended with %d, said %q; want %d and %q", args, status, stderr, want, says)
		}
	}
	for _, away := range []int{503, 500, 429, 401, 403, 302} {
		r.answers(away)
		report(0, "kept, to be sent later", "detection", "instance", "web-1", "FAIL", "--reason", fmt.Sprint(away))
	}
	report(0, "kept, to be sent later: "+"dial tcp", "detection", "instance", "web-1", "START", "--url", "http://127.0.0.1:9")
	r.has(t)
	r.answers(200)
	report(0, "", "detection", "deployment", "a/b", "stop", "--asked", "--ttl", "5m")
	r.mu.Lock()
	slices.SortStableFunc(r.taken, func(a, b string) int { return strings.Compare(a[:30], b[:30]) }) // by subject
	r.mu.Unlock()
	r.has(t, `/api/monitors/deployment/a%2Fb {`, `"reason":"503"`, `"reason":"500"`, `"reason":"429"`, `"reason":"401"`, `"reason":"403"`, `"reason":"302"`, `"state":"START DETECTED"`)
	for _, text := range r.all() {
		_, body, _ := strings.Cut(text, " ")
		var said struct {
			At time.Time `json:"detected_at"`
		}
		if err := json.Unmarshal([]byte(body), &said); err != nil || said.At.IsZero() {
			t.Errorf("%s does not say when", text)
		}
	}
	report(0, "", "drain")
	r.has(t, "", "", "", "", "", "", "", "")

	r.answers(404)
	report(1, "/api/monitors/deployment/instance/web-9 is refused: as it was told", "detection", "instance", "web-9", "FAIL")
	r.answers(200)
	report(0, "", "drain")
	if all := r.all(); len(all) != 8 {
		t.Errorf("what was refused was sent again: %q", all[8:])
	}
	report(1, "not kept", "detection", "instance", "web-1", "FAIL", "--spool", "/dev/null/spool")
	report(1, "want START, FAIL or STOP", "detection", "instance", "web-1", "BROKEN")
	report(2, "--url", "drain", "--url", "nowhere")
}

func TestReportsCarryTheToken(t *testing.T) {
	r, dir := newReportee(t), t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("wst_secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.answers(403)
	status, out, stderr := command(t, "report", "detection", "instance", "a", "FAIL", "--url", r.URL, "--spool", filepath.Join(dir, "spool"), "--token-file", token)
	r.mu.Lock()
	defer r.mu.Unlock()
	if status != 0 || r.auth != "Bearer wst_secret" || strings.Contains(out+stderr, "wst_secret") {
		t.Errorf("ended with %d, sent %q, said %s%s", status, r.auth, out, stderr)
	}
}

func TestPassiveChecks(t *testing.T) {
	for line, want := range map[string]check{
		"[1796014539] PROCESS_SERVICE_CHECK_RESULT;web-1;HTTP;2;503; really|time=1s": {"web-1", "HTTP", "CRITICAL", "1796014539", "503; really"},
		"[1796014539] PROCESS_HOST_CHECK_RESULT;web-1;1;no ping":                     {"web-1", "", "DOWN", "1796014539", "no ping"},
		"web-1\tHTTP\t0\tOK":           {"web-1", "HTTP", "OK", "", "OK"},
		"web-1\t0\tPING OK":            {"web-1", "", "UP", "", "PING OK"},
		"web-1\tHTTP\t4\tOK":           {},
		"web-1\tHTTP":                  {},
		"[1] ADD_HOST_COMMENT;web-1;x": {},
		"nonsense":                     {},
	} {
		got, ok := parseCheck(line)
		if ok != (want.host != "") || ok && got != want {
			t.Errorf("%q: %+v %t, want %+v", line, got, ok, want)
		}
	}
	r := newReportee(t)
	cmd := ReportNagiosCmd{sending: sending{URL: r.URL, Spool: filepath.Join(t.TempDir(), "spool"), Timeout: patience}, Type: "HARD"}
	var stderr strings.Builder
	err := cmd.passive(t.Context(), stdio{out: io.Discard, err: &stderr}, strings.NewReader("nonsense\n\nweb-1\tHTTP\t2\t503\nweb-1\t0\tup\n"))
	if err != exit(1) || stderr.String() != "windsock: line 1 is no result of a check\n" {
		t.Errorf("ended with %v, said %s", err, stderr.String())
	}
	r.has(t, `"state":"CRITICAL"`, `"state":"UP"`)
}

// What crm_mon of a real Pacemaker shows, read by the rule.
func TestCrmMon(t *testing.T) {
	text, err := os.ReadFile("testdata/crm_mon.xml")
	if err != nil {
		t.Fatal(err)
	}
	told := func(text string) (list []string) {
		t.Helper()
		body, err := parseCrmMon([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		body["at"] = "2026-11-30T05:00:00Z"
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		report, err := reports.Builtin().Read("pacemaker", data, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Readings {
			if r.Ignored != "" {
				list = append(list, "-")
				continue
			}
			list = append(list, r.Named[0].Value+" "+string(r.Said.State))
			if r.Said.ObservedAt.IsZero() {
				t.Errorf("%+v has no time", r)
			}
		}
		return list
	}
	real := string(text)
	clone := `<clone id="c" multi_state="false"><resource id="web" role="Stopped" failed="false" orphaned="false"/><resource id="web" role="Started" failed="false" orphaned="false"/></clone></resources>`
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"as it was":        {real, "[web running node1 running]"},
		"a failed one":     {strings.Replace(real, `failed="false"`, `failed="true"`, 1), "[web failed node1 running]"},
		"a blocked one":    {strings.Replace(real, `blocked="false" managed`, `blocked="true" managed`, 1), "[web failed node1 running]"},
		"a stopped one":    {strings.Replace(real, `role="Started"`, `role="Stopped"`, 1), "[web stopped node1 running]"},
		"a lost node":      {strings.Replace(real, `online="true"`, `online="false"`, 1), "[web running node1 failed]"},
		"without quorum":   {strings.Replace(real, `with_quorum="true"`, `with_quorum="false"`, 1), "[- -]"},
		"a newer release":  {strings.Replace(real, `orphaned="false"`, `removed="true" shiny="yes"`, 1), "[- node1 running]"},
		"one of a clone":   {strings.Replace(real, `</resources>`, clone, 1), "[web running node1 running]"},
		"a failed of them": {strings.Replace(real, `</resources>`, strings.Replace(clone, `failed="false"`, `failed="true"`, 1), 1), "[web failed node1 running]"},
	} {
		if got := fmt.Sprint(told(c.text)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for _, bad := range []string{"", "<a>", real[:len(real)/2], "<pacemaker-result><status code=\"102\" message=\"Not connected\"/></pacemaker-result>", "<a/>"} {
		if body, err := parseCrmMon([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, body)
		}
	}
}

func FuzzCrmMon(f *testing.F) {
	text, err := os.ReadFile("testdata/crm_mon.xml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`<a><resources><resource id="" failed="true"/></resources><status code="0"/></a>`)
	f.Fuzz(func(t *testing.T, text string) {
		body, err := parseCrmMon([]byte(text))
		if err != nil {
			return
		}
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reports.Builtin().Read("pacemaker", data, time.Now()); err != nil {
			t.Errorf("%q is read as %s, which the rule refuses: %v", text, data, err)
		}
	})
}

func TestAlertOfTheEnvironment(t *testing.T) {
	got := alertOf([]string{"PATH=/bin", "CRM_alert_kind=node", "CRM_alert_desc=a=b", "CRM_alert_recipient=http://user:secret@host/", "CRM_alert_rsc=", "CRM_notify_kind=node"})
	if want := "map[CRM_alert_desc:a=b CRM_alert_kind:node]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// calls sends a request that has to succeed, and returns the answer.
func calls(t *testing.T, method, url, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s %s: %s %s %v", method, url, resp.Status, text, err)
	}
	return text
}

// The alerts of a real cluster, each by a process of the alert agent as Pacemaker calls it,
// and windsock at the other end.
func TestPacemakerAgent(t *testing.T) {
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "w.db"))
	_, rest, _ := strings.Cut(await(t, p.Err, "msg=ready"), "address=")
	url, _, _ := strings.Cut(rest, " ")
	calls(t, "PUT", url+"/api/deployments/cluster", `{"flap":"off"}`)
	calls(t, "PUT", url+"/api/instances/web", `{"deployment_id":"cluster"}`)
	data, err := os.ReadFile("../../reports/testdata/pacemaker.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := filepath.Abs("../../contrib/pacemaker/windsock-alert")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "windsock") // as which the test's own binary is the program
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
		var alert map[string]string
		if err := json.Unmarshal([]byte(line), &alert); err != nil {
			t.Fatal(err)
		}
		alert["CRM_alert_recipient"] = url
		called := exec.Command(agent)
		called.Env = []string{"PATH=/usr/bin:/bin", "WINDSOCK=" + program, "WINDSOCK_SPOOL=" + filepath.Join(dir, "spool"), "WINDSOCK_TIMEOUT=1m"}
		for name, value := range alert {
			called.Env = append(called.Env, name+"="+value)
		}
		if out, err := called.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v %s", line, err, out)
		}
	}
	var page struct {
		Events []struct {
			Word string `json:"detection"`
		} `json:"events"`
	}
	if err := json.Unmarshal(calls(t, "GET", url+"/api/events?instance=web", ""), &page); err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, e := range page.Events {
		if word, _, _ := strings.Cut(e.Word, " "); word != "" {
			words = append(words, word)
		}
	}
	if got := strings.Join(words, " "); got != "START FAIL STOP START STOP START FAIL STOP START" {
		t.Errorf("a monitor hears %s", got)
	}
}

func TestRulesOfTheFile(t *testing.T) {
	c, err := LoadConfig(writeConfig(t, "reports:\n  - {name: alertmanager, ttl: 15m}\n  - name: own\n    cases:\n      - {word: none}\n"))
	if err != nil || !slices.Contains(c.Reports.Names(), "own") || !slices.Contains(c.Reports.Names(), "nagios") {
		t.Errorf("%v %v", c.Reports.Names(), err)
	}
	for text, want := range map[string]string{
		"reports:\n  - {ttl: 15m}\n":                                  "windsock.yaml:2: reports[0].name: want the name of a rule",
		"reports:\n  - name: own\n    cases:\n      - {word: FAIL}\n": "windsock.yaml:3: reports[0].cases: want START DETECTED",
		"reports:\n  - name: own\n    colour: red\n":                  "windsock.yaml:3: reports[0].colour",
		"reports:\n  - name: nagios\n    source: \"{host\"\n":         "windsock.yaml:3: reports[0].source: want a }",
		"reports:\n  - name: provider\n    cases: [{word: none}]\n":   "windsock.yaml:2: reports[0].name: \"provider\" is reserved",
		"reports:\n  - name: nagios\n    require: {host: [a]}\n":      "windsock.yaml:3: reports[0].require: want a path",
	} {
		if _, err := LoadConfig(writeConfig(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
