package windsock

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The shop runs in pool p1 of provider east; web-1 is one of its instances.
var (
	webFailed  = Event{Type: InstanceState, Kind: KindInstance, SubjectID: "web-1", DeploymentID: "shop", Provider: "east", Pool: "p1", Word: FailDetected, Source: "probe:http"}
	shopFailed = Event{Type: DeploymentState, Kind: KindDeployment, SubjectID: "shop", DeploymentID: "shop", Provider: "east", Pool: "p1", Word: FailDetected, Source: RollupSource}
)

func TestScopesOf(t *testing.T) {
	for name, c := range map[string]struct {
		event Event
		want  []Scope
	}{
		"an instance is in its deployment's": {webFailed, []Scope{Global, "provider:east", "pool:p1", "deployment:shop", "instance:web-1"}},
		"a deployment is in no instance's":   {shopFailed, []Scope{Global, "provider:east", "pool:p1", "deployment:shop"}},
		"without a pool":                     {Event{Kind: KindDeployment, SubjectID: "shop", DeploymentID: "shop", Provider: "static"}, []Scope{Global, "provider:static", "deployment:shop"}},
		"a monitor is in none but the whole": {Event{Kind: KindMonitor, SubjectID: "m1"}, []Scope{Global}},
		"an id with a colon":                 {Event{Kind: KindInstance, SubjectID: "a:b", DeploymentID: "c:d"}, []Scope{Global, "deployment:c:d", "instance:a:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ScopesOf(&c.event)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, scope := range got {
				if err := scope.Validate(); err != nil {
					t.Errorf("nobody can ask for %q: %v", scope, err)
				}
			}
		})
	}
}

