package windsock

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// long is a text of n bytes.
func long(n int) string { return strings.Repeat("x", n) }

// notText is what no database and no terminal should have to bear.
var notText = []string{"a\x00b", "\xff", "a\xc3", "\x1b[31m", "\x7f", "\u0085", "\b", "\xed\xa0\x80"}

// refuses checks that what complete says of a spec names the field, and that what a
// stranger sent is shown to him again in short.
func refuses(t *testing.T, err error, want string) {
	t.Helper()
	if got := field(err); got != want {
		t.Errorf("got %v, want an error that names %s", err, want)
	} else if len(err.Error()) > 400 || !utf8.ValidString(err.Error()) {
		t.Errorf("the error is no short text: %d bytes", len(err.Error()))
	}
}

func TestDeploymentDefaults(t *testing.T) {
	got := DeploymentSpec{ID: "shop"}
	if err := got.Complete(); err != nil {
		t.Fatal(err)
	}
	want := DeploymentSpec{ID: "shop", Provider: "static", Expected: Running, Rule: "all", Quorum: 1, Flap: "on"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestInstanceDefaults(t *testing.T) {
	got := InstanceSpec{ID: "web-1", DeploymentID: "shop", Probe: &Probe{Type: ProbeTCP, Target: "web-1:80"}}
	if err := got.Complete(); err != nil {
		t.Fatal(err)
	}
	want := InstanceSpec{ID: "web-1", DeploymentID: "shop", Expected: Running, Probe: &Probe{
		Type: ProbeTCP, Target: "web-1:80", Interval: Duration(10 * time.Second), Timeout: Duration(5 * time.Second), Fails: 2, Passes: 2,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", got, got.Probe, want, want.Probe)
	}
}

func TestMonitorDefaults(t *testing.T) {
	got := MonitorSpec{Address: "10.0.0.1", Port: 8080}
	if err := got.Complete(); err != nil {
		t.Fatal(err)
	}
	want := MonitorSpec{Version: "1", Scheme: "http", Address: "10.0.0.1", Port: 8080, Scope: Global, Subjects: Both, Parallel: 16, Format: Seed, Backlog: Every}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDeploymentSpec(t *testing.T) {
	for name, change := range map[string]func(*DeploymentSpec){
		"stopped by its owner":      func(d *DeploymentSpec) { d.Expected = Stopped },
		"gone by its owner":         func(d *DeploymentSpec) { d.Expected = Gone },
		"any of them is enough":     func(d *DeploymentSpec) { d.Rule = "any" },
		"one of them is enough":     func(d *DeploymentSpec) { d.Rule = "min:1" },
		"three of them are enough":  func(d *DeploymentSpec) { d.Rule = "min:3" },
		"a quorum of a hundred":     func(d *DeploymentSpec) { d.Quorum = 100 },
		"one that may flap":         func(d *DeploymentSpec) { d.Flap = "off" },
		"one in maintenance":        func(d *DeploymentSpec) { d.MaintenanceUntil = time.Date(2026, 12, 1, 0, 0, 0, 1, time.Local) },
		"the longest name":          func(d *DeploymentSpec) { d.Name = long(255) },
		"a name in any language":    func(d *DeploymentSpec) { d.Name = "Магазин ☂ 店" },
		"a provider's own id":       func(d *DeploymentSpec) { d.ProviderID = "arn:aws:x/y?z#1 ä" },
		"the most metadata":         func(d *DeploymentSpec) { d.Metadata = metadata(64, 4096) },
		"an empty metadata value":   func(d *DeploymentSpec) { d.Metadata = map[string]string{"owner": ""} },
		"the longest metadata key":  func(d *DeploymentSpec) { d.Metadata = map[string]string{long(255): "x"} },
		"metadata of several lines": func(d *DeploymentSpec) { d.Metadata = map[string]string{"note": "one\n\ttwo\r\n"} },
	} {
		t.Run(name, func(t *testing.T) {
			d := DeploymentSpec{ID: "shop"}
			change(&d)
			if err := d.Complete(); err != nil {
				t.Error(err)
			}
		})
	}
	for name, c := range map[string]struct {
		change func(*DeploymentSpec)
		field  string
	}{
		"no id":                     {func(d *DeploymentSpec) { d.ID = "" }, "id"},
		"an id that needs escapes":  {func(d *DeploymentSpec) { d.ID = "a/b" }, "id"},
		"a long name":               {func(d *DeploymentSpec) { d.Name = long(256) }, "name"},
		"a long provider":           {func(d *DeploymentSpec) { d.Provider = long(256) }, "provider"},
		"a long provider id":        {func(d *DeploymentSpec) { d.ProviderID = long(256) }, "provider_id"},
		"a long pool":               {func(d *DeploymentSpec) { d.Pool = long(256) }, "pool"},
		"expected to be what it is": {func(d *DeploymentSpec) { d.Expected = Failed }, "expected_state"},
		"expected to start":         {func(d *DeploymentSpec) { d.Expected = Starting }, "expected_state"},
		"expected in capitals":      {func(d *DeploymentSpec) { d.Expected = "RUNNING" }, "expected_state"},
		"expected at great length":  {func(d *DeploymentSpec) { d.Expected = State(long(5000)) }, "expected_state"},
		"half a flap":               {func(d *DeploymentSpec) { d.Flap = "maybe" }, "flap"},
		"maintenance for ever":      {func(d *DeploymentSpec) { d.MaintenanceUntil = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "maintenance_until"},
		"a negative quorum":         {func(d *DeploymentSpec) { d.Quorum = -1 }, "quorum"},
		"a quorum nobody reaches":   {func(d *DeploymentSpec) { d.Quorum = 101 }, "quorum"},
		"one metadata too many":     {func(d *DeploymentSpec) { d.Metadata = metadata(65, 1) }, "metadata"},
		"metadata without a key":    {func(d *DeploymentSpec) { d.Metadata = map[string]string{"": "x"} }, "metadata"},
		"metadata with a long key":  {func(d *DeploymentSpec) { d.Metadata = map[string]string{long(256): "x"} }, "metadata"},
		"metadata with a bad key":   {func(d *DeploymentSpec) { d.Metadata = map[string]string{"a\x00": "x"} }, "metadata"},
		"a long metadata value":     {func(d *DeploymentSpec) { d.Metadata = map[string]string{"note": long(4097)} }, "metadata.note"},
		"a bad metadata value":      {func(d *DeploymentSpec) { d.Metadata = map[string]string{"note": "\xff"} }, "metadata.note"},
	} {
		t.Run(name, func(t *testing.T) {
			d := DeploymentSpec{ID: "shop"}
			c.change(&d)
			refuses(t, d.Complete(), c.field)
		})
	}
	for _, rule := range []Rule{"ANY", "most", "min", "min:", "min:0", "min:-1", "min:x", "min:1.5", "min: 1", "min:1 ", "3", "any:1", "min:min:1", "min:99999999999999999999", Rule(long(5000))} {
		d := DeploymentSpec{ID: "shop", Rule: rule}
		refuses(t, d.Complete(), "rule")
	}
	for _, text := range notText {
		for name, change := range map[string]func(*DeploymentSpec){
			"id":          func(d *DeploymentSpec) { d.ID = text },
			"name":        func(d *DeploymentSpec) { d.Name = text },
			"provider":    func(d *DeploymentSpec) { d.Provider = text },
			"provider_id": func(d *DeploymentSpec) { d.ProviderID = text },
			"pool":        func(d *DeploymentSpec) { d.Pool = text },
		} {
			d := DeploymentSpec{ID: "shop"}
			change(&d)
			refuses(t, d.Complete(), name)
		}
	}
}

// metadata are n entries with values of so many bytes.
func metadata(n, bytes int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint("key", i)] = long(bytes)
	}
	return m
}

func TestInstanceSpec(t *testing.T) {
	for name, change := range map[string]func(*InstanceSpec){
		"no more than it takes": func(*InstanceSpec) {},
		"all there is": func(i *InstanceSpec) {
			i.Name, i.Assembly, i.ProviderID, i.Address = "Web 1", "web", "i-0ab", "2001:db8::1"
			i.Expected, i.Metadata = Gone, metadata(2, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := InstanceSpec{ID: "web-1", DeploymentID: "shop"}
			change(&i)
			if err := i.Complete(); err != nil {
				t.Error(err)
			}
		})
	}
	for name, c := range map[string]struct {
		change func(*InstanceSpec)
		field  string
	}{
		"no id":                {func(i *InstanceSpec) { i.ID = "" }, "id"},
		"no deployment":        {func(i *InstanceSpec) { i.DeploymentID = "" }, "deployment_id"},
		"a bad deployment":     {func(i *InstanceSpec) { i.DeploymentID = "a b" }, "deployment_id"},
		"a long name":          {func(i *InstanceSpec) { i.Name = long(256) }, "name"},
		"a long assembly":      {func(i *InstanceSpec) { i.Assembly = long(256) }, "assembly"},
		"a long provider id":   {func(i *InstanceSpec) { i.ProviderID = long(256) }, "provider_id"},
		"a long address":       {func(i *InstanceSpec) { i.Address = long(256) }, "address"},
		"an address with NUL":  {func(i *InstanceSpec) { i.Address = "10.0.0.1\x00" }, "address"},
		"expected to fail":     {func(i *InstanceSpec) { i.Expected = Failed }, "expected_state"},
		"too much metadata":    {func(i *InstanceSpec) { i.Metadata = metadata(65, 1) }, "metadata"},
		"a probe of no type":   {func(i *InstanceSpec) { i.Probe = &Probe{} }, "probe.type"},
		"a probe of no target": {func(i *InstanceSpec) { i.Probe = &Probe{Type: ProbeTCP} }, "probe.target"},
	} {
		t.Run(name, func(t *testing.T) {
			i := InstanceSpec{ID: "web-1", DeploymentID: "shop"}
			c.change(&i)
			refuses(t, i.Complete(), c.field)
		})
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []string{"a", "7", "web-1", "Web_1.example.com", "0f9e2c4a-8f4e-4a57-9d0c-0d1a6a1f7c11", "a~b:c@d+e", long(255)} {
		if err := ValidID("id", id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", " ", "a b", "-a", ".a", "..", ".", "_a", "a/b", "a?b", "a#b", "a%2Fb", `a\b`, "a\n", "a\tb", "ä", "店", "a\u200bb", "＊", "a*", "a'b", `a"b`, "a;b", "a$b", "<a>", long(256), long(100_000)} {
		refuses(t, ValidID("deployment_id", id), "deployment_id")
	}
	for _, id := range []string{"a", "arn:aws:x/y?z", "ä ö", long(255)} {
		if err := LookupID("id", id); err != nil {
			t.Errorf("a provider's %q: %v", id, err)
		}
	}
	for _, id := range append([]string{"", long(256)}, notText...) {
		refuses(t, LookupID("id", id), "id")
	}
}

func TestProbe(t *testing.T) {
	sec := func(s float64) Duration { return Duration(s * float64(time.Second)) }
	for name, p := range map[string]Probe{
		"http":                       {Type: ProbeHTTP, Target: "http://web-1/health"},
		"https, a port, a query":     {Type: ProbeHTTP, Target: "https://web-1:8443/health?deep=1"},
		"http at an IPv6 address":    {Type: ProbeHTTP, Target: "http://[2001:db8::1]:8080/"},
		"http in capitals":           {Type: ProbeHTTP, Target: "HTTP://WEB-1/"},
		"http that wants a redirect": {Type: ProbeHTTP, Target: "http://web-1/", Status: 302},
		"tcp":                        {Type: ProbeTCP, Target: "web-1:22"},
		"tcp at an IPv6 address":     {Type: ProbeTCP, Target: "[::1]:65535"},
		"exec":                       {Type: ProbeExec, Command: []string{"/usr/lib/nagios/plugins/check_disk", "-w", "10%", ""}},
		"exec of several lines":      {Type: ProbeExec, Command: []string{"/bin/sh", "-c", "true\n"}},
		"exec with many arguments":   {Type: ProbeExec, Command: append([]string{"/bin/true"}, make([]string, 99)...)},
		"as often as it may":         {Type: ProbeTCP, Target: "a:1", Interval: sec(0.1)},
		"as seldom as it may":        {Type: ProbeTCP, Target: "a:1", Interval: sec(86400)},
		"as short as it may":         {Type: ProbeTCP, Target: "a:1", Timeout: sec(0.001)},
		"up to the next look":        {Type: ProbeTCP, Target: "a:1", Interval: sec(7), Timeout: sec(7)},
		"as patient as it may":       {Type: ProbeTCP, Target: "a:1", Fails: 100, Passes: 100},
		"not patient at all":         {Type: ProbeTCP, Target: "a:1", Fails: 1, Passes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.Complete(); err != nil {
				t.Fatal(err)
			}
			if p.Timeout > p.Interval || p.Timeout <= 0 || p.Fails < 1 || p.Passes < 1 {
				t.Errorf("incomplete: %+v", p)
			}
		})
	}
	for name, c := range map[string]struct {
		probe Probe
		field string
	}{
		"no type":                {Probe{Target: "a:1"}, "probe.type"},
		"a type that is none":    {Probe{Type: "icmp", Target: "a"}, "probe.type"},
		"a long type":            {Probe{Type: ProbeType(long(5000))}, "probe.type"},
		"http without a target":  {Probe{Type: ProbeHTTP}, "probe.target"},
		"http without a scheme":  {Probe{Type: ProbeHTTP, Target: "web-1/health"}, "probe.target"},
		"http of another scheme": {Probe{Type: ProbeHTTP, Target: "file:///etc/passwd"}, "probe.target"},
		"http without a host":    {Probe{Type: ProbeHTTP, Target: "http:///health"}, "probe.target"},
		"http with a port alone": {Probe{Type: ProbeHTTP, Target: "http://:80/"}, "probe.target"},
		"http with a password":   {Probe{Type: ProbeHTTP, Target: "http://me:hunter2@web-1/"}, "probe.target"},
		"http with a name":       {Probe{Type: ProbeHTTP, Target: "http://me@web-1/"}, "probe.target"},
		"http with a bad escape": {Probe{Type: ProbeHTTP, Target: "http://web-1/%zz"}, "probe.target"},
		"http with a bad port":   {Probe{Type: ProbeHTTP, Target: "http://web-1:http/"}, "probe.target"},
		"http with NUL":          {Probe{Type: ProbeHTTP, Target: "http://web-1/\x00"}, "probe.target"},
		"http that is not UTF-8": {Probe{Type: ProbeHTTP, Target: "http://web-1/\xff"}, "probe.target"},
		"http at great length":   {Probe{Type: ProbeHTTP, Target: "http://web-1/" + long(5000)}, "probe.target"},
		"http with a command":    {Probe{Type: ProbeHTTP, Target: "http://web-1/", Command: []string{"/bin/true"}}, "probe.command"},
		"http status too low":    {Probe{Type: ProbeHTTP, Target: "http://web-1/", Status: 99}, "probe.status"},
		"http status too high":   {Probe{Type: ProbeHTTP, Target: "http://web-1/", Status: 600}, "probe.status"},
		"http status below zero": {Probe{Type: ProbeHTTP, Target: "http://web-1/", Status: -1}, "probe.status"},
		"tcp without a target":   {Probe{Type: ProbeTCP}, "probe.target"},
		"tcp without a port":     {Probe{Type: ProbeTCP, Target: "web-1"}, "probe.target"},
		"tcp without a host":     {Probe{Type: ProbeTCP, Target: ":22"}, "probe.target"},
		"tcp with port 0":        {Probe{Type: ProbeTCP, Target: "web-1:0"}, "probe.target"},
		"tcp with a high port":   {Probe{Type: ProbeTCP, Target: "web-1:65536"}, "probe.target"},
		"tcp with a named port":  {Probe{Type: ProbeTCP, Target: "web-1:ssh"}, "probe.target"},
		"tcp with a bare IPv6":   {Probe{Type: ProbeTCP, Target: "::1:22"}, "probe.target"},
		"tcp with NUL":           {Probe{Type: ProbeTCP, Target: "a\x00:22"}, "probe.target"},
		"tcp with a status":      {Probe{Type: ProbeTCP, Target: "web-1:22", Status: 200}, "probe.status"},
		"tcp at great length":    {Probe{Type: ProbeTCP, Target: long(5000) + ":22"}, "probe.target"},
		"exec without a command": {Probe{Type: ProbeExec}, "probe.command"},
		"exec by a name":         {Probe{Type: ProbeExec, Command: []string{"check_disk"}}, "probe.command"},
		"exec by a relative one": {Probe{Type: ProbeExec, Command: []string{"./check_disk"}}, "probe.command"},
		"exec of nothing":        {Probe{Type: ProbeExec, Command: []string{""}}, "probe.command"},
		"exec with NUL":          {Probe{Type: ProbeExec, Command: []string{"/bin/true", "a\x00b"}}, "probe.command"},
		"exec with a long word":  {Probe{Type: ProbeExec, Command: []string{"/bin/true", long(4097)}}, "probe.command"},
		"exec with 101 words":    {Probe{Type: ProbeExec, Command: append([]string{"/bin/true"}, make([]string, 100)...)}, "probe.command"},
		"exec with a target":     {Probe{Type: ProbeExec, Command: []string{"/bin/true"}, Target: "a:1"}, "probe.target"},
		"too often":              {Probe{Type: ProbeTCP, Target: "a:1", Interval: sec(0.099)}, "probe.interval"},
		"too seldom":             {Probe{Type: ProbeTCP, Target: "a:1", Interval: sec(86401)}, "probe.interval"},
		"back in time":           {Probe{Type: ProbeTCP, Target: "a:1", Interval: sec(-1)}, "probe.interval"},
		"too short":              {Probe{Type: ProbeTCP, Target: "a:1", Timeout: sec(0.0009)}, "probe.timeout"},
		"timeout back in time":   {Probe{Type: ProbeTCP, Target: "a:1", Timeout: sec(-1)}, "probe.timeout"},
		"past the next look":     {Probe{Type: ProbeTCP, Target: "a:1", Interval: sec(1), Timeout: sec(1.1)}, "probe.timeout"},
		"fails below zero":       {Probe{Type: ProbeTCP, Target: "a:1", Fails: -1}, "probe.fails"},
		"too many fails":         {Probe{Type: ProbeTCP, Target: "a:1", Fails: 101}, "probe.fails"},
		"passes below zero":      {Probe{Type: ProbeTCP, Target: "a:1", Passes: -1}, "probe.passes"},
		"too many passes":        {Probe{Type: ProbeTCP, Target: "a:1", Passes: 101}, "probe.passes"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.probe.Complete()
			refuses(t, err, c.field)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestHTTPProbeAtAPortThereIsNot(t *testing.T) {
	for _, target := range []string{"http://web-1:0/", "http://web-1:65536/", "http://web-1:99999999999/"} {
		p := Probe{Type: ProbeHTTP, Target: target}
		refuses(t, p.Complete(), "probe.target")
	}
}

func TestMonitorAddresses(t *testing.T) {
	complete := func(address string) error {
		m := MonitorSpec{Address: address, Port: 80}
		return m.Complete()
	}
	for _, address := range []string{
		"10.0.0.1", "0.0.0.0", "255.255.255.255", "127.0.0.1",
		"::1", "::", "fe80::1", "2001:db8::1", "2001:DB8:0:0:0:0:0:1", "::ffff:10.0.0.1",
		"localhost", "monitor", "monitor.example.com", "monitor.example.com.", "MONITOR.Example.COM", "a.b", "x",
		"3com.example", "1.2.3.example", "10.0.0.300.example", "my_host.example", "_srv._tcp.example", "xn--bcher-kva.example", "a-b.c-d", "m1", "n2n",
		long(63) + ".example", strings.Repeat("abcdefg.", 31) + "abcde",
	} {
		if err := complete(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{
		"", " ", "10.0.0.300", "10.0.0.256", "1.2.3", "1", "1.2.3.4.5", "10.0.0.1.", "10.0.0.01", "010.0.0.1", " 10.0.0.1", "10.0.0.1 ", "10.0.0.1\n",
		"0x7f.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001", "127.1", "10.0.0.0x1", "-1", "+1",
		"①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1", "127.0.0.1\u200b", "bücher.example", "店.example",
		"fe80::1%eth0", "fe80::1%25eth0", "fe80::1%", "[::1]", "::1]", "[::1", ":::1", "1::2::3", "12345::", "::g", "::1/64", "10.0.0.0/8",
		"http://monitor", "//monitor", "monitor/path", "monitor:80", "10.0.0.1:80", "[::1]:80", "me@monitor", "monitor?x", "monitor#x", `monitor\x`, "moni tor", "monitor\tx",
		".", "..", ".monitor", "monitor..", "a..b", "-monitor", "monitor-", "a.-b", "a-.b", "a.b-", "monitor_", "a.b_c", "*", "*.example",
		"a\x00b", "\x00", "\xff", "a\x1b", "\x7f", long(64), "a." + long(64), long(64) + ".example", strings.Repeat("abcdefg.", 31) + "abcdefg", long(100_000),
	} {
		err := complete(address)
		if err == nil {
			t.Errorf("%.60q is taken", address)
			continue
		}
		refuses(t, err, "address")
	}
}

func TestLettersThatAreLatinOnlyInLowerCase(t *testing.T) {
	for _, address := range []string{"\u212aafka.example", "\u0130nternal"} {
		m := MonitorSpec{Address: address, Port: 80}
		refuses(t, m.Complete(), "address")
	}
}

func TestMonitorSpec(t *testing.T) {
	for name, change := range map[string]func(*MonitorSpec){
		"the lowest port":   func(m *MonitorSpec) { m.Port = 1 },
		"the highest port":  func(m *MonitorSpec) { m.Port = 65535 },
		"by https":          func(m *MonitorSpec) { m.Scheme = "https" },
		"version 1":         func(m *MonitorSpec) { m.Version = "1" },
		"a scope":           func(m *MonitorSpec) { m.Scope = "pool:east" },
		"batches":           func(m *MonitorSpec) { m.Format = Batch },
		"deployments only":  func(m *MonitorSpec) { m.Subjects = OnlyDeployments },
		"instances only":    func(m *MonitorSpec) { m.Subjects = OnlyInstances },
		"both":              func(m *MonitorSpec) { m.Subjects = Both },
		"all there is":      func(m *MonitorSpec) { m.Detections = Detections{"all"} },
		"failures only":     func(m *MonitorSpec) { m.Detections = Detections{FailDetected} },
		"a name":            func(m *MonitorSpec) { m.Name = "Pager, Süd" },
		"its own reports":   func(m *MonitorSpec) { m.Echo = true },
		"the longest path":  func(m *MonitorSpec) { m.Path = "/" + long(1023) },
		"the longest name":  func(m *MonitorSpec) { m.Name = long(255) },
		"an escape in path": func(m *MonitorSpec) { m.Path = "/a%20b" },
	} {
		t.Run(name, func(t *testing.T) {
			m := MonitorSpec{Address: "monitor", Port: 80}
			change(&m)
			before := m
			if err := m.Complete(); err != nil {
				t.Fatal(err)
			}
			again := m
			if err := again.Complete(); err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("what is complete became %+v, %v; it was %+v", again, err, m)
			}
			if m.Port != before.Port || m.Path != before.Path || m.Name != before.Name {
				t.Errorf("got %+v of %+v", m, before)
			}
		})
	}
	for name, c := range map[string]struct {
		change func(*MonitorSpec)
		field  string
	}{
		"no address":             {func(m *MonitorSpec) { m.Address = "" }, "address"},
		"no port":                {func(m *MonitorSpec) { m.Port = 0 }, "port"},
		"too many at once":       {func(m *MonitorSpec) { m.Parallel = 65 }, "parallel"},
		"a format that is none":  {func(m *MonitorSpec) { m.Format = "batches" }, "format"},
		"less than none at once": {func(m *MonitorSpec) { m.Parallel = -1 }, "parallel"},
		"another backlog":        {func(m *MonitorSpec) { m.Backlog = "newest" }, "backlog"},
		"a negative port":        {func(m *MonitorSpec) { m.Port = -80 }, "port"},
		"a port too high":        {func(m *MonitorSpec) { m.Port = 65536 }, "port"},
		"another scheme":         {func(m *MonitorSpec) { m.Scheme = "ftp" }, "scheme"},
		"a scheme in capitals":   {func(m *MonitorSpec) { m.Scheme = "HTTP" }, "scheme"},
		"a long scheme":          {func(m *MonitorSpec) { m.Scheme = long(5000) }, "scheme"},
		"version 2":              {func(m *MonitorSpec) { m.Version = "2" }, "version"},
		"version 1.0":            {func(m *MonitorSpec) { m.Version = "1.0" }, "version"},
		"a long version":         {func(m *MonitorSpec) { m.Version = long(5000) }, "version"},
		"a scope that is none":   {func(m *MonitorSpec) { m.Scope = "east" }, "scope"},
		"subjects that are none": {func(m *MonitorSpec) { m.Subjects = "deployment" }, "subjects"},
		"a long word":            {func(m *MonitorSpec) { m.Detections = Detections{Word(long(5000))} }, "detections"},
		"a word that is none":    {func(m *MonitorSpec) { m.Detections = Detections{FailDetected, "BOOM"} }, "detections"},
		"a long name":            {func(m *MonitorSpec) { m.Name = long(256) }, "name"},
		"a long path":            {func(m *MonitorSpec) { m.Path = "/" + long(1024) }, "path"},
	} {
		t.Run(name, func(t *testing.T) {
			m := MonitorSpec{Address: "monitor", Port: 80}
			c.change(&m)
			refuses(t, m.Complete(), c.field)
		})
	}
	for _, text := range notText {
		m := MonitorSpec{Address: "monitor", Port: 80, Name: text}
		refuses(t, m.Complete(), "name")
	}
	m := MonitorSpec{Address: "monitor", Port: 80, Version: "2"}
	if err := m.Complete(); err == nil || !strings.Contains(err.Error(), `"1"`) {
		t.Errorf("%v does not name the version that is supported", err)
	}
}

func TestMonitorPaths(t *testing.T) {
	for path, want := range map[string]string{
		"":             "",
		"/":            "",
		"/hooks":       "/hooks",
		"/hooks/":      "/hooks",
		"/hooks///":    "/hooks",
		"/a/b.c":       "/a/b.c",
		"/a/...":       "/a/...",
		"/.well-known": "/.well-known",
		"/a:b/@c":      "/a:b/@c",
		"/%C3%A4":      "/%C3%A4",
	} {
		m := MonitorSpec{Address: "monitor", Port: 80, Path: path}
		if err := m.Complete(); err != nil || m.Path != want {
			t.Errorf("%q: got %q, %v; want %q", path, m.Path, err, want)
		}
	}
	for _, path := range append([]string{"hooks", "//evil.example", "///", "http://evil.example/", "/a?b", "/a#b", "?", "#", " /a", "/a b", `\\evil`, `/a\b`, "/..", "/.", "/a/../b", "/a/./b", "/a/..",
		"/%2e%2e/b", "/a/%2E", "/%zz", "/a\nb", "/a\x00", "/\xff", "/a\u0085", "/a\r\nX: y", "*"}, notText...) {
		m := MonitorSpec{Address: "monitor", Port: 80, Path: path}
		if err := m.Complete(); field(err) != "path" {
			t.Errorf("%q: got %v, want an error that names the path", path, err)
		}
	}
}

func TestParseWord(t *testing.T) {
	for _, w := range Words {
		if got, err := ParseWord("state", string(w)); got != w || err != nil {
			t.Errorf("%q: got %q, %v", w, got, err)
		}
	}
	for _, s := range []string{"", "FAIL", "fail detected", "FAIL  DETECTED", "FAIL DETECTED\n", "all", "failed", "\x00", "\xff", long(100_000)} {
		w, err := ParseWord("state", s)
		if w != "" || field(err) != "state" {
			t.Errorf("%.40q: got %q, %v", s, w, err)
			continue
		}
		for _, want := range Words {
			if !strings.Contains(err.Error(), string(want)) {
				t.Errorf("%.40q: %v does not name %q", s, err, want)
			}
		}
		if len(err.Error()) > 400 {
			t.Errorf("the error echoes %d bytes", len(err.Error()))
		}
	}
}

func TestSources(t *testing.T) {
	for _, s := range []string{"nagios", "pacemaker/node1", "probes", "probe-1", "my monitor", "süd", "provider1", "rolluped", long(255)} {
		if err := CheckSource(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range append([]string{"", "probe", "probe:http", "provider", "provider:east", "monitor", "monitor:m1", "rollup", "rollup:", MonitorSource(""), long(256), "probe:" + long(5000)}, notText...) {
		refuses(t, CheckSource(s), "source")
	}
}

func TestReasons(t *testing.T) {
	for _, s := range []string{"", "down", "several\nlines", long(100_000)} {
		if err := CheckReason(s); err != nil {
			t.Errorf("%.20q: %v", s, err)
		}
	}
	for _, s := range notText {
		refuses(t, CheckReason(s), "reason")
	}
	for s, want := range map[string]string{
		"":                       "",
		"down":                   "down",
		long(4096):               long(4096),
		long(4097):               long(4093) + "…",
		long(4092) + "ää":        long(4092) + "ää", // 4096 bytes
		long(4092) + "äää":       long(4092) + "…",  // the cut falls into the first ä
		strings.Repeat("ä", 9e3): strings.Repeat("ä", 2046) + "…",
	} {
		if got := CutReason(s); got != want {
			t.Errorf("%d bytes: got %d, want %d", len(s), len(got), len(want))
		}
	}
}

func TestCutReasonIsTextThatFits(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		s := strings.Repeat(pick(r, "x", "ä", "店", "🌬", "\r\n"), 900+r.IntN(900)) + strings.Repeat(pick(r, "", "y", "ß", "風"), r.IntN(4000))
		got := CutReason(s)
		if len(got) > 4096 || !utf8.ValidString(got) || CutReason(got) != got {
			return fmt.Errorf("%d bytes were cut to %d", len(s), len(got))
		}
		if !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) || (len(s) <= 4096 && got != s) || (len(s) > 4096 && len(got) < 4090) {
			return fmt.Errorf("%d bytes became another text, of %d", len(s), len(got))
		}
		return nil
	})
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		`"90s"`:     90 * time.Second,
		`"1m30s"`:   90 * time.Second,
		`"90"`:      90 * time.Second,
		`90`:        90 * time.Second,
		`1.5`:       1500 * time.Millisecond,
		`"0.25"`:    250 * time.Millisecond,
		`1e3`:       1000 * time.Second,
		`0`:         0,
		`"0"`:       0,
		`"0s"`:      0,
		`"250ms"`:   250 * time.Millisecond,
		`31622400`:  366 * 24 * time.Hour,
		`"8784h"`:   366 * 24 * time.Hour,
		`"2h45m"`:   165 * time.Minute,
		` 7 `:       7 * time.Second,
		`"1.5h"`:    90 * time.Minute,
		`"0.0001s"`: 100 * time.Microsecond,
	} {
		got := Duration(1)
		if err := json.Unmarshal([]byte(in), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, time.Duration(got), err, want)
		}
	}
	for _, in := range []string{`""`, `"x"`, `"90 s"`, `" 90"`, `"5 minutes"`, `"NaN"`, `"Inf"`, `"-Inf"`, `-1`, `"-1"`, `31622401`, `1e300`, `true`, `{}`, `[]`, `[90]`, `{"seconds":90}`, `"90s\u0000"`, `"` + long(5000) + `"`} {
		got := Duration(7)
		err := json.Unmarshal([]byte(in), &got)
		var f *FieldError
		if !errors.As(err, &f) || got != 7 {
			t.Errorf("%.40s: got %s, %v", in, time.Duration(got), err)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.40s: the error echoes %d bytes", in, len(err.Error()))
		}
	}
}

func TestDurationOfMoreThanAYearOrLessThanNothing(t *testing.T) {
	for _, in := range []string{"-1s", "-5m", "8785h", "2562047h"} {
		var d Duration
		if err := d.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q is %s", in, time.Duration(d))
		}
	}
}

func TestDurationComesBackAsItWas(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		d := Duration(r.Int64N(int64(MaxTTL)))
		d -= d % pick[Duration](r, 1, 1e3, 1e6, 1e9, 60e9)
		data, err := json.Marshal(Probe{Interval: d})
		if err != nil {
			return err
		}
		var back Probe
		if err := json.Unmarshal(data, &back); err != nil || back.Interval != d {
			return fmt.Errorf("%s became %s and then %s, %v", time.Duration(d), data, time.Duration(back.Interval), err)
		}
		return nil
	})
}

// What was declared is shown as it was completed, and can be declared again as shown.
func TestSpecsComeBackAsTheyWere(t *testing.T) {
	deployment := DeploymentSpec{ID: "shop", Name: "Shop", Provider: "east", ProviderID: "stack/1", Pool: "p1", Expected: Stopped, Rule: "min:2", Quorum: 3, Metadata: metadata(3, 9)}
	instance := InstanceSpec{ID: "web-1", DeploymentID: "shop", Name: "Web", Assembly: "web", ProviderID: "i-1", Address: "10.0.0.1", Metadata: metadata(1, 1),
		Probe: &Probe{Type: ProbeHTTP, Target: "http://10.0.0.1/", Status: 204, Interval: Duration(90 * time.Second), Fails: 3}}
	exec := InstanceSpec{ID: "db-1", DeploymentID: "shop", Probe: &Probe{Type: ProbeExec, Command: []string{"/bin/true", "-v"}}}
	monitor := MonitorSpec{Name: "Pager", Address: "2001:db8::1", Port: 443, Scheme: "https", Path: "/hooks", Scope: "deployment:shop",
		Detections: Detections{FailDetected}, Subjects: OnlyInstances, Echo: true}

	comesBack(t, &deployment, (*DeploymentSpec).Complete)
	comesBack(t, &instance, (*InstanceSpec).Complete)
	comesBack(t, &exec, (*InstanceSpec).Complete)
	comesBack(t, &monitor, (*MonitorSpec).Complete)
}

func comesBack[T any](t *testing.T, spec *T, complete func(*T) error) {
	t.Helper()
	if err := complete(spec); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	back := new(T)
	if err := json.Unmarshal(data, back); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if err := complete(back); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if !reflect.DeepEqual(back, spec) {
		t.Errorf("%s became\n%+v, it was\n%+v", data, back, spec)
	}
}

// Whatever a stranger declares, the answer is a completed spec or the field at fault.
func TestAnythingIsTakenOrRefusedByItsField(t *testing.T) {
	strange := []string{"", "shop", "a b", "\x00", "\xff", "10.0.0.300", "::1", "/x", "//x", "/a/..", "min:0", "pool:", long(256), long(5000), "①", "%", "http://[", "a:b:c"}
	fields := slices.Sorted(maps.Keys(jsonNames(reflect.TypeFor[DeploymentSpec](), reflect.TypeFor[InstanceSpec](), reflect.TypeFor[MonitorSpec](), reflect.TypeFor[Probe]())))
	eachSeed(t, func(r *rand.Rand) error {
		text := func() string { return pick(r, strange...) }
		d := DeploymentSpec{ID: pick(r, "shop", text()), Name: text(), Pool: text(), Rule: Rule(text()), Expected: State(text()), Quorum: r.IntN(5) - 1, Metadata: map[string]string{"k" + text(): text()}}
		i := InstanceSpec{ID: pick(r, "web", text()), DeploymentID: pick(r, "shop", text()), Address: text(), Probe: &Probe{Type: pick(r, ProbeHTTP, ProbeTCP, ProbeExec), Target: text(), Command: []string{"/x" + text(), text()}}}
		m := MonitorSpec{Address: text(), Port: r.IntN(99999) - 9999, Path: text(), Scope: Scope(text()), Name: text(), Detections: Detections{Word(text())}}
		for _, err := range []error{d.Complete(), i.Complete(), m.Complete()} {
			if err == nil {
				continue
			}
			name := strings.TrimPrefix(field(err), "probe.")
			if name, _, _ = strings.Cut(name, "."); !slices.Contains(fields, name) {
				return fmt.Errorf("%v names %q, which is no field of %q", err, name, fields)
			}
		}
		return nil
	})
}

// jsonNames are the names of the fields of these structs in JSON.
func jsonNames(types ...reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, typ := range types {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			names[name] = true
		}
	}
	return names
}
