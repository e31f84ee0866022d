package reports

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"windsock"
)

// bodies are one of each rule that windsock comes with, as it is sent.
func bodies(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{
		"alertmanager": file(t, "alertmanager.json"),
		"grafana":      file(t, "grafana.json"),
		"heat":         `{"resource":"web-1","mark_unhealthy":true,"resource_status_reason":"it smokes"}`,
		"kubernetes":   lines(t, "kubernetes.ndjson")[0],
		"masakari":     `{"notification":{"type":"COMPUTE_HOST","hostname":"node1","generated_time":"2026-06-21T11:00:00","payload":{"event":"STOPPED","host_status":"NORMAL","cluster_status":"OFFLINE"}}}`,
		"nagios":       `{"reports":[{"host":"web-1","service":"HTTP","state":"CRITICAL","state_type":"HARD"},{"host":"web-2","state":"DOWN"}]}`,
		"pacemaker":    lines(t, "pacemaker.ndjson")[0],
	}
	if got, want := slices.Sorted(maps.Keys(all)), Builtin().Names(); !slices.Equal(got, want) {
		t.Fatalf("there are bodies of %q, and rules %q", got, want)
	}
	return all
}

// What is sent comes in many versions, and not always whole. It is understood, or refused as a
// whole with the field that is wrong.
func TestFaultsOfEachRule(t *testing.T) {
	rules := Builtin()
	for name, body := range bodies(t) {
		want := told(read(t, name, body))
		if len(want) == 0 {
			t.Errorf("%s: the body says nothing", name)
		}
		var whole map[string]any
		if err := json.Unmarshal([]byte(body), &whole); err != nil {
			t.Fatal(err)
		}
		text := func(v any) string {
			t.Helper()
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		expect(t, name+" with fields that are new", told(read(t, name, text(grown(whole)))), want)

		for end := range strings.TrimRight(body, "\n") {
			refused(t, rules, name, body[:end])
		}
		without(whole, func(field string) {
			if report, err := rules.Read(name, []byte(text(whole)), noon); err != nil {
				refused(t, rules, name, text(whole))
			} else if len(told(report)) > len(want) {
				t.Errorf("%s without %s says more: %q", name, field, told(report))
			}
		})
	}
}

// refused has a body be refused, with the field.
func refused(t *testing.T, rules Rules, rule, body string) {
	t.Helper()
	report, err := rules.Read(rule, []byte(body), noon)
	var invalid *windsock.FieldError
	if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Detail == "" || len(report.Readings) > 0 {
		t.Errorf("%s: %s is read as %+v, %v", rule, body, report, err)
	}
}

// grown is a value whose objects all have a field more.
func grown(v any) any {
	switch v := v.(type) {
	case map[string]any:
		more := map[string]any{"addedByALaterVersion": map[string]any{"a": []any{1, nil}}}
		for k, inner := range v {
			if more[k] = grown(inner); k == "labels" || k == "annotations" {
				more[k] = inner // of which all are text
			}
		}
		return more
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = grown(v[i])
		}
		return list
	}
	return v
}

// without calls f while each of the fields in turn, at any depth, is away.
func without(v any, f func(field string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			was := v[k]
			without(was, f)
			delete(v, k)
			f(k)
			v[k] = was
		}
	case []any:
		for i := range v {
			without(v[i], f)
		}
	}
}

// The webhook of Grafana: one alert of a rule fires, one ended, and two say only that there
// were no data.
func TestGrafana(t *testing.T) {
	report := read(t, "grafana", file(t, "grafana.json"))
	expect(t, "told", told(report), []string{
		"FAIL instance web-1 by grafana:c6eadffa33fcdf37: Probe fails: web-1 does not answer",
		"START instance web-2 by grafana:bc97ff14869b13e3: Probe fails: web-2 does not answer",
		"- Grafana could not look",
		"- it is not the rule that says so",
	})
	if report.Omitted != 2 {
		t.Errorf("%d were left out, it says 2", report.Omitted)
	}
	refused(t, Builtin(), "alertmanager", file(t, "grafana.json")) // which is of another version
}
