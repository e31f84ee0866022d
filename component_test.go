package windsock

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var allOccasions = []Occasion{OnReady, OnOpen, OnStarted, OnSuccess, OnFailure, OnDeadline, OnCancel, OnRetry, OnRenewal}

func TestComponentIsOverUntilSomebodySaysOtherwise(t *testing.T) {
	for _, s := range ComponentStates {
		for _, on := range allOccasions {
			next, ok := s.Next(on)
			switch {
			case !slices.Contains(ComponentStates[:], next):
				t.Errorf("%s on %s: %q is no state", s, on, next)
			case !ok && next != s:
				t.Errorf("%s on %s: nothing happens, and it is %s", s, on, next)
			case on == OnRenewal && next != ComponentWaiting:
				t.Errorf("%s on %s: it is %s", s, on, next)
			case s.Final() && ok && on != OnRetry && on != OnRenewal, s == ComponentComplete && ok && on != OnRenewal:
				t.Errorf("%s on %s: it is %s although it was over", s, on, next)
			case !s.Final() && !ok && (on == OnSuccess || on == OnFailure || on == OnCancel):
				t.Errorf("%s on %s: it cannot end", s, on)
			case s == ComponentWaiting && next == ComponentTimedOut:
				t.Errorf("it is too late for what it was never given")
			}
		}
		if s.Final() && s.Offered() || s.Done() && !s.Final() {
			t.Errorf("%s is what it cannot be", s)
		}
	}
}

func TestComponentsMakeADeploymentNoBetter(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 10_000 {
		tally := ComponentTally{}
		for range r.IntN(5) {
			tally[Phase{ActionCreate, ComponentStates[r.IntN(len(ComponentStates))]}] += 1 + r.IntN(3)
		}
		state := DeploymentStates[r.IntN(len(DeploymentStates))]
		expected := []State{Running, Stopped, Gone}[r.IntN(3)]
		got, reason := tally.Rollup(state, "why", expected, func() string { return "component a failed" })
		failed, pending := 0, 0
		for p, n := range tally {
			if p.State == ComponentFailed || p.State == ComponentTimedOut {
				failed += n
			} else if !p.State.Done() {
				pending += n
			}
		}
		said := fmt.Sprintf("seed %d: %s, expected %s, with %v: %s (%s)", seed, state, expected, tally, got, reason)
		switch {
		case state == Gone && got != Gone, got.severity() < state.severity():
			t.Fatal(said)
		case failed > 0 && state != Gone && got != Failed:
			t.Fatal(said)
		case failed > 0 && state != Failed && state != Gone && !strings.Contains(reason, "component a failed"):
			t.Fatal(said)
		case failed == 0 && pending == 0 && (got != state || reason != "why"):
			t.Fatal(said)
		case failed == 0 && pending > 0 && got == Running:
			t.Fatal(said)
		}
	}
}

