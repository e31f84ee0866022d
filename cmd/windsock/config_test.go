package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

// writeConfig returns the path of a file that holds text.
func writeConfig(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "windsock.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigIsRead(t *testing.T) {
	got, err := LoadConfig(writeConfig(t, `
listen: 127.0.0.1:8000
db: /data/windsock.db
log: {level: debug, format: json}
plugins: [/usr/lib/nagios/plugins]
deployments:
  - id: shop
    quorum: 2
    metadata: {owner: "web team"}
    instances:
      - id: web-1
        probe: &http {type: http, target: "http://10.0.0.1/", interval: 1m, timeout: 2, fails: 0x3}
      - id: web-2
        deployment_id: shop
        probe:
          <<: *http
          target: http://10.0.0.2/
          passes: 1
  - id: empty
    rule: any
    instances:
`))
	if err != nil {
		t.Fatal(err)
	}
	probe := func(target string, passes int) *windsock.Probe {
		return &windsock.Probe{Type: windsock.ProbeHTTP, Target: target, Interval: windsock.Duration(time.Minute),
			Timeout: windsock.Duration(2 * time.Second), Fails: 3, Passes: passes}
	}
	want := Config{
		Listen:  "127.0.0.1:8000",
		DB:      "/data/windsock.db",
		Log:     LogConfig{Level: "debug", Format: "json"},
		Plugins: []string{"/usr/lib/nagios/plugins"},
		Deployments: []windsock.DeploymentSpec{
			{ID: "shop", Provider: "static", Expected: windsock.Running, Rule: "all", Quorum: 2, Flap: "on", Metadata: map[string]string{"owner": "web team"}},
			{ID: "empty", Provider: "static", Expected: windsock.Running, Rule: "any", Quorum: 1, Flap: "on"},
		},
		Instances: []windsock.InstanceSpec{
			{ID: "web-1", DeploymentID: "shop", Expected: windsock.Running, Probe: probe("http://10.0.0.1/", 2)},
			{ID: "web-2", DeploymentID: "shop", Expected: windsock.Running, Probe: probe("http://10.0.0.2/", 1)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestConfigMayBeEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "---\n", "{}", "deployments:\n", "deployments: []\nlog:\n"} {
		if _, err := LoadConfig(writeConfig(t, text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestConfigErrorsSayWhere has for each bad file the line, the field and a part of the
// reason that the error names.
func TestConfigErrorsSayWhere(t *testing.T) {
	deployment := "deployments:\n- id: shop\n" // two lines; what follows is on the third
	instance := deployment + "  instances:\n  - id: web\n"
	for name, c := range map[string]struct {
		text string
		want string // after the file name
	}{
		"unknown field":            {"listen: :80\nlisted: yes\n", "2: listed: there is no such field"},
		"unknown field of a log":   {"log:\n  level: info\n  colour: red\n", "3: log.colour: there is no such field"},
		"field in other case":      {deployment + "  Quorum: 2\n", "3: deployments[0].Quorum: there is no such field"},
		"unknown field of a probe": {instance + "    probe:\n      type: tcp\n      host: x\n", "7: deployments[0].instances[0].probe.host: there is no such field"},
		"number for text":          {"db: 5\n", "1: db: want text, got 5"},
		"text for number":          {deployment + "  quorum: many\n", `3: deployments[0].quorum: want a whole number, got "many"`},
		"quoted number":            {deployment + "  quorum: '2'\n", `3: deployments[0].quorum: want a whole number, got "2"`},
		"large number":             {deployment + "  quorum: 10000000000000000000000\n", `3: deployments[0].quorum: want a whole number, got 10000000000000000000000`},
		"part of a number":         {deployment + "  quorum: 1.5\n", "3: deployments[0].quorum: want a whole number, got 1.5"},
		"list for mapping":         {"log: [info]\n", "1: log: want a mapping, got a list"},
		"mapping for list":         {"deployments:\n  shop: {}\n", "1: deployments: want a list, got a mapping"},
		"text for the whole":       {"windsock\n", `1: want a mapping, got "windsock"`},
		"list for metadata":        {deployment + "  metadata: [a]\n", "3: deployments[0].metadata: want a mapping, got a list"},
		"version in metadata":      {deployment + "  metadata:\n    v: 1.2\n", "4: deployments[0].metadata.v: want text, got 1.2"},
		"bad address":              {"db: x\nlisten: here\n", `2: listen: want host:port, got "here"`},
		"bad port":                 {"listen: 127.0.0.1:70000\n", "1: listen: want host:port"},
		"bad log level":            {"log:\n  level: loud\n", `2: log.level: want debug, info, warn or error; got "loud"`},
		"bad log format":           {"log:\n  format: xml\n", `2: log.format: want text or json; got "xml"`},
		"bad profile":              {"db: x\ntargets:\n  profile: lax\n", `3: targets.profile: want internal or strict; got "lax"`},
		"bad rule of a target":     {"targets:\n  deny:\n  - 10.0.0.0/8\n  - 10.0.0.1\n", `4: targets.deny[1]: want a CIDR such as 10.0.0.0/8 or fd00::/8, or CIDR:port; got "10.0.0.1"`},
		"number as a target":       {"targets: {allow: [10]}\n", "1: targets.allow[0]: want text, got 10"},
		"no id":                    {"deployments:\n- name: shop\n", "2: deployments[0].id: is required"},
		"nothing as id":            {"deployments:\n- name: shop\n  id:\n", "3: deployments[0].id: is required"},
		"nothing as deployment":    {"deployments:\n- id: a\n-\n", "3: deployments[1].id: is required"},
		"bad id":                   {"deployments:\n- id: a/b\n", "2: deployments[0].id: want a letter or digit"},
		"bad state":                {deployment + "  expected_state: up\n", `3: deployments[0].expected_state: want running, stopped or gone; got "up"`},
		"bad rule":                 {deployment + "  rule: most\n", "3: deployments[0].rule: want all, any or min:k"},
		"dots in a metadata key":   {deployment + "  metadata:\n    a: b\n    c.d.e: \"\\a\"\n", "5: deployments[0].metadata.c.d.e: holds a control character"},
		"bad duration":             {instance + "    probe: {type: tcp, target: 'a:1',\n      interval: soon}\n", "6: deployments[0].instances[0].probe.interval: want seconds or a duration"},
		"interval too short":       {instance + "    probe:\n      type: tcp\n      target: a:1\n      interval: 1ms\n", "8: deployments[0].instances[0].probe.interval: want 100ms to 24h, got 1ms"},
		"missing target":           {instance + "    probe:\n      type: tcp\n", "5: deployments[0].instances[0].probe.target: want host:port"},
		"merged target":            {instance + "    probe: &p {type: tcp, target: a:1}\n  - id: w2\n    probe:\n      <<: *p\n      fails: 0\n      passes: 101\n", "10: deployments[0].instances[1].probe.passes: want 1 to 100"},
		"value behind an alias":    {instance + "    name: &n\n      [x]\n  - id: w2\n    name: *n\n", "5: deployments[0].instances[0].name: want text, got a list"},
		"other deployment":         {instance + "    deployment_id: bakery\n", `5: deployments[0].instances[0].deployment_id: it stands below "shop"; leave this out`},
		"deployment twice":         {deployment + "- id: bank\n- id: shop\n", `4: deployments[2].id: deployment "shop" is declared on line 2 already`},
		"instance twice":           {instance + "- id: bank\n  instances:\n  - name: x\n    id: web\n", `8: deployments[1].instances[0].id: instance "web" is declared on line 4 already`},
		"key twice":                {"db: a\nlisten: :80\ndb: b\n", "3: db stands on line 1 already"},
		"a key that is a list":     {"db: a\n? [b]\n: c\n", "2: want a plain word as key"},
		"infinity":                 {deployment + "  quorum: .inf\n", "3: .inf is no value here"},
		"an odd tag":               {"db: !secret x\n", "1: the tag !secret means nothing here"},
		"merging a word":           {"db: a\n<<: b\n", "2: want a mapping to merge"},
		"two documents":            {"db: a\n---\ndb: b\n", "2: a second document begins; want one"},
		"unclosed list":            {"db: a\nplugins: [a,\nlisten: b", "did not find expected ',' or ']' (while parsing a flow sequence, from line 2)"},
		"tab as indent":            {"log:\n\tlevel: info\n", "2: found character that cannot start any token"},
		"unknown anchor":           {"db: *nope\n", "1: unknown anchor 'nope' referenced"},
		"not UTF-8":                {"db: a\nlisten: \xff\n", "2: not UTF-8 text"},
		"NUL byte":                 {"db: a\n\nlisten: \x00\n", "3: not UTF-8 text"},
		"alias within itself":      {"plugins: &p\n- a\n- *p\n", "an alias within what it stands for"},
		"merged within itself":     {"log: &l\n  level: info\n  <<: *l\n", "an alias within what it stands for"},
		"deep nesting":             {"plugins: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "1: nested deeper than"},
		"deeper nesting":           {"plugins: " + strings.Repeat("[", 50_000), "1: exceeded max depth"},
		"bomb of aliases":          {bomb("[%s]"), "too large, with all aliases followed"},
		"bomb of long text":        {"db: &t " + strings.Repeat("x", 1<<20) + "\nplugins: [" + strings.Repeat("*t,", 100) + "]", "too large, with all aliases followed"},
		"bomb of merges":           {bomb("{<<: [%s]}"), "too large, with all aliases followed"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeConfig(t, c.text)
			_, err := LoadConfig(path)
			if err == nil {
				t.Fatal("it was taken")
			}
			got, ok := strings.CutPrefix(err.Error(), path+":")
			if !ok || !strings.Contains(got, c.want) {
				t.Errorf("got  %v\nwant %s:%s…", err, path, c.want)
			}
			if strings.Count(got, "\n") > 0 {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

// bomb is a file of 15 short lines that stands for 9^14 values. The form says what a
// line makes of the one before.
func bomb(form string) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: y}\n")
	for i := range 14 {
		nine := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", ")
		fmt.Fprintf(&b, "a%d: &a%d "+form+"\n", i+1, i+1, nine)
	}
	return b.String()
}

func TestConfigTooLarge(t *testing.T) {
	path := writeConfig(t, "# "+strings.Repeat("x", maxConfig))
	if _, err := LoadConfig(path); err == nil || err.Error() != path+": larger than 16 MiB" {
		t.Errorf("a file of more than 16 MiB: %v", err)
	}
}

// FuzzConfig checks that whatever stands in a file, either it is taken, and then all
// of it is good, or the error names file and line, in one line.
func FuzzConfig(f *testing.F) {
	f.Add("deployments:\n- id: shop\n  instances:\n  - id: web\n    probe: &p {type: tcp, target: 'a:1'}\n  - id: w2\n    probe: {<<: *p, fails: 3}\n")
	f.Add("log: {level: debug}\nplugins: [a, *b]\n")
	f.Add("a: &a [*a]\n? {}\n: !!binary x\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig("windsock.yaml", []byte(text))
		if err != nil {
			where, ok := strings.CutPrefix(err.Error(), "windsock.yaml:")
			if !ok || where[0] < '1' || where[0] > '9' || strings.Contains(where, "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		for _, spec := range c.Instances {
			if err := spec.Complete(); err != nil {
				t.Errorf("taken, but %v: %+v", err, spec)
			}
		}
		for _, spec := range c.Deployments {
			if err := spec.Complete(); err != nil {
				t.Errorf("taken, but %v: %+v", err, spec)
			}
		}
	})
}