func TestScope(t *testing.T) {
	for _, s := range []Scope{"global", "provider:east", "pool:p1", "pool:Rack 7, süd", "deployment:shop", "instance:web-1", "instance:a:b", "pool::", Scope("pool:" + strings.Repeat("x", 255))} {
		if err := s.Validate(); err != nil {
			t.Errorf("%q is a scope, but: %v", s, err)
		}
	}
	for _, s := range []Scope{"", "Global", "global:", "global:x", "east", ":", ":east", "provider", "provider:", "pool:", "deployment:", "instance:", "Pool:p1", " pool:p1",
		"monitor:m1", "assembly:web", "pool:\x00", "pool:\xff", "pool:\x1b[2J", "pool:\u0085", Scope("pool:" + strings.Repeat("x", 256)), Scope(strings.Repeat("x", 5000))} {
		if err := s.Validate(); field(err) != "scope" {
			t.Errorf("%.50q: got %v, want an error that names the scope", s, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error echoes %d bytes", len(err.Error()))
		}
	}
}

// field is the field that err names, or "".
func field(err error) string {
	var f *FieldError
	if errors.As(err, &f) {
		return f.Field
	}
	return ""
}

func TestWants(t *testing.T) {
	all := Detections{"all"}
	wordless := func(e Event) Event { e.Word = ""; return e }
	said := func(w Word, e Event) Event { e.Word = w; return e }
	by := func(source string, e Event) Event { e.Source = source; return e }
	for name, c := range map[string]struct {
		spec  MonitorSpec
		event Event
		want  bool
	}{
		"the three words are the default: start": {MonitorSpec{}, said(StartDetected, webFailed), true},
		"the three words are the default: fail":  {MonitorSpec{}, webFailed, true},
		"the three words are the default: stop":  {MonitorSpec{}, said(StopDetected, webFailed), true},
		"no more than the words by default":      {MonitorSpec{}, wordless(webFailed), false},
		"one word, and this is it":               {MonitorSpec{Detections: Detections{FailDetected}}, webFailed, true},
		"one word, and this is another":          {MonitorSpec{Detections: Detections{StartDetected}}, webFailed, false},
		"two words":                              {MonitorSpec{Detections: Detections{StartDetected, FailDetected}}, webFailed, true},
		"words hear nothing without one":         {MonitorSpec{Detections: Detections{StartDetected, FailDetected, StopDetected}}, wordless(webFailed), false},
		"all is every word":                      {MonitorSpec{Detections: all}, webFailed, true},
		"all is what has no word, too":           {MonitorSpec{Detections: all}, wordless(webFailed), true},
		"all beside a word is all":               {MonitorSpec{Detections: Detections{StartDetected, "all"}}, wordless(webFailed), true},
		"all is a flag that changed, too":        {MonitorSpec{Detections: all}, Event{Type: InstanceFlags, Kind: KindInstance, SubjectID: "web-1"}, true},

		"both kinds: instance":               {MonitorSpec{Subjects: Both}, webFailed, true},
		"both kinds: deployment":             {MonitorSpec{Subjects: Both}, shopFailed, true},
		"deployments only: deployment":       {MonitorSpec{Subjects: OnlyDeployments}, shopFailed, true},
		"deployments only: instance":         {MonitorSpec{Subjects: OnlyDeployments}, webFailed, false},
		"instances only: instance":           {MonitorSpec{Subjects: OnlyInstances}, webFailed, true},
		"instances only: deployment":         {MonitorSpec{Subjects: OnlyInstances}, shopFailed, false},
		"deployments only, all, an instance": {MonitorSpec{Subjects: OnlyDeployments, Detections: all}, wordless(webFailed), false},

		"its own report":                 {MonitorSpec{}, by("monitor:m1", webFailed), false},
		"its own report, echoed":         {MonitorSpec{Echo: true}, by("monitor:m1", webFailed), true},
		"its own report, and all":        {MonitorSpec{Detections: all}, by("monitor:m1", webFailed), false},
		"a word it did not ask, echoed":  {MonitorSpec{Echo: true, Detections: Detections{StopDetected}}, by("monitor:m1", webFailed), false},
		"another monitor's report":       {MonitorSpec{}, by("monitor:m2", webFailed), true},
		"one whose name begins the same": {MonitorSpec{}, by("monitor:m11", webFailed), true},
		"one that calls itself m1":       {MonitorSpec{}, by("m1", webFailed), true},
		"what follows from its report":   {MonitorSpec{}, shopFailed, true},

		"what happens to monitors":           {MonitorSpec{}, Event{Type: MonitorAdded, Kind: KindMonitor, SubjectID: "m2"}, false},
		"what happens to monitors, and all":  {MonitorSpec{Detections: all}, Event{Type: MonitorAdded, Kind: KindMonitor, SubjectID: "m2"}, false},
		"what happens to monitors, echoed":   {MonitorSpec{Detections: all, Echo: true}, Event{Type: MonitorRemoved, Kind: KindMonitor, SubjectID: "m1"}, false},
		"another one's pause":                {MonitorSpec{}, Event{Type: MonitorPaused, Kind: KindMonitor, SubjectID: "m2"}, false},
		"another one's pause, and all":       {MonitorSpec{Detections: all}, Event{Type: MonitorPaused, Kind: KindMonitor, SubjectID: "m2"}, true},
		"another one's end of it, and all":   {MonitorSpec{Detections: all, Scope: Global}, Event{Type: MonitorResumed, Kind: KindMonitor, SubjectID: "m2"}, true},
		"another one's pause, in a pool":     {MonitorSpec{Detections: all, Scope: "pool:east"}, Event{Type: MonitorPaused, Kind: KindMonitor, SubjectID: "m2"}, false},
		"another one's pause, of instances":  {MonitorSpec{Detections: all, Subjects: OnlyInstances}, Event{Type: MonitorPaused, Kind: KindMonitor, SubjectID: "m2"}, false},
		"its own pause, and all":             {MonitorSpec{Detections: all, Echo: true}, Event{Type: MonitorPaused, Kind: KindMonitor, SubjectID: "m1"}, false},
		"the end of its own lease":           {MonitorSpec{Scope: "pool:east", Detections: Detections{StopDetected}}, Event{Type: MonitorExpiring, Kind: KindMonitor, SubjectID: "m1"}, true},
		"of another one's":                   {MonitorSpec{}, Event{Type: MonitorExpiring, Kind: KindMonitor, SubjectID: "m2"}, false},
		"of another one's, and all":          {MonitorSpec{Detections: all}, Event{Type: MonitorExpiring, Kind: KindMonitor, SubjectID: "m2"}, true},
		"that another one expired, and all":  {MonitorSpec{Detections: all}, Event{Type: MonitorExpired, Kind: KindMonitor, SubjectID: "m2"}, true},
		"a subject that is new in the model": {MonitorSpec{}, Event{Type: InstanceDeclared, Kind: KindInstance, SubjectID: "web-1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := Monitor{ID: "m1", MonitorSpec: c.spec}
			if got := m.Wants(&c.event); got != c.want {
				t.Errorf("%+v wants %+v: %t, want %t", c.spec, c.event, got, c.want)
			}
		})
	}
}

// hears reports which of all kinds of event a monitor with these detections hears.
func hears(d Detections) (heard []bool) {
	m := Monitor{ID: "m1", MonitorSpec: MonitorSpec{Detections: d}}
	for _, w := range append([]Word{""}, Words[:]...) {
		for _, kind := range []Kind{KindDeployment, KindInstance, KindMonitor} {
			heard = append(heard, m.Wants(&Event{Kind: kind, Word: w}))
		}
	}
	return heard
}

func TestDetections(t *testing.T) {
	three := Detections(Words[:])
	for name, c := range map[string]struct {
		in   string
		want Detections
		out  string
	}{
		"all":              {`"all"`, Detections{"all"}, `"all"`},
		"all, in a list":   {`["all"]`, Detections{"all"}, `"all"`},
		"one word":         {`"FAIL DETECTED"`, Detections{FailDetected}, `["FAIL DETECTED"]`},
		"a list of one":    {`["FAIL DETECTED"]`, Detections{FailDetected}, `["FAIL DETECTED"]`},
		"a list of two":    {`["FAIL DETECTED", "START DETECTED"]`, Detections{FailDetected, StartDetected}, `["FAIL DETECTED","START DETECTED"]`},
		"a list of three":  {`["START DETECTED","FAIL DETECTED","STOP DETECTED"]`, three, `["START DETECTED","FAIL DETECTED","STOP DETECTED"]`},
		"an empty list":    {`[]`, Detections{}, `["START DETECTED","FAIL DETECTED","STOP DETECTED"]`},
		"all beside words": {`["FAIL DETECTED","all"]`, Detections{FailDetected, "all"}, `"all"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Detections{StopDetected} // what was there before does not stay
			if err := json.Unmarshal([]byte(c.in), &got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("read %q, want %q", got, c.want)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			out, err := json.Marshal(got)
			if err != nil || string(out) != c.out {
				t.Errorf("wrote %s, %v; want %s", out, err, c.out)
			}
		})
	}
}

func TestDetectionsInAForm(t *testing.T) {
	for text, want := range map[string]Detections{
		"all":                            {"all"},
		"FAIL DETECTED":                  {FailDetected},
		"FAIL DETECTED,STOP DETECTED":    {FailDetected, StopDetected},
		" FAIL DETECTED , STOP DETECTED": {FailDetected, StopDetected},
	} {
		got := Detections{StartDetected}
		if err := got.UnmarshalText([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: read %q, %v; want %q", text, got, err, want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDetectionsThatAreNone(t *testing.T) {
	for _, in := range []string{`"fail detected"`, `"FAIL"`, `"FAIL_DETECTED"`, `["FAIL DETECTED","BOOM"]`, `"ALL"`, `[""]`, `""`, `"FAIL DETECTED\u0000"`,
		`"` + strings.Repeat("x", 5000) + `"`, `7`, `true`, `{}`, `[7]`, `["all",null]`, `[["all"]]`, `{"all":true}`} {
		var d Detections
		err := json.Unmarshal([]byte(in), &d)
		if err == nil {
			if err = d.Validate(); field(err) != "detections" {
				t.Errorf("%.40s: read %q, %v; want an error that names detections", in, d, err)
			}
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.40s: the error echoes %d bytes", in, len(err.Error()))
		}
	}
}

func TestDetectionsComeBackAsTheyWere(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		var d Detections
		for range r.IntN(5) {
			d = append(d, pick(r, StartDetected, FailDetected, StopDetected, everything))
		}
		data, err := json.Marshal(MonitorSpec{Detections: d})
		if err != nil {
			return err
		}
		var back MonitorSpec
		if err := json.Unmarshal(data, &back); err != nil {
			return fmt.Errorf("%s: %w", data, err)
		}
		if !reflect.DeepEqual(hears(back.Detections), hears(d)) {
			return fmt.Errorf("%q became %s and then %q", d, data, back.Detections)
		}
		return nil
	})
}

func TestAGapIsToldToWhoLostByItAndToWhoWatchesAll(t *testing.T) {
	gap := Event{Type: LogGap, Kind: KindLog, SubjectID: "m", DeploymentID: "shop"}
	gap.Scope, gap.Lost = "deployment:shop", 3
	if got, want := ScopesOf(&gap), []Scope{Global, "deployment:shop"}; !slices.Equal(got, want) {
		t.Errorf("it lies in %v, want %v", got, want)
	}
	for name, tc := range map[string]struct {
		id   string
		spec MonitorSpec
		want bool
	}{
		"who lost":                       {"m", MonitorSpec{Scope: "deployment:shop", Subjects: OnlyInstances, Detections: Detections{StopDetected}}, true},
		"who watches all":                {"other", MonitorSpec{Scope: Global, Detections: Detections{"all"}}, true},
		"who watches all instances":      {"other", MonitorSpec{Scope: Global, Subjects: OnlyInstances, Detections: Detections{"all"}}, false},
		"who watches the three words":    {"other", MonitorSpec{Scope: Global}, false},
		"who watches all of this scope":  {"other", MonitorSpec{Scope: "deployment:shop", Detections: Detections{"all"}}, false},
		"who watches all of another one": {"other", MonitorSpec{Scope: "pool:east", Detections: Detections{"all"}}, false},
	} {
		m := Monitor{ID: tc.id, MonitorSpec: tc.spec}
		if got := m.Wants(&gap); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