func TestFailureNamesWhatAndWhere(t *testing.T) {
	tests := map[string]struct {
		component Component
		want      string
	}{
		"on an instance":    {Component{Name: "db", Instance: "s", InstanceID: "s-1", State: ComponentFailed, Reason: "disk full"}, "component db on s-1 failed: disk full"},
		"none there":        {Component{Name: "db", Instance: "s", State: ComponentTimedOut}, "component db on s timed out"},
		"of a condition":    {Component{Name: "w", State: ComponentFailed, Reason: "no"}, "component w failed: no"},
		"without a reason":  {Component{Name: "w", State: ComponentFailed}, "component w failed"},
		"with a long state": {Component{Name: "w", State: ComponentTimedOut, Reason: "1 of 2"}, "component w timed out: 1 of 2"},
	}
	for name, tc := range tests {
		if got := tc.component.Failure(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// longest is how long the longest chain is that ends with each component, by trying all.
func longest(cs []Component, name string) (took time.Duration) {
	for _, c := range cs {
		if c.Name != name {
			continue
		}
		for _, before := range c.After {
			took = max(took, longest(cs, before))
		}
		return took + max(c.FinishedAt.Sub(c.AvailableAt), 0)
	}
	return 0
}

func TestCriticalPathIsTheLongestChain(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for range 2000 {
		var cs []Component
		for i := range r.IntN(9) {
			c := Component{Name: fmt.Sprint(i), AvailableAt: noon, FinishedAt: noon.Add(time.Duration(r.IntN(4)) * time.Second)}
			for before := range i {
				if r.IntN(3) == 0 {
					c.After = append(c.After, fmt.Sprint(before))
				}
			}
			cs = append(cs, c)
		}
		want := time.Duration(0)
		for _, c := range cs {
			want = max(want, longest(cs, c.Name))
		}
		r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
		path, took := CriticalPath(cs, noon)
		sum := time.Duration(0)
		for i, name := range path {
			c := cs[slices.IndexFunc(cs, func(c Component) bool { return c.Name == name })]
			sum += c.FinishedAt.Sub(c.AvailableAt)
			if i > 0 && !slices.Contains(c.After, path[i-1]) {
				t.Fatalf("seed %d: %s does not come after %s in %v", seed, name, path[i-1], cs)
			}
		}
		if took != want || sum != want {
			t.Fatalf("seed %d: %v takes %s, said are %s, the longest is %s: %v", seed, path, sum, took, want, cs)
		}
	}
}

func TestCriticalPathCountsWhatIsUnderWay(t *testing.T) {
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	path, took := CriticalPath([]Component{
		{Name: "b", After: []string{"a", "gone"}, AvailableAt: noon.Add(time.Second)},
		{Name: "a", AvailableAt: noon, FinishedAt: noon.Add(time.Second)},
		{Name: "c", After: []string{"b"}},
	}, noon.Add(3*time.Second))
	if !slices.Equal(path, []string{"a", "b"}) || took != 3*time.Second {
		t.Errorf("%v takes %s", path, took)
	}
}

func TestJudge(t *testing.T) {
	declared := []Output{{Name: "ip"}, {Name: "trouble", Error: true}, {Name: "worse", Error: true}}
	tests := map[string]struct {
		signal Signal
		status SignalStatus
		reason string
		kept   string // JSON
	}{
		"nothing":                 {Signal{}, SignalSuccess, "", `{}`},
		"as it says":              {Signal{Status: SignalFailure, Reason: "no"}, SignalFailure, "no", `{}`},
		"status 0":                {Signal{Outputs: map[string]any{"deploy_status_code": 0.0}}, SignalSuccess, "", `{"deploy_status_code":0}`},
		"status 0 as text":        {Signal{Outputs: map[string]any{"deploy_status_code": "0"}}, SignalSuccess, "", `{"deploy_status_code":"0"}`},
		"status null":             {Signal{Outputs: map[string]any{"deploy_status_code": nil}}, SignalSuccess, "", `{"deploy_status_code":null}`},
		"status 1":                {Signal{Outputs: map[string]any{"deploy_status_code": 1.0}}, SignalFailure, "exit status 1", `{"deploy_status_code":1}`},
		"status 1 with a reason":  {Signal{Reason: "no hook", Outputs: map[string]any{"deploy_status_code": " 1 "}}, SignalFailure, "no hook", `{"deploy_status_code":" 1 "}`},
		"error outputs":           {Signal{Outputs: map[string]any{"worse": []any{1.0}, "trouble": "disk full", "ip": "x"}}, SignalFailure, "trouble : disk full, worse : [1]", `{"ip":"x","trouble":"disk full","worse":[1]}`},
		"empty error outputs":     {Signal{Outputs: map[string]any{"worse": nil, "trouble": ""}}, SignalSuccess, "", `{"trouble":"","worse":null}`},
		"what nobody declared":    {Signal{Outputs: map[string]any{"other": "x", "deploy_stdout": "out", "deploy_stderr": "err"}}, SignalSuccess, "", `{"deploy_stderr":"err","deploy_stdout":"out"}`},
		"bytes that are no UTF-8": {Signal{Outputs: map[string]any{"ip": "a\xffb"}}, SignalSuccess, "", `{"ip":"a` + "\ufffd" + `b"}`},
	}
	for name, tc := range tests {
		k, err := tc.signal.Keep()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		status, reason := tc.signal.Judge(declared, k)
		kept, _ := json.Marshal(k.Values)
		var got, want any
		json.Unmarshal(kept, &got)
		if err := json.Unmarshal([]byte(tc.kept), &want); err != nil {
			t.Fatal(err)
		}
		if status != tc.status || reason != tc.reason || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s (%s) with %s; want %s (%s) with %s", name, status, reason, kept, tc.status, tc.reason, tc.kept)
		}
	}
}

func TestCutKeepsBothEndsAndWholeCharacters(t *testing.T) {
	long := strings.Repeat("ä", keptLog)
	s := Signal{Outputs: map[string]any{"deploy_stderr": "a" + long + "z", "ip": map[string]any{"k": strings.Repeat("<", keptOutput)}}}
	k, err := s.Keep()
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal(k.Values["deploy_stderr"], &text); err != nil {
		t.Fatal(err)
	}
	head, tail, _ := strings.Cut(text, "\n[… ")
	left := 2*keptLog + 2 - len(head) - len(tail[strings.Index(tail, "]\n")+2:])
	if !strings.HasPrefix(text, "aä") || !strings.HasSuffix(text, "äz") || strings.Contains(text, "\ufffd") || !strings.Contains(text, fmt.Sprintf("[… %d bytes left out …]", left)) {
		t.Errorf("kept is %s … %s, %d are left out", text[:10], text[len(text)-10:], left)
	}
	status, reason := s.Judge([]Output{{Name: "ip"}}, k)
	if status != SignalSuccess || !strings.Contains(reason, "output ip is kept only in part") || json.Unmarshal(k.Values["ip"], &text) != nil {
		t.Errorf("%s: %s", status, reason)
	}
}
